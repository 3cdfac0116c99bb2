/* NVIDIA: the CUDA driver API, https://docs.nvidia.com/cuda/cuda-driver-api/ */
#include "cuda_mgpu.h"

#ifndef LH_DEVICE_NODE /* a test points it elsewhere */
#define LH_DEVICE_NODE "/dev/nvidiactl"
#endif

/* CUdevice_attribute */
static const struct lh_vendor lh_nvidia = {
    .node = LH_DEVICE_NODE,
    .groups = "a container must be handed the device by NVIDIA's runtime or CDI; else let its mode "
              "be 0666, as nvidia-modprobe makes it",
    .visible = "CUDA_VISIBLE_DEVICES",
    .no_device = 100,
    .threads = 1,
    .block = 2,
    .grid = 5,
    .shared = 8,
    .shared_opted_in = 97,
    .managed = 83,
    .clock_khz = 13,
    .multiprocessors = 16,
};
enum { LH_CHIP_MAJOR = 75, LH_CHIP_MINOR = 76 };
enum { LH_MAX_DYNAMIC_SHARED = 8 };                             /* CUfunction_attribute */
enum { LH_JIT_LOG = 5, LH_JIT_LOG_SIZE = 6, LH_JIT_LEVEL = 7 }; /* CUjit_option */
/* What any kernel gets without asking; CUDA Programming Guide, "Shared Memory" of each chip. */
enum { LH_DEFAULT_SHARED = 48 << 10 };

static int (*api_error_name)(int code, const char **name);
static int (*api_context_retain)(void **context, int device);
static int (*api_context_release)(int device);
static int (*api_context_set)(void *context);
static int (*api_copy)(void *target, const void *source, usize size, void *stream);
static int (*api_function_set)(void *function, int attribute, int value);
static int (*api_param_info)(void *function, usize index, usize *offset, usize *size);
static const struct lh_import lh_cuda_calls[] = {
    {"cuGetErrorName", (void **)&api_error_name, 0},
    {"cuDevicePrimaryCtxRetain", (void **)&api_context_retain, 0},
    {"cuDevicePrimaryCtxRelease_v2", (void **)&api_context_release, 0},
    {"cuCtxSetCurrent", (void **)&api_context_set, 0},
    {"cuMemcpyAsync", (void **)&api_copy, 0},
    {"cuFuncSetAttribute", (void **)&api_function_set, 0},
    {"cuFuncGetParamInfo", (void **)&api_param_info, 1}, /* since CUDA 12.4 */
};

static void *lh_context;

static const char *lh_code_name(int code) {
    const char *name = 0;
    return api_error_name(code, &name) == 0 && name ? name : "unknown error";
}

static _Bool lh_bind(void) {
    return lh_check(api_context_set(lh_context), "cuCtxSetCurrent");
}

static _Bool lh_copy(void *target, void *source, usize size, void *stream) {
    return lh_check(api_copy(target, source, size, stream), "cuMemcpyAsync");
}

static _Bool lh_allow_shared(void *function, int bytes) {
    if (bytes <= LH_DEFAULT_SHARED) return 1;
    return lh_check(api_function_set(function, LH_MAX_DYNAMIC_SHARED, bytes), "cuFuncSetAttribute");
}

static int lh_count_params(void *function) {
    usize offset = 0, size = 0;
    int count = 0, code = api_param_info ? 0 : -1;
    while (code == 0) {
        code = api_param_info(function, (usize)count, &offset, &size);
        count += code == 0;
    }
    return code == 1 ? count : -1; /* INVALID_VALUE: there is no such parameter */
}

static void lh_release(void) {
    api_context_release(lh_device.number);
    lh_device.open = 0;
}

int lh_gpu_open(void) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", 0};
    if (lh_device.open || lh_failed()) return lh_failed();
    void *library = lh_open_library(names);
    if (!library) {
        lh_fail(LH_DRIVER,
                "libcuda.so.1 cannot be loaded: install NVIDIA's driver; a container gets it from "
                "NVIDIA's runtime or CDI (%s)", lh_missing);
        return 1;
    }
    if (!lh_import_all(library, lh_calls, LH_IDS)) return 1;
    if (!lh_import_all(library, lh_cuda_calls, sizeof lh_cuda_calls / sizeof *lh_cuda_calls))
        return 1;
    if (!lh_pick_device(&lh_nvidia)) return 1;
    if (!lh_check(api_context_retain(&lh_context, lh_device.number), "cuDevicePrimaryCtxRetain"))
        return 1;
    lh_read_limits(&lh_nvidia);
    lh_device.open = 1;
    lh_register_close();
    return 0;
}

const char *lh_gpu_describe(void) {
    char version[32], chip[32];
    int number = 0;
    if (!lh_device.open) return "{}";
    api_driver_version(&number); /* 12040: the CUDA that the driver speaks */
    lh_print(version, sizeof version, "%d.%d", number / 1000, number % 1000 / 10);
    lh_print(chip, sizeof chip, "sm_%d%d", lh_attribute(LH_CHIP_MAJOR), lh_attribute(LH_CHIP_MINOR));
    return lh_describe(&lh_nvidia, "cuda", version, chip);
}

/* Lets the driver compile PTX, or load a cubin; what its compiler says becomes the error's words. */
static void *lh_load(const void *data, int level) {
    if (!lh_enter()) {
        lh_note_load_error();
        return 0;
    }
    char log[LH_TEXT] = "";
    int options[] = {LH_JIT_LOG, LH_JIT_LOG_SIZE, LH_JIT_LEVEL};
    void *values[] = {log, (void *)(usize)(sizeof log - 1), (void *)(usize)level};
    void *handle = 0;
    int code = api_module_load(&handle, data, 3, options, values);
    if (code == 0) return lh_module_add(handle);
    for (char *letter = log; *letter; ++letter)
        if (*letter == '\n') *letter = letter[1] ? ' ' : 0;
    /* drivers before CUDA 11.1 call every refusal INVALID_PTX */
    if (code == 218 && strstr(log, "Unsupported .version")) code = 222;
    lh_fail_code(code, lh_calls[LH_ID_module_load].name, log);
    lh_note_load_error();
    return 0;
}

void *mgpuModuleLoadJIT(void *data, int optimization) {
    return lh_load(data, optimization);
}

void *mgpuModuleLoad(void *data, usize size) {
    (void)size; /* the driver reads it from the header of a cubin */
    return lh_load(data, 3);
}
