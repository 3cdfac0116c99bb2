/* What the fake CUDA and HIP drivers share. They check that they are called as the real ones must
 * be: any breach is an error return and a line in the file $FAKE_GPU_LOG, and so is what is still
 * there when the process ends. Calls are listed in $FAKE_GPU_TRACE.
 *
 *   FAKE_GPU_FAIL     `cuModuleLoadDataEx:222,cuStreamSynchronize:702:2`: the call fails with this
 *                     code, always or the second time
 *   FAKE_GPU_DEVICES  how many there are (1)
 *   FAKE_GPU_MEMORY   bytes of memory that the device has (1 GiB)
 *
 * Kernels do what their names say: `twice` and `plus_one` take two memrefs of f32 of rank 1, from
 * and to; any other kernel does nothing. Each block takes 1500 ns on a clock of their own.
 */
#include "fake_core.h"

/* --- Devices --- */
DRIVER(cuInit, hipInit, u32 flags) {
    BEGIN(cuInit, hipInit, NOTHING);
    if (flags) REFUSE(INVALID_VALUE, "flags %u", flags);
    started = 1;
    return 0;
}

DRIVER(cuDeviceGetCount, hipGetDeviceCount, int *count) {
    BEGIN(cuDeviceGetCount, hipGetDeviceCount, STARTED);
    *count = (int)setting("FAKE_GPU_DEVICES", 1);
    return 0;
}

DRIVER(cuDeviceGet, hipDeviceGet, int *device, int index) {
    BEGIN(cuDeviceGet, hipDeviceGet, STARTED);
    if (index < 0 || index >= setting("FAKE_GPU_DEVICES", 1)) REFUSE(101, "device %d", index);
    *device = index;
    return 0;
}

DRIVER(cuDeviceGetName, hipDeviceGetName, char *name, int size, int device) {
    BEGIN(cuDeviceGetName, hipDeviceGetName, STARTED);
    snprintf(name, (usize)size, "Fake \"%d\"", device);
    return 0;
}

DRIVER(cuDeviceTotalMem_v2, hipDeviceTotalMem, usize *bytes, int device) {
    BEGIN(cuDeviceTotalMem_v2, hipDeviceTotalMem, STARTED);
    if (device < 0) REFUSE(101, "device %d", device);
    *bytes = (usize)setting("FAKE_GPU_MEMORY", 1 << 30);
    return 0;
}

/* --- Memory --- */
static int allocate(const char *call, int kind, void **pointer, usize size) {
    if (!pointer || !size) REFUSE(INVALID_VALUE, "%zu bytes", size);
    if (used + size > (usize)setting("FAKE_GPU_MEMORY", 1 << 30)) return OUT_OF_MEMORY;
    struct thing *thing = add(kind);
    thing->size = size;
    thing->memory = aligned_alloc(256, (size + 255) / 256 * 256);
    memset(thing->memory, 0xcd, size);
    used += size;
    *pointer = thing->memory;
    return 0;
}

static int release(const char *call, int kind, void *pointer) {
    struct thing *thing = memory_of(pointer, 1);
    if (!thing || thing->memory != pointer) REFUSE(INVALID_VALUE, "%p is no allocation", pointer);
    if (thing->kind != kind) REFUSE(INVALID_VALUE, "%s, not %s", kinds[thing->kind], kinds[kind]);
    used -= thing->size;
    free(thing->memory);
    drop(thing);
    return 0;
}

DRIVER(cuMemAlloc_v2, hipMalloc, void **pointer, usize size) {
    BEGIN(cuMemAlloc_v2, hipMalloc, CONTEXT);
    return allocate(call, MEMORY, pointer, size);
}

DRIVER(cuMemAllocManaged, hipMallocManaged, void **pointer, usize size, u32 flags) {
    BEGIN(cuMemAllocManaged, hipMallocManaged, CONTEXT);
    if (flags != 1) REFUSE(INVALID_VALUE, "flags %u", flags);
    return allocate(call, MEMORY, pointer, size);
}

DRIVER(cuMemHostAlloc, hipHostMalloc, void **pointer, usize size, u32 flags) {
    BEGIN(cuMemHostAlloc, hipHostMalloc, CONTEXT);
    if (flags & ~7u) REFUSE(INVALID_VALUE, "flags %u", flags);
    return allocate(call, HOST_MEMORY, pointer, size);
}

DRIVER(cuMemFree_v2, hipFree, void *pointer) {
    BEGIN(cuMemFree_v2, hipFree, CONTEXT);
    return release(call, MEMORY, pointer);
}

DRIVER(cuMemFreeHost, hipHostFree, void *pointer) {
    BEGIN(cuMemFreeHost, hipHostFree, CONTEXT);
    return release(call, HOST_MEMORY, pointer);
}

