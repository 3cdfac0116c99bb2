/* OpenCL 2.0 and later: kernels take plain pointers into shared virtual memory.
 * https://registry.khronos.org/OpenCL/specs/3.0-unified/html/OpenCL_API.html
 *
 * Kernels come as SPIR-V, or as LLVM bitcode of SPIR 1.2 for drivers that take no SPIR-V but have
 * cl_khr_spir (PoCL as Debian builds it). Devices are numbered GPUs first.
 *
 * LH_GPU_VENDOR names whose devices there are: `intel`, GPUs of Intel's platform; `software`, PoCL on
 * the CPU; nothing, all of all platforms. A cell must not pass on another device than its pool's. */
#include "common.h"

#ifndef LH_DEVICE_NODE /* a test points it elsewhere */
#define LH_DEVICE_NODE "/dev/dri/renderD128"
#endif

enum { CL_MEM_FAILURE = -4, CL_OUT_OF_RESOURCES = -5, CL_OUT_OF_HOST_MEMORY = -6 };
enum { CL_DEVICE_NOT_FOUND = -1, CL_BUILD_FAILURE = -11, CL_NO_PLATFORM = -1001 };
enum { CL_INVALID_ARG_SIZE = -51, CL_ARG_ADDRESS = 0x1196, CL_PRIVATE = 0x119E };
enum { CL_PLATFORM_NAME = 0x0902, CL_PLATFORM_VENDOR = 0x0903, CL_UNITS = 0x1002 };
enum { CL_MAX_BLOCK = 0x1004, CL_CLOCK_MHZ = 0x100C, CL_GLOBAL_MEMORY = 0x101F, CL_LOCAL_MEMORY = 0x1023, CL_NAME = 0x102B,
       CL_DRIVER = 0x102D, CL_VERSION = 0x102F, CL_EXTENSIONS = 0x1030, CL_SVM = 0x1053,
       CL_IL = 0x105B, CL_BUILD_LOG = 0x1183, CL_STARTED = 0x1282, CL_ENDED = 0x1283 };
enum { CL_CPU = 2, CL_GPU = 4, CL_COARSE = 1, CL_FINE = 2, CL_READ_WRITE = 1, CL_FINE_BUFFER = 1 << 10,
       CL_MAP_BOTH = 3, CL_PROFILING = 2 };

static i32 (*clGetPlatformIDs)(u32, void **, u32 *);
static i32 (*clGetPlatformInfo)(void *, u32, usize, void *, usize *);
static i32 (*clGetDeviceIDs)(void *, u64, u32, void **, u32 *);
static i32 (*clGetDeviceInfo)(void *, u32, usize, void *, usize *);
static void *(*clCreateContext)(const isize *, u32, void *const *, void *, void *, i32 *);
static i32 (*clReleaseContext)(void *);
static void *(*clCreateCommandQueue)(void *, void *, u64, i32 *);
static i32 (*clReleaseCommandQueue)(void *);
static void *(*clCreateProgramWithIL)(void *, const void *, usize, i32 *);
static void *(*clCreateProgramWithBinary)(void *, u32, void *const *, const usize *,
                                          const u8 *const *, i32 *, i32 *);
static i32 (*clBuildProgram)(void *, u32, void *const *, const char *, void *, void *);
static i32 (*clGetProgramBuildInfo)(void *, void *, u32, usize, void *, usize *);
static i32 (*clReleaseProgram)(void *);
static void *(*clCreateKernel)(void *, const char *, i32 *);
static i32 (*clReleaseKernel)(void *);
static i32 (*clGetKernelArgInfo)(void *, u32, u32, usize, void *, usize *);
static i32 (*clSetKernelArg)(void *, u32, usize, const void *);
static i32 (*clSetKernelArgSVMPointer)(void *, u32, const void *);
static i32 (*clEnqueueNDRangeKernel)(void *, void *, u32, const usize *, const usize *,
                                     const usize *, u32, void *const *, void **);
static i32 (*clFinish)(void *);
static void *(*clSVMAlloc)(void *, u64, usize, u32);
static void (*clSVMFree)(void *, void *);
static i32 (*clEnqueueSVMMap)(void *, u32, u64, void *, usize, u32, void *const *, void **);
static i32 (*clEnqueueSVMUnmap)(void *, void *, u32, void *const *, void **);
static i32 (*clGetEventProfilingInfo)(void *, u32, usize, void *, usize *);
static i32 (*clReleaseEvent)(void *);

