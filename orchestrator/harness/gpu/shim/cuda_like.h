/* What CUDA and HIP share: HIP copies CUDA's driver API call by call and, but for a few, code by
 * code. This binds the calls and the device; cuda_mgpu.h has the entry points. cuda.c and hip.c
 * include both once; the latter defines LH_HIP.
 *
 * Calls and codes: https://docs.nvidia.com/cuda/cuda-driver-api/ and
 * https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api_reference.html
 */
#ifndef LH_CUDA_LIKE_H
#define LH_CUDA_LIKE_H

#include "common.h"

/* name, CUDA's symbol (the version that cuda.h maps the name to), HIP's symbol, parameters */
#define LH_CALLS(ROW)                                                                              \
    ROW(init, "cuInit", "hipInit", u32 flags)                                                      \
    ROW(driver_version, "cuDriverGetVersion", "hipDriverGetVersion", int *version)                 \
    ROW(device_count, "cuDeviceGetCount", "hipGetDeviceCount", int *count)                         \
    ROW(device_get, "cuDeviceGet", "hipDeviceGet", int *device, int index)                         \
    ROW(device_name, "cuDeviceGetName", "hipDeviceGetName", char *name, int size, int device)      \
    ROW(device_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem", usize *bytes, int device)       \
    ROW(device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute", int *value,             \
        int attribute, int device)                                                                 \
    ROW(module_load, "cuModuleLoadDataEx", "hipModuleLoadDataEx", void **module, const void *data, \
        u32 count, int *options, void **values)                                                    \
    ROW(module_unload, "cuModuleUnload", "hipModuleUnload", void *module)                          \
    ROW(module_function, "cuModuleGetFunction", "hipModuleGetFunction", void **function,           \
        void *module, const char *name)                                                            \
    ROW(function_attribute, "cuFuncGetAttribute", "hipFuncGetAttribute", int *value,               \
        int attribute, void *function)                                                             \
    ROW(launch, "cuLaunchKernel", "hipModuleLaunchKernel", void *function, u32 grid_x, u32 grid_y, \
        u32 grid_z, u32 block_x, u32 block_y, u32 block_z, u32 shared, void *stream,               \
        void **params, void **extra)                                                               \
    ROW(stream_create, "cuStreamCreate", "hipStreamCreateWithFlags", void **stream, u32 flags)     \
    ROW(stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy", void *stream)                    \
    ROW(stream_synchronize, "cuStreamSynchronize", "hipStreamSynchronize", void *stream)           \
    ROW(stream_wait, "cuStreamWaitEvent", "hipStreamWaitEvent", void *stream, void *event,         \
        u32 flags)                                                                                 \
    ROW(event_create, "cuEventCreate", "hipEventCreateWithFlags", void **event, u32 flags)         \
    ROW(event_destroy, "cuEventDestroy_v2", "hipEventDestroy", void *event)                        \
    ROW(event_record, "cuEventRecord", "hipEventRecord", void *event, void *stream)                \
    ROW(event_synchronize, "cuEventSynchronize", "hipEventSynchronize", void *event)               \
    ROW(event_elapsed, "cuEventElapsedTime", "hipEventElapsedTime", float *ms, void *before,       \
        void *after)                                                                               \
    ROW(alloc, "cuMemAlloc_v2", "hipMalloc", void **pointer, usize size)                           \
    ROW(alloc_managed, "cuMemAllocManaged", "hipMallocManaged", void **pointer, usize size,        \
        u32 flags)                                                                                 \
    ROW(alloc_host, "cuMemHostAlloc", "hipHostMalloc", void **pointer, usize size, u32 flags)      \
    ROW(free, "cuMemFree_v2", "hipFree", void *pointer)                                            \
    ROW(free_host, "cuMemFreeHost", "hipHostFree", void *pointer)                                  \
    ROW(memset32, "cuMemsetD32Async", "hipMemsetD32Async", void *pointer, u32 value, usize count,  \
        void *stream)                                                                              \
    ROW(memset16, "cuMemsetD16Async", "hipMemsetD16Async", void *pointer, u16 value, usize count,  \
        void *stream)

#ifdef LH_HIP
#define LH_SYMBOL(cuda, hip) hip
#else
#define LH_SYMBOL(cuda, hip) cuda
#endif
#define LH_POINTER(name, cuda, hip, ...) static int (*api_##name)(__VA_ARGS__);
LH_CALLS(LH_POINTER)
#define LH_NUMBER(name, ...) LH_ID_##name,
enum { LH_CALLS(LH_NUMBER) LH_IDS };
#define LH_IMPORT(name, cuda, hip, ...) {LH_SYMBOL(cuda, hip), (void **)&api_##name, 0},
static const struct lh_import lh_calls[] = {LH_CALLS(LH_IMPORT)};

/* Calls the driver; false after an error was kept. */
#define LH_CALL(row, ...) lh_check(api_##row(__VA_ARGS__), lh_calls[LH_ID_##row].name)

#include "cuda_codes.h"

/* --- The device that was bound --- */
static struct {
    _Bool open, managed;
    int number;             /* the driver's name of it */
    int threads;            /* a block's limit, */
    int block[3], grid[3];  /* and in each direction */
    int shared;             /* bytes for a block, its dynamic part included */
} lh_device;

/* Makes this thread's calls go to our device: another library may have chosen another. */
static _Bool lh_bind(void);

/* Whether something new may be asked of the driver: not after an error. */
static _Bool lh_enter(void) {
    return !lh_closed && lh_gpu_open() == 0 && lh_bind();
}

/* Whether there is a driver to give something back to. */
static _Bool lh_reenter(void) {
    return !lh_closed && lh_device.open && lh_bind();
}

/* A device's attribute; 0 where the driver does not know it. */
static int lh_attribute(int attribute) {
    int value = 0;
    return api_device_attribute(&value, attribute, lh_device.number) == 0 ? value : 0;
}

/* The vendor's names of what we ask of a device. */
struct lh_vendor {
    const char *node;    /* what every process of the driver opens */
    const char *groups;  /* what to do when that is not permitted */
    const char *visible; /* the variable that hides devices */
    int no_device;       /* what some releases say instead of 100 where there is none */
    int threads, block, grid; /* attributes; for x, and then y and z */
    int shared, shared_opted_in, managed, clock_khz, multiprocessors;
};

/* Starts the driver and picks the device; false after an error was kept. */
static _Bool lh_pick_device(const struct lh_vendor *vendor) {
    int count = 0, code = api_init(0), id = LH_ID_init;
    if (!code) {
        code = api_device_count(&count);
        id = LH_ID_device_count;
    }
    if (code == vendor->no_device || (!code && !count)) code = 100;
    if (code) { /* drivers say NO_DEVICE, OPERATING_SYSTEM or UNKNOWN of a node they cannot open */
        const char *why = code == 100 || code == 304 || code == 999 ?
            lh_node_trouble(vendor->node, vendor->groups) : "";
        const char *visible = getenv(vendor->visible);
        char hidden[LH_TEXT];
        lh_print(hidden, sizeof hidden, "%s is '%s'", vendor->visible, visible ? visible : "");
        lh_fail_code(code, lh_calls[id].name, why[0] || !visible || code != 100 ? why : hidden);
        return 0;
    }
    int index = lh_wanted_device(count);
    return index >= 0 && LH_CALL(device_get, &lh_device.number, index);
}

static void lh_read_limits(const struct lh_vendor *vendor) {
    lh_device.threads = lh_attribute(vendor->threads);
    for (int i = 0; i < 3; ++i) {
        lh_device.block[i] = lh_attribute(vendor->block + i);
        lh_device.grid[i] = lh_attribute(vendor->grid + i);
    }
    int shared = lh_attribute(vendor->shared), opted_in = lh_attribute(vendor->shared_opted_in);
    lh_device.shared = opted_in > shared ? opted_in : shared;
    lh_device.managed = lh_attribute(vendor->managed) != 0;
}

static const char *lh_describe(const struct lh_vendor *vendor, const char *driver,
                               const char *version, const char *chip) {
    char name[256] = "";
    usize memory = 0;
    api_device_name(name, sizeof name - 1, lh_device.number);
    api_device_memory(&memory, lh_device.number);
    lh_json_begin();
    lh_json_text("driver", driver);
    lh_json_text("driver_version", version);
    lh_json_text("library", lh_file_of((const void *)api_init));
    lh_json_text("device", name);
    lh_json_text("chip", chip);
    lh_json_number("memory_bytes", (i64)memory);
    lh_json_number("shared_memory_bytes", lh_device.shared);
    lh_json_number("clock_khz", lh_attribute(vendor->clock_khz));
    lh_json_number("multiprocessors", lh_attribute(vendor->multiprocessors));
    return lh_json_end();
}

#endif