/* --- Streams and events --- */
#define CHECK_STREAM()                                                                             \
    if (stream && !find(STREAM, stream)) REFUSE(INVALID_HANDLE, "%p is no stream", stream)
#define FIND_EVENT(handle)                                                                         \
    find(EVENT, handle);                                                                           \
    if (!find(EVENT, handle)) REFUSE(INVALID_HANDLE, "%p is no event", handle)

static int fill(const char *call, u8 *pointer, const void *value, usize width, usize count) {
    if (!memory_of(pointer, width * count)) REFUSE(INVALID_VALUE, "%p is not memory", (void *)pointer);
    for (usize i = 0; i < count; ++i) memcpy(pointer + i * width, value, width);
    return 0;
}

DRIVER(cuMemsetD32Async, hipMemsetD32Async, void *pointer, u32 value, usize count, void *stream) {
    BEGIN(cuMemsetD32Async, hipMemsetD32Async, CONTEXT);
    CHECK_STREAM();
    return fill(call, pointer, &value, sizeof value, count);
}

DRIVER(cuMemsetD16Async, hipMemsetD16Async, void *pointer, u16 value, usize count, void *stream) {
    BEGIN(cuMemsetD16Async, hipMemsetD16Async, CONTEXT);
    CHECK_STREAM();
    return fill(call, pointer, &value, sizeof value, count);
}

DRIVER(cuStreamCreate, hipStreamCreateWithFlags, void **stream, u32 flags) {
    BEGIN(cuStreamCreate, hipStreamCreateWithFlags, CONTEXT);
    if (flags > 1) REFUSE(INVALID_VALUE, "flags %u", flags);
    *stream = add(STREAM);
    return 0;
}

DRIVER(cuStreamDestroy_v2, hipStreamDestroy, void *stream) {
    BEGIN(cuStreamDestroy_v2, hipStreamDestroy, CONTEXT);
    if (!find(STREAM, stream)) REFUSE(INVALID_HANDLE, "%p is no stream", stream);
    drop(stream);
    return 0;
}

DRIVER(cuStreamSynchronize, hipStreamSynchronize, void *stream) {
    BEGIN(cuStreamSynchronize, hipStreamSynchronize, CONTEXT);
    CHECK_STREAM();
    return 0;
}

DRIVER(cuStreamWaitEvent, hipStreamWaitEvent, void *stream, void *event, u32 flags) {
    BEGIN(cuStreamWaitEvent, hipStreamWaitEvent, CONTEXT);
    CHECK_STREAM();
    (void)FIND_EVENT(event);
    if (flags) REFUSE(INVALID_VALUE, "flags %u", flags);
    return 0;
}

DRIVER(cuEventCreate, hipEventCreateWithFlags, void **event, u32 flags) {
    BEGIN(cuEventCreate, hipEventCreateWithFlags, CONTEXT);
    if (flags & ~3u) REFUSE(INVALID_VALUE, "flags %u", flags);
    struct thing *made = add(EVENT);
    made->untimed = (flags & 2) != 0;
    *event = made;
    return 0;
}

DRIVER(cuEventDestroy_v2, hipEventDestroy, void *event) {
    BEGIN(cuEventDestroy_v2, hipEventDestroy, CONTEXT);
    struct thing *found = FIND_EVENT(event);
    drop(found);
    return 0;
}

DRIVER(cuEventRecord, hipEventRecord, void *event, void *stream) {
    BEGIN(cuEventRecord, hipEventRecord, CONTEXT);
    CHECK_STREAM();
    struct thing *found = FIND_EVENT(event);
    found->recorded = 1;
    found->at = now_ns;
    return 0;
}

DRIVER(cuEventSynchronize, hipEventSynchronize, void *event) {
    BEGIN(cuEventSynchronize, hipEventSynchronize, CONTEXT);
    (void)FIND_EVENT(event);
    return 0;
}

DRIVER(cuEventElapsedTime, hipEventElapsedTime, float *ms, void *before, void *after) {
    BEGIN(cuEventElapsedTime, hipEventElapsedTime, CONTEXT);
    struct thing *first = FIND_EVENT(before);
    struct thing *last = FIND_EVENT(after);
    if (!first->recorded || !last->recorded) REFUSE(INVALID_HANDLE, "an event was not recorded");
    if (first->untimed || last->untimed) REFUSE(INVALID_HANDLE, "an event keeps no time");
    *ms = (float)((double)(last->at - first->at) / 1e6);
    return 0;
}

/* --- Modules --- */
/* Given by each vendor: the code of a module checked, and a kernel of it found; 0 or an error. */
static int check_code(const char *call, const char *data, char *log, usize log_size);
static int find_kernel(const char *call, struct thing *function);