#define LH_CL(name) {#name, (void **)&name, 0}
static const struct lh_import lh_opencl_calls[] = {
    LH_CL(clGetPlatformIDs), LH_CL(clGetPlatformInfo), LH_CL(clGetDeviceIDs),
    LH_CL(clGetDeviceInfo), LH_CL(clCreateContext),
    LH_CL(clReleaseContext), LH_CL(clCreateCommandQueue), LH_CL(clReleaseCommandQueue),
    {"clCreateProgramWithIL", (void **)&clCreateProgramWithIL, 1},
    LH_CL(clCreateProgramWithBinary), LH_CL(clBuildProgram), LH_CL(clGetProgramBuildInfo),
    LH_CL(clReleaseProgram), LH_CL(clCreateKernel), LH_CL(clReleaseKernel),
    LH_CL(clGetKernelArgInfo), LH_CL(clSetKernelArg), LH_CL(clSetKernelArgSVMPointer), LH_CL(clEnqueueNDRangeKernel), LH_CL(clFinish),
    LH_CL(clSVMAlloc), LH_CL(clSVMFree), LH_CL(clEnqueueSVMMap), LH_CL(clEnqueueSVMUnmap),
    LH_CL(clGetEventProfilingInfo), LH_CL(clReleaseEvent),
};

static struct {
    _Bool open, fine;
    void *device, *context, *queue;
    u64 kernel_ns;
} cl;

static _Bool cl_ok(i32 code, const char *call, const char *refused) {
    if (code == 0) return 1;
    _Bool memory = code == CL_MEM_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
    const char *words = code == CL_MEM_FAILURE            ? "CL_MEM_OBJECT_ALLOCATION_FAILURE"
                        : code == CL_OUT_OF_RESOURCES     ? "CL_OUT_OF_RESOURCES"
                        : code == CL_OUT_OF_HOST_MEMORY   ? "CL_OUT_OF_HOST_MEMORY"
                        : code == CL_BUILD_FAILURE        ? "CL_BUILD_PROGRAM_FAILURE"
                                                          : "OpenCL's code";
    lh_fail(memory ? LH_MEMORY : refused, "%s: %s (%d)", call, words, code);
    return 0;
}

static void cl_text(u32 what, char *text, usize size) {
    usize written = 0;
    if (clGetDeviceInfo(cl.device, what, size - 1, text, &written)) written = 0;
    text[written < size ? written : size - 1] = 0;
}

static u64 cl_number(u32 what) {
    u64 number = 0; /* fields of 32 and 64 bits alike: what is not written stays 0 */
    return clGetDeviceInfo(cl.device, what, sizeof number, &number, 0) ? 0 : number;
}

/* Whose devices count, and how to know their platform; the last row: all devices, GPUs first. */
static const struct cl_choice {
    const char *vendor; /* a value of LH_GPU_VENDOR */
    u32 what;           /* of a platform, */
    const char *holds;  /* and what is in it */
    u64 kinds[2];       /* of devices, those of the first kind first */
    const char *none;   /* what to say when there is none */
} cl_choices[] = {
    {"intel", CL_PLATFORM_VENDOR, "Intel", {CL_GPU, 0},
     "OpenCL shows no GPU of Intel's here: its driver (intel-opencl-icd) shows none"},
    {"software", CL_PLATFORM_NAME, "Portable Computing Language", {CL_CPU, 0},
     "OpenCL has no PoCL here, which executes on CPUs: its driver (pocl-opencl-icd) shows none"},
    {"", CL_PLATFORM_NAME, "", {CL_GPU, 0xFFFFFFFFu & ~(u64)CL_GPU & ~1ull},
     "OpenCL has no device here: no driver (ICD) shows one"},
};

static const struct cl_choice *cl_chosen(void) {
    const char *vendor = getenv("LH_GPU_VENDOR");
    const struct cl_choice *choice = cl_choices;
    while (choice->vendor[0] && (!vendor || strcmp(choice->vendor, vendor))) ++choice;
    return choice;
}

/* The platforms that a choice takes; returns how many, and puts the names of all there are to
 * `seen`. */
