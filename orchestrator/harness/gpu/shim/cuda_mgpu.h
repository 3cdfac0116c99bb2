/* The mgpu* entry points on calls that CUDA and HIP share; cuda.c and hip.c define the rest. */
#ifndef LH_CUDA_MGPU_H
#define LH_CUDA_MGPU_H

#include "cuda_like.h"

/* Numbers of flags and attributes that both vendors share. */
enum {
    LH_NON_BLOCKING = 1,
    LH_ATTACH_GLOBAL = 1,
    LH_PORTABLE_AND_MAPPED = 3,
    LH_DISABLE_TIMING = 2,
    LH_FUNCTION_SHARED_BYTES = 1,
};

/* Copies between any two addresses. */
static _Bool lh_copy(void *target, void *source, usize size, void *stream);
/* Lets launches of a kernel have this much dynamic shared memory. */
static _Bool lh_allow_shared(void *function, int bytes);
/* How many parameters a kernel takes; -1 where the driver does not tell. */
static int lh_count_params(void *function);
/* Gives the context back. */
static void lh_release(void);

/* --- Modules and kernels: what the host code has in hand is ours, not the driver's --- */
struct lh_kernel {
    struct lh_kernel *next;
    void *function;
    int static_shared, allowed_shared;
    int params; /* how many it takes; -1 where the driver does not tell */
    char name[];
};
struct lh_module {
    struct lh_module *next;
    void *handle;
    struct lh_kernel *kernels;
};
static struct lh_module *lh_module_list;

static struct lh_module *lh_module_add(void *handle) {
    struct lh_module *module = malloc(sizeof *module);
    if (!module) {
        lh_fail(LH_MEMORY, "the host has no memory left");
        api_module_unload(handle);
        return 0;
    }
    *module = (struct lh_module){.next = lh_module_list, .handle = handle};
    lh_module_list = module;
    ++lh_modules;
    return module;
}

void mgpuModuleUnload(void *module) {
    struct lh_module **link = &lh_module_list;
    while (*link && *link != module) link = &(*link)->next;
    if (!*link || !lh_reenter()) return; /* never loaded, or unloaded by lh_close */
    struct lh_module *found = *link;
    *link = found->next;
    --lh_modules;
    lh_last_kernel = ""; /* its name is ours */
    LH_CALL(module_unload, found->handle);
    while (found->kernels) {
        struct lh_kernel *kernel = found->kernels;
        found->kernels = kernel->next;
        free(kernel);
    }
    free(found);
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    if (!module || !lh_enter()) return 0;
    struct lh_module *owner = module;
    for (struct lh_kernel *kernel = owner->kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0) return kernel;
    void *function = 0;
    int code = api_module_function(&function, owner->handle, name);
    if (code) lh_fail_code(code, lh_calls[LH_ID_module_function].name, name);
    usize size = strlen(name) + 1;
    struct lh_kernel *kernel = code ? 0 : malloc(sizeof *kernel + size);
    if (!kernel) return 0;
    *kernel = (struct lh_kernel){.next = owner->kernels, .function = function};
    memcpy(kernel->name, name, size);
    kernel->params = lh_count_params(function);
    api_function_attribute(&kernel->static_shared, LH_FUNCTION_SHARED_BYTES, function);
    owner->kernels = kernel;
    return kernel;
}

/* --- Time on the device: events before and after each launch --- */
struct lh_timed {
    void *stream, *before, *after;
};
static struct lh_timed lh_timed[64]; /* the first `lh_timed_count` wait to be counted */
static usize lh_timed_count;
static u64 lh_kernel_ns;

static void lh_forget_times(void) {
    lh_timed_count = 0;
    lh_kernel_ns = 0;
}

/* Counts the launches of one stream, or all, that have ended; waits for them. */
static void lh_settle(void *stream, _Bool all) {
    for (usize i = lh_timed_count; i-- > 0;) {
        struct lh_timed timed = lh_timed[i];
        if (!all && timed.stream != stream) continue;
        float ms = 0;
        if (!LH_CALL(event_synchronize, timed.after)) return;
        if (!LH_CALL(event_elapsed, &ms, timed.before, timed.after)) return;
        lh_kernel_ns += (u64)((double)ms * 1e6 + 0.5);
        lh_timed[i] = lh_timed[--lh_timed_count]; /* its events are used again */
        lh_timed[lh_timed_count] = timed;
    }
}

