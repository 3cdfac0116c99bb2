/* AMD: the HIP runtime API,
 * https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api_reference.html
 *
 * A kernel that touches memory it must not usually makes ROCm abort the process ("Memory access
 * fault by GPU node"); where it does not, the code is one of those below. */
#define LH_HIP
#include "cuda_mgpu.h"

#ifndef LH_DEVICE_NODE /* a test points it elsewhere */
#define LH_DEVICE_NODE "/dev/kfd"
#endif

/* hipDeviceAttribute_t since ROCm 5 */
static const struct lh_vendor lh_amd = {
    .node = LH_DEVICE_NODE,
    .groups = "be a member of the groups that own /dev/kfd and /dev/dri (render, video)",
    .visible = "HIP_VISIBLE_DEVICES",
    .no_device = 101, /* hipErrorInvalidDevice, of ROCm 5's hipInit */
    .threads = 56,
    .block = 26,
    .grid = 29,
    .shared = 74,
    .shared_opted_in = 75,
    .managed = 24,
    .clock_khz = 5,
    .multiprocessors = 63,
};
enum { LH_COPY_DEFAULT = 4 };   /* hipMemcpyKind: the addresses tell */
enum { LH_NAME_SIZE = 256 };    /* `char name[256]`, the first member of all hipDeviceProp_t */
enum { LH_PROPERTIES = 16384 }; /* the largest hipDeviceProp_t is below 2 KiB */

static const char *(*api_error_name)(int code);
static int (*api_set_device)(int device);
static int (*api_copy)(void *target, const void *source, usize size, int kind, void *stream);
static int (*api_properties)(void *properties, int device);
static int (*api_properties_before_6)(void *properties, int device);
static const struct lh_import lh_hip_calls[] = {
    {"hipGetErrorName", (void **)&api_error_name, 0},
    {"hipSetDevice", (void **)&api_set_device, 0},
    {"hipMemcpyAsync", (void **)&api_copy, 0},
    {"hipGetDevicePropertiesR0600", (void **)&api_properties, 1},
    {"hipGetDeviceProperties", (void **)&api_properties_before_6, 1},
};

static const char *lh_code_name(int code) {
    const char *name = api_error_name(code);
    return name ? name : "unknown error";
}

static _Bool lh_bind(void) {
    return lh_check(api_set_device(lh_device.number), "hipSetDevice");
}

static _Bool lh_copy(void *target, void *source, usize size, void *stream) {
    return lh_check(api_copy(target, source, size, LH_COPY_DEFAULT, stream), "hipMemcpyAsync");
}

static _Bool lh_allow_shared(void *function, int bytes) {
    (void)function;
    (void)bytes;
    return 1; /* all of a device's limit is there without asking */
}

static int lh_count_params(void *function) {
    (void)function;
    return -1;
}

static void lh_release(void) {
    lh_device.open = 0; /* HIP keeps its context until the process ends */
}

/* The device's `gfx942:sramecc+:xnack-`, or "". Only hipDeviceProp_t has it, and its layout changed
 * with ROCm 6: `hipGetDeviceProperties` is the old layout's function in the library, while the
 * header maps that name to `…R0600`. So no layout is assumed: the first `gfx` and a digit behind the
 * device's name is it, in either. (The KFD's topology in /sys also has the number, but not in the
 * order that HIP_VISIBLE_DEVICES leaves.) */
static const char *lh_architecture(void) {
    static char properties[LH_PROPERTIES];
    int (*ask)(void *, int) = api_properties ? api_properties : api_properties_before_6;
    memset(properties, 0, sizeof properties);
    if (!ask || ask(properties, lh_device.number)) return "";
    for (const char *at = properties + LH_NAME_SIZE; at < properties + sizeof properties - 4; ++at)
        if (memcmp(at, "gfx", 3) == 0 && at[3] >= '0' && at[3] <= '9') return at;
    return "";
}

/* HIP's runtime: of the ROCm that $LH_ROCM names and of no other, else what the loader finds, else
 * of the ROCm at its usual place. NULL, and why in `lh_missing`. */
static void *lh_open_hip(void) {
    static const char *const names[] = {
        "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
        "/opt/rocm/lib/libamdhip64.so", 0,
    };
    const char *rocm = getenv("LH_ROCM");
    if (!rocm || !rocm[0]) return lh_open_library(names);
    lh_print(lh_missing, sizeof lh_missing, "%s has no lib/%s", rocm, names[3]);
    for (int i = 0; i < 4; ++i) {
        char path[LH_TEXT];
        lh_print(path, sizeof path, "%s/lib/%s", rocm, names[i]);
        if (access(path, LH_EXISTS)) continue;
        void *library = dlopen(path, LH_RTLD_NOW);
        if (library) return library;
        const char *why = dlerror(); /* such as a newer libc than there is here */
        lh_print(lh_missing, sizeof lh_missing, "%s", why ? why : path);
    }
    return 0;
}

int lh_gpu_open(void) {
    if (lh_device.open || lh_failed()) return lh_failed();
    void *library = lh_open_hip();
    if (!library) {
        lh_fail(LH_DRIVER,
                "libamdhip64.so cannot be loaded: install ROCm's HIP runtime (hip-runtime-amd), and "
                "name its folder in LH_ROCM if that is not /opt/rocm (%s)", lh_missing);
        return 1;
    }
    if (!lh_import_all(library, lh_calls, LH_IDS)) return 1;
    if (!lh_import_all(library, lh_hip_calls, sizeof lh_hip_calls / sizeof *lh_hip_calls)) return 1;
    if (!lh_pick_device(&lh_amd) || !lh_bind()) return 1;
    lh_read_limits(&lh_amd);
    lh_device.open = 1;
    lh_register_close();
    return 0;
}

const char *lh_gpu_describe(void) {
    char version[32], chip[32];
    int number = 0;
    if (!lh_device.open) return "{}";
    api_driver_version(&number); /* major * 10^7 + minor * 10^5 + patch */
    lh_print(version, sizeof version, "%d.%d.%d", number / 10000000, number / 100000 % 100,
             number % 100000);
    lh_print(chip, sizeof chip, "%s", lh_architecture());
    for (char *letter = chip; *letter; ++letter)
        if (*letter == ':') *letter = 0; /* features follow; this ends the loop */
    return lh_describe(&lh_amd, "hip", version, chip);
}

static void *lh_load(const void *data) {
    if (!lh_enter()) {
        lh_note_load_error();
        return 0;
    }
    void *handle = 0;
    int code = api_module_load(&handle, data, 0, 0, 0);
    if (code == 0) return lh_module_add(handle);
    char words[96];
    lh_print(words, sizeof words, "this device is %.40s", lh_architecture());
    lh_fail_code(code, lh_calls[LH_ID_module_load].name, words);
    lh_note_load_error();
    return 0;
}

void *mgpuModuleLoad(void *data, usize size) {
    (void)size; /* an ELF file says how long it is */
    return lh_load(data);
}

void *mgpuModuleLoadJIT(void *data, int optimization) {
    (void)data;
    (void)optimization;
    if (lh_enter()) lh_fail(LH_PROGRAM, "mgpuModuleLoadJIT: HIP loads assembled code (HSACO) only");
    lh_note_load_error();
    return 0;
}