static u32 cl_platforms(const struct cl_choice *choice, void **found, u32 room, char *seen) {
    void *platforms[16];
    u32 count = 0, taken = 0;
    if (clGetPlatformIDs(16, platforms, &count)) count = 0;
    seen[0] = 0;
    for (u32 i = 0; i < count && i < 16; ++i) {
        char name[128] = "", text[128] = "";
        usize at = strlen(seen);
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, 0);
        clGetPlatformInfo(platforms[i], choice->what, sizeof text - 1, text, 0);
        lh_print(seen + at, LH_TEXT - at, "%s%s", at ? ", " : "", name);
        if (taken < room && strstr(text, choice->holds)) found[taken++] = platforms[i];
    }
    return taken;
}

/* The devices of those platforms, in the order in which they are numbered. */
static int cl_devices(const struct cl_choice *choice, void *const *platforms, u32 platform_count,
                      void **devices, int room) {
    int count = 0;
    for (int kind = 0; kind < 2 && choice->kinds[kind]; ++kind)
        for (u32 i = 0; i < platform_count && count < room; ++i) {
            u32 found = 0; /* a platform without devices says CL_DEVICE_NOT_FOUND */
            if (clGetDeviceIDs(platforms[i], choice->kinds[kind], (u32)(room - count),
                               devices + count, &found))
                continue;
            count += (int)found < room - count ? (int)found : room - count;
        }
    return count;
}

/* Sets cl.device; false after an error was kept. */
static _Bool cl_pick_device(void) {
    const struct cl_choice *choice = cl_chosen();
    void *platforms[16], *devices[32];
    char seen[LH_TEXT];
    u32 platform_count = cl_platforms(choice, platforms, 16, seen);
    int count = cl_devices(choice, platforms, platform_count, devices, 32);
    if (!count) {
        const char *why = choice->kinds[0] == CL_GPU && choice->kinds[1] == 0
            ? lh_node_trouble(LH_DEVICE_NODE, "be a member of the group that owns it (render)") : "";
        lh_fail(LH_DEVICE, "%s (platforms: %s)%s%s", choice->none, seen[0] ? seen : "none",
                why[0] ? "; " : "", why);
        return 0;
    }
    int wanted = lh_wanted_device(count);
    if (wanted >= 0) cl.device = devices[wanted];
    return wanted >= 0;
}

int lh_gpu_open(void) {
    if (cl.open) return 0;
    if (lh_closed || lh_failed()) return 1;
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", 0};
    void *library = lh_open_library(names);
    if (!library) {
        lh_fail(LH_DRIVER, "no OpenCL loader: %s", lh_missing);
        return 1;
    }
    if (!lh_import_all(library, lh_opencl_calls, sizeof lh_opencl_calls / sizeof *lh_opencl_calls))
        return 1;
    if (!cl_pick_device()) return 1;
    u64 shared = cl_number(CL_SVM);
    if (!(shared & (CL_COARSE | CL_FINE))) {
        lh_fail(LH_DRIVER, "the OpenCL driver has no shared virtual memory: a newer one is needed");
        return 1;
    }
    cl.fine = (shared & CL_FINE) != 0;
    i32 code = 0;
    cl.context = clCreateContext(0, 1, &cl.device, 0, 0, &code);
    if (!cl_ok(code, "clCreateContext", LH_DEVICE)) return 1;
    cl.queue = clCreateCommandQueue(cl.context, cl.device, CL_PROFILING, &code);
    if (!cl_ok(code, "clCreateCommandQueue", LH_DEVICE)) return 1;
    cl.open = 1;
    lh_register_close();
    return 0;
}

const char *lh_gpu_describe(void) {
    if (!cl.open) return "{}";
    char text[512];
    lh_json_begin();
    lh_json_text("driver", "opencl");
    cl_text(CL_DRIVER, text, sizeof text);
    lh_json_text("driver_version", text);
    cl_text(CL_VERSION, text, sizeof text);
    lh_json_text("api_version", text);
    lh_json_text("library", lh_file_of((const void *)clGetPlatformIDs));
    cl_text(CL_NAME, text, sizeof text);
    lh_json_text("device", text);
    lh_json_text("chip", "");
    lh_json_number("memory_bytes", (i64)cl_number(CL_GLOBAL_MEMORY));
    lh_json_number("shared_memory_bytes", (i64)cl_number(CL_LOCAL_MEMORY));
    lh_json_number("clock_khz", (i64)cl_number(CL_CLOCK_MHZ) * 1000);
    lh_json_number("multiprocessors", (i64)cl_number(CL_UNITS));
    return lh_json_end();
}