/* The slot of the next launch, or NULL after an error was kept. */
static struct lh_timed *lh_time(void *stream) {
    if (lh_timed_count == sizeof lh_timed / sizeof *lh_timed) lh_settle(0, 1);
    if (lh_failed()) return 0;
    struct lh_timed *timed = &lh_timed[lh_timed_count];
    timed->stream = stream;
    if (!timed->before && !LH_CALL(event_create, &timed->before, 0)) return 0;
    if (!timed->after && !LH_CALL(event_create, &timed->after, 0)) return 0;
    return LH_CALL(event_record, timed->before, stream) ? timed : 0;
}

u64 lh_gpu_kernel_ns(void) {
    if (lh_enter()) lh_settle(0, 1);
    return lh_kernel_ns;
}

/* --- Launches --- */
static _Bool lh_fits(const isize *size, const int *limit) {
    for (int i = 0; i < 3; ++i)
        if (size[i] < 0 || size[i] > limit[i]) return 0;
    return 1;
}

/* Says what a device does not take in clear words: the driver only says INVALID_VALUE. */
static _Bool lh_launchable(const struct lh_kernel *kernel, const isize *grid, const isize *block,
                           i32 dynamic) {
    const int *most = lh_device.block;
    if (!lh_fits(block, most) || block[0] * block[1] * block[2] > lh_device.threads)
        lh_fail(LH_PROGRAM,
                "kernel %s: a block of %zd x %zd x %zd threads; this device takes %d x %d x %d and "
                "%d in all", kernel->name, block[0], block[1], block[2], most[0], most[1], most[2],
                lh_device.threads);
    most = lh_device.grid;
    if (!lh_fits(grid, most))
        lh_fail(LH_PROGRAM, "kernel %s: %zd x %zd x %zd blocks; this device takes %d x %d x %d",
                kernel->name, grid[0], grid[1], grid[2], most[0], most[1], most[2]);
    i64 shared = (i64)kernel->static_shared + dynamic;
    if (dynamic < 0 || shared > lh_device.shared)
        lh_fail(LH_PROGRAM,
                "kernel %s wants %lld bytes of shared memory for a block (%d static, %d dynamic); "
                "this device allows %d", kernel->name, (long long)shared, kernel->static_shared,
                dynamic, lh_device.shared);
    return !lh_failed();
}

void mgpuLaunchKernel(void *function, isize grid_x, isize grid_y, isize grid_z, isize block_x,
                      isize block_y, isize block_z, i32 shared_bytes, void *stream, void **params,
                      void **extra, usize params_count) {
    if (!lh_enter()) return;
    struct lh_kernel *kernel = function;
    if (!kernel) {
        lh_fail_no_kernel();
        return;
    }
    const isize grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    if (!lh_launchable(kernel, grid, block, shared_bytes)) return;
    if (kernel->params >= 0 && (usize)kernel->params != params_count) {
        lh_fail(LH_PROGRAM, "kernel %s takes %d parameters; the host code passes %zu", kernel->name,
                kernel->params, params_count);
        return;
    }
    for (int i = 0; i < 3; ++i)
        if (grid[i] == 0 || block[i] == 0) return; /* no thread: drivers call that an error */
    if (shared_bytes > kernel->allowed_shared) {
        if (!lh_allow_shared(kernel->function, shared_bytes)) return;
        kernel->allowed_shared = shared_bytes;
    }
    struct lh_timed *timed = lh_time(stream);
    if (!timed) return;
    lh_last_kernel = kernel->name;
    int code = api_launch(kernel->function, (u32)grid_x, (u32)grid_y, (u32)grid_z, (u32)block_x,
                          (u32)block_y, (u32)block_z, (u32)shared_bytes, stream, params, extra);
    if (code) lh_fail_code(code, lh_calls[LH_ID_launch].name, code < 700 ? kernel->name : "");
    else if (LH_CALL(event_record, timed->after, stream)) ++lh_timed_count;
}