static int load(const char *call, void **module, const void *data, char *log, usize log_size) {
    if (!module || !data) REFUSE(INVALID_VALUE, "no module or no code");
    int code = check_code(call, data, log, log_size);
    if (code) return code;
    struct thing *made = add(MODULE);
    made->code = data;
    *module = made;
    return 0;
}

DRIVER(cuModuleUnload, hipModuleUnload, void *module) {
    BEGIN(cuModuleUnload, hipModuleUnload, CONTEXT);
    if (!find(MODULE, module)) REFUSE(INVALID_HANDLE, "%p is no module", module);
    for (struct thing *thing = things; thing;) {
        struct thing *next = thing->next;
        if (thing->owner == module) drop(thing);
        thing = next;
    }
    drop(module);
    return 0;
}

DRIVER(cuModuleGetFunction, hipModuleGetFunction, void **function, void *module, const char *name) {
    BEGIN(cuModuleGetFunction, hipModuleGetFunction, CONTEXT);
    struct thing *owner = find(MODULE, module);
    if (!owner) REFUSE(INVALID_HANDLE, "%p is no module", module);
    struct thing *made = add(FUNCTION);
    made->owner = owner;
    made->allowed = DEFAULT_SHARED;
    made->threads = MOST_THREADS;
    snprintf(made->name, sizeof made->name, "%s", name);
    int refused = find_kernel(call, made);
    if (refused) drop(made);
    else *function = made;
    return refused;
}

DRIVER(cuFuncGetAttribute, hipFuncGetAttribute, int *value, int attribute, void *function) {
    BEGIN(cuFuncGetAttribute, hipFuncGetAttribute, CONTEXT);
    struct thing *found = find(FUNCTION, function);
    if (!found) REFUSE(INVALID_HANDLE, "%p is no function", function);
    if (attribute != 1) REFUSE(INVALID_VALUE, "attribute %d", attribute);
    *value = found->shared;
    return 0;
}

/* --- Launches --- */
/* One memref of f32 of rank 1 among a kernel's parameters: allocated, aligned, offset, size, stride. */
static float *memref(void **params, i64 index) {
    float *aligned = *(float **)params[1];
    i64 offset = *(i64 *)params[2], stride = *(i64 *)params[4];
    return aligned + offset + index * stride;
}

static int execute(const char *call, struct thing *function, usize threads, void **params) {
    _Bool twice = strcmp(function->name, "twice") == 0;
    if (!twice && strcmp(function->name, "plus_one") != 0) return 0;
    i64 size = *(i64 *)params[3];
    for (i64 i = 0; i < size && (usize)i < threads; ++i) {
        float *from = memref(params, i), *to = memref(params + 5, i);
        if (!memory_of(from, sizeof *from) || !memory_of(to, sizeof *to)) {
            poisoned = ILLEGAL_ADDRESS; /* the launch itself succeeds: the next call tells */
            breach(call, "%s reads %p and writes %p", function->name, (void *)from, (void *)to);
            return 0;
        }
        *to = twice ? 2 * *from : *from + 1;
    }
    return 0;
}

DRIVER(cuLaunchKernel, hipModuleLaunchKernel, void *function, u32 grid_x, u32 grid_y, u32 grid_z,
       u32 block_x, u32 block_y, u32 block_z, u32 shared, void *stream, void **params,
       void **extra) {
    BEGIN(cuLaunchKernel, hipModuleLaunchKernel, CONTEXT);
    CHECK_STREAM();
    struct thing *found = find(FUNCTION, function);
    if (!found) REFUSE(INVALID_HANDLE, "%p is no function", function);
    if (!grid_x || !grid_y || !grid_z || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535)
        REFUSE(INVALID_VALUE, "grid %u %u %u", grid_x, grid_y, grid_z);
    usize block = (usize)block_x * block_y * block_z;
    if (!block || block > MOST_THREADS || block_z > 64) REFUSE(INVALID_VALUE, "block %zu", block);
    if (block > (usize)found->threads) REFUSE(INVALID_VALUE, "more than .maxntid: %zu", block);
    if ((int)shared > found->allowed || (int)shared + found->shared > MOST_SHARED)
        REFUSE(INVALID_VALUE, "%u bytes of shared memory", shared);
    if (extra) REFUSE(INVALID_VALUE, "`extra` beside `params`");
    for (int i = 0; i < found->params; ++i) {
        if (!params || !params[i]) REFUSE(INVALID_VALUE, "parameter %d is missing", i);
        void *value = found->pointer[i] ? *(void **)params[i] : 0;
        if (value && !memory_of(value, 1)) breach(call, "parameter %d: %p is not memory", i, value);
    }
    now_ns += (u64)BLOCK_NS * grid_x;
    return execute(call, found, (usize)grid_x * grid_y * grid_z * block, params);
}