/* --- Modules and kernels --- */
struct lh_kernel {
    struct lh_kernel *next;
    void *handle;
    char name[];
};
struct lh_module {
    struct lh_module *next;
    void *program;
    struct lh_kernel *kernels;
};
static struct lh_module *lh_module_list;

static _Bool cl_enter(void) {
    return lh_gpu_open() == 0 && !lh_failed();
}

/* The program of a module, not yet built; NULL after an error was kept. */
static void *cl_program(const u8 *data, usize size, const char **options) {
    static const u8 bitcode[] = {'B', 'C', 0xC0, 0xDE};
    static char extensions[8192], il[256];
    i32 code = 0, status = 0;
    *options = "-cl-kernel-arg-info";
    if (size > 4 && memcmp(data, bitcode, 4) == 0) {
        *options = "-x spir -spir-std=1.2 -cl-kernel-arg-info";
        cl_text(CL_EXTENSIONS, extensions, sizeof extensions);
        if (!strstr(extensions, "cl_khr_spir")) {
            lh_fail(LH_DRIVER, "the OpenCL driver takes no SPIR (cl_khr_spir), which this is");
            return 0;
        }
        void *program = clCreateProgramWithBinary(cl.context, 1, &cl.device, &size, &data, &status,
                                                  &code);
        return cl_ok(code, "clCreateProgramWithBinary", LH_PROGRAM) ? program : 0;
    }
    if (size < 20 || data[0] != 3 || data[1] != 2 || data[2] != 0x23 || data[3] != 7) {
        lh_fail(LH_PROGRAM, "mgpuModuleLoad: what is embedded is neither SPIR-V nor SPIR");
        return 0;
    }
    cl_text(CL_IL, il, sizeof il);
    if (!clCreateProgramWithIL || !strstr(il, "SPIR-V")) {
        lh_fail(LH_DRIVER, "the OpenCL driver takes no SPIR-V, which this is");
        return 0;
    }
    void *program = clCreateProgramWithIL(cl.context, data, size, &code);
    return cl_ok(code, "clCreateProgramWithIL", LH_PROGRAM) ? program : 0;
}

void *mgpuModuleLoad(void *data, usize size) {
    const char *options;
    void *program = cl_enter() ? cl_program(data, size, &options) : 0;
    if (program) {
        i32 code = clBuildProgram(program, 1, &cl.device, options, 0, 0);
        if (code) {
            static char log[LH_TEXT];
            usize written = 0;
            clGetProgramBuildInfo(program, cl.device, CL_BUILD_LOG, sizeof log - 1, log, &written);
            log[written < sizeof log ? written : sizeof log - 1] = 0;
            lh_fail(LH_PROGRAM, "clBuildProgram: code %d: %s", code, log);
            clReleaseProgram(program);
            program = 0;
        }
    }
    struct lh_module *module = program ? malloc(sizeof *module) : 0;
    if (!module) {
        lh_note_load_error();
        return 0;
    }
    *module = (struct lh_module){.next = lh_module_list, .program = program};
    lh_module_list = module;
    ++lh_modules;
    return module;
}

void *mgpuModuleLoadJIT(void *data, int optimization) {
    (void)data;
    (void)optimization;
    lh_fail(LH_PROGRAM, "mgpuModuleLoadJIT: OpenCL takes SPIR-V, not assembly");
    lh_note_load_error();
    return 0;
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    if (!module || !cl_enter()) return 0;
    struct lh_module *owner = module;
    for (struct lh_kernel *kernel = owner->kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0) return kernel;
    i32 code = 0;
    void *handle = clCreateKernel(owner->program, name, &code);
    usize size = strlen(name) + 1;
    struct lh_kernel *kernel = 0;
    if (cl_ok(code, "clCreateKernel", LH_PROGRAM)) kernel = malloc(sizeof *kernel + size);
    if (!kernel) return 0;
    *kernel = (struct lh_kernel){.next = owner->kernels, .handle = handle};
    memcpy(kernel->name, name, size);
    owner->kernels = kernel;
    return kernel;
}