/* --- Streams and events --- */
void *mgpuStreamCreate(void) {
    void *stream = 0;
    if (!lh_enter() || !LH_CALL(stream_create, &stream, LH_NON_BLOCKING)) return 0;
    ++lh_handles;
    return stream;
}

void mgpuStreamDestroy(void *stream) {
    if (!stream || !lh_reenter()) return;
    --lh_handles;
    LH_CALL(stream_destroy, stream);
}

void mgpuStreamSynchronize(void *stream) {
    if (lh_enter() && LH_CALL(stream_synchronize, stream)) lh_settle(stream, 0);
}

void mgpuStreamWaitEvent(void *stream, void *event) {
    if (lh_enter()) LH_CALL(stream_wait, stream, event, 0);
}

void *mgpuEventCreate(void) {
    void *event = 0;
    if (!lh_enter() || !LH_CALL(event_create, &event, LH_DISABLE_TIMING)) return 0;
    ++lh_handles;
    return event;
}

void mgpuEventDestroy(void *event) {
    if (!event || !lh_reenter()) return;
    --lh_handles;
    LH_CALL(event_destroy, event);
}

void mgpuEventSynchronize(void *event) {
    if (lh_enter()) LH_CALL(event_synchronize, event);
}

void mgpuEventRecord(void *event, void *stream) {
    if (lh_enter()) LH_CALL(event_record, event, stream);
}

/* --- Memory --- */
enum { LH_FREE = 0, LH_FREE_HOST = 1 }; /* a block's first handle: how to free it */

void *mgpuMemAlloc(u64 size, void *stream, _Bool host_shared) {
    (void)stream;
    if (!lh_enter()) return 0;
    void *base = 0;
    usize bytes = size ? size : 1; /* drivers refuse 0 */
    int id = !host_shared ? LH_ID_alloc : lh_device.managed ? LH_ID_alloc_managed : LH_ID_alloc_host;
    int code = id == LH_ID_alloc ? api_alloc(&base, bytes)
               : id == LH_ID_alloc_managed
                   ? api_alloc_managed(&base, bytes, LH_ATTACH_GLOBAL)
                   : api_alloc_host(&base, bytes, LH_PORTABLE_AND_MAPPED);
    if (code) {
        char wanted[64];
        lh_print(wanted, sizeof wanted, "%llu bytes wanted", (unsigned long long)size);
        lh_fail_code(code, lh_calls[id].name, wanted);
        return 0;
    }
    struct lh_block *block = lh_block_add(base, bytes);
    if (block) block->handles[0] = id == LH_ID_alloc_host ? LH_FREE_HOST : LH_FREE;
    return block ? base : 0;
}

void mgpuMemFree(void *pointer, void *stream) {
    (void)stream;
    struct lh_block block;
    if (!lh_reenter() || !lh_block_take(pointer, &block)) return;
    if (block.handles[0] == LH_FREE_HOST) LH_CALL(free_host, block.base);
    else LH_CALL(free, block.base);
}

void mgpuMemcpy(void *target, void *source, usize size, void *stream) {
    if (size && lh_enter()) lh_copy(target, source, size, stream);
}

void mgpuMemset32(void *pointer, u32 value, usize count, void *stream) {
    if (count && lh_enter()) LH_CALL(memset32, pointer, value, count, stream);
}

void mgpuMemset16(void *pointer, u16 value, usize count, void *stream) {
    if (count && lh_enter()) LH_CALL(memset16, pointer, value, count, stream);
}

/* --- The end --- */
static void lh_close(void) {
    if (!lh_reenter()) return;
    while (lh_module_list) mgpuModuleUnload(lh_module_list);
    for (usize i = 0; i < sizeof lh_timed / sizeof *lh_timed; ++i) {
        if (lh_timed[i].before) api_event_destroy(lh_timed[i].before);
        if (lh_timed[i].after) api_event_destroy(lh_timed[i].after);
    }
    lh_release();
}

#endif