void mgpuModuleUnload(void *module) {
    struct lh_module **link = &lh_module_list;
    while (*link && *link != module) link = &(*link)->next;
    if (!*link || lh_closed || !cl.open) return;
    struct lh_module *found = *link;
    *link = found->next;
    --lh_modules;
    while (found->kernels) {
        struct lh_kernel *kernel = found->kernels;
        found->kernels = kernel->next;
        clReleaseKernel(kernel->handle);
        free(kernel);
    }
    clReleaseProgram(found->program);
    free(found);
}

/* --- Launches --- */
/* Coarse-grained memory belongs to the host or to the device: hands all of it over. */
static _Bool cl_hand_over(_Bool to_device) {
    for (usize i = 0; !cl.fine && i < lh_block_count; ++i) {
        struct lh_block *block = &lh_blocks[i];
        i32 code = to_device ? clEnqueueSVMUnmap(cl.queue, block->base, 0, 0, 0)
                             : clEnqueueSVMMap(cl.queue, 1, CL_MAP_BOTH, block->base,
                                               block->handles[0], 0, 0, 0);
        if (!cl_ok(code, to_device ? "clEnqueueSVMUnmap" : "clEnqueueSVMMap", LH_DEVICE)) return 0;
    }
    return 1;
}

/* Whether an argument is a number, not a pointer into memory. What a driver does not tell is taken
 * for a pointer. */
static _Bool cl_by_value(struct lh_kernel *kernel, usize i) {
    u32 address = 0;
    return !clGetKernelArgInfo(kernel->handle, (u32)i, CL_ARG_ADDRESS, sizeof address, &address,
                               0) &&
           address == CL_PRIVATE;
}

/* MLIR does not tell how wide a number is; the driver refuses all widths but the right one. */
static i32 cl_set_value(struct lh_kernel *kernel, usize i, const void *value) {
    i32 code = CL_INVALID_ARG_SIZE;
    for (usize size = 8; size && code == CL_INVALID_ARG_SIZE; size /= 2)
        code = clSetKernelArg(kernel->handle, (u32)i, size, value);
    return code;
}

static _Bool cl_bind(struct lh_kernel *kernel, void **params, usize count) {
    for (usize i = 0; i < count; ++i) {
        if (cl_by_value(kernel, i)) {
            if (!cl_ok(cl_set_value(kernel, i, params[i]), "clSetKernelArg", LH_PROGRAM)) return 0;
            continue;
        }
        void *pointer = *(void **)params[i];
        if (!lh_block_find(pointer)) {
            lh_fail(LH_PROGRAM, "kernel %s: argument %zu is no memory that the GPU reaches (%p)",
                    kernel->name, i, pointer);
            return 0;
        }
        if (!cl_ok(clSetKernelArgSVMPointer(kernel->handle, (u32)i, pointer),
                   "clSetKernelArgSVMPointer", LH_PROGRAM))
            return 0;
    }
    return 1;
}

static void cl_count_time(void *event) {
    u64 started = 0, ended = 0;
    if (!clGetEventProfilingInfo(event, CL_STARTED, sizeof started, &started, 0) &&
        !clGetEventProfilingInfo(event, CL_ENDED, sizeof ended, &ended, 0) && ended > started)
        cl.kernel_ns += ended - started;
    clReleaseEvent(event);
}

void mgpuLaunchKernel(void *function, isize grid_x, isize grid_y, isize grid_z, isize block_x,
                      isize block_y, isize block_z, i32 shared_bytes, void *stream, void **params,
                      void **extra, usize params_count) {
    (void)stream;
    (void)extra;
    struct lh_kernel *kernel = function;
    if (!kernel) lh_fail_no_kernel();
    if (!cl_enter()) return;
    if (shared_bytes)
        lh_fail(LH_PROGRAM, "kernel %s: dynamic shared memory is no argument of it", kernel->name);
    usize local[] = {(usize)block_x, (usize)block_y, (usize)block_z};
    usize global[] = {local[0] * (usize)grid_x, local[1] * (usize)grid_y, local[2] * (usize)grid_z};
    if (local[0] * local[1] * local[2] > cl_number(CL_MAX_BLOCK))
        lh_fail(LH_PROGRAM, "kernel %s: blocks of %zu threads; this device takes %llu",
                kernel->name, local[0] * local[1] * local[2],
                (unsigned long long)cl_number(CL_MAX_BLOCK));
    if (lh_failed() || !global[0] || !global[1] || !global[2]) return;
    void *event = 0;
    if (!cl_bind(kernel, params, params_count) || !cl_hand_over(1)) return;
    if (cl_ok(clEnqueueNDRangeKernel(cl.queue, kernel->handle, 3, 0, global, local, 0, 0, &event),
              "clEnqueueNDRangeKernel", LH_PROGRAM) &&
        cl_ok(clFinish(cl.queue), "clFinish", LH_DEVICE))
        cl_count_time(event);
    cl_hand_over(0);
}

/* --- Memory --- */
void *mgpuMemAlloc(u64 size, void *stream, _Bool host_shared) {
    (void)stream;
    (void)host_shared;
    if (!cl_enter()) return 0;
    usize bytes = size < 4 ? 4 : size;
    void *pointer =
        clSVMAlloc(cl.context, cl.fine ? CL_READ_WRITE | CL_FINE_BUFFER : CL_READ_WRITE, bytes, 64);
    if (!pointer) {
        lh_fail(LH_MEMORY, "clSVMAlloc: no %zu bytes of shared virtual memory", bytes);
        return 0;
    }
    if (!cl.fine && !cl_ok(clEnqueueSVMMap(cl.queue, 1, CL_MAP_BOTH, pointer, bytes, 0, 0, 0),
                           "clEnqueueSVMMap", LH_DEVICE))
        return 0;
    struct lh_block *block = lh_block_add(pointer, size);
    if (block) block->handles[0] = bytes;
    else clSVMFree(cl.context, pointer);
    return block ? pointer : 0;
}

void mgpuMemFree(void *pointer, void *stream) {
    (void)stream;
    struct lh_block block;
    if (lh_closed || !cl.open || !lh_block_take(pointer, &block)) return;
    if (!cl.fine) {
        clEnqueueSVMUnmap(cl.queue, block.base, 0, 0, 0);
        clFinish(cl.queue);
    }
    clSVMFree(cl.context, block.base);
}

/* No launch is under way when we are called, and the host has the memory. */
void mgpuMemcpy(void *target, void *source, usize size, void *stream) {
    (void)stream;
    if (cl_enter()) memcpy(target, source, size);
}

void mgpuMemset32(void *pointer, u32 value, usize count, void *stream) {
    (void)stream;
    if (cl_enter())
        for (usize i = 0; i < count; ++i) ((u32 *)pointer)[i] = value;
}

void mgpuMemset16(void *pointer, u16 value, usize count, void *stream) {
    (void)stream;
    if (cl_enter())
        for (usize i = 0; i < count; ++i) ((u16 *)pointer)[i] = value;
}

/* --- Streams and events: launches are over when mgpuLaunchKernel returns, so all is in order --- */
static char lh_token;

void *mgpuStreamCreate(void) {
    if (!cl_enter()) return 0;
    ++lh_handles;
    return &lh_token;
}

void mgpuStreamDestroy(void *stream) {
    if (stream) --lh_handles;
}

void mgpuStreamSynchronize(void *stream) { (void)stream; }

void mgpuStreamWaitEvent(void *stream, void *event) {
    (void)stream;
    (void)event;
}

void *mgpuEventCreate(void) {
    return mgpuStreamCreate();
}

void mgpuEventDestroy(void *event) {
    mgpuStreamDestroy(event);
}

void mgpuEventSynchronize(void *event) { (void)event; }

void mgpuEventRecord(void *event, void *stream) {
    (void)event;
    (void)stream;
}

u64 lh_gpu_kernel_ns(void) {
    return cl.kernel_ns;
}

static void lh_forget_times(void) {
    cl.kernel_ns = 0;
}

static void lh_close(void) {
    if (!cl.open) return;
    clFinish(cl.queue);
    while (lh_module_list) mgpuModuleUnload(lh_module_list);
    while (lh_block_count) mgpuMemFree(lh_blocks[lh_block_count - 1].user, 0);
    clReleaseCommandQueue(cl.queue);
    clReleaseContext(cl.context);
    cl.open = 0;
}
