/* A fake libamdhip64.so for gfx942; see fake_driver.h.
 *
 * FAKE_HIP_5: as before ROCm 6, with the old hipDeviceProp_t only.
 */
#define FAKE_HIP
#include "fake_driver.h"

DRIVER(, hipDriverGetVersion, int *version) {
    BEGIN(, hipDriverGetVersion, NOTHING);
    *version = 60140091;
    return 0;
}

LH_PUBLIC const char *hipGetErrorName(int code) {
    switch (code) {
    case 1: return "hipErrorInvalidValue";
    case 2: return "hipErrorOutOfMemory";
    case 100: return "hipErrorNoDevice";
    case 209: return "hipErrorNoBinaryForGpu";
    case 500: return "hipErrorNotFound";
    case 700: return "hipErrorIllegalAddress";
    case 719: return "hipErrorLaunchFailure";
    default: return "hipErrorUnknown";
    }
}

DRIVER(, hipDeviceGetAttribute, int *value, int attribute, int device) {
    BEGIN(, hipDeviceGetAttribute, STARTED);
    static const struct { int attribute, value; } known[] = {
        {5, 2100000}, {24, 1}, {26, 1024}, {27, 1024}, {28, 1024}, {29, 0x7fffffff}, {30, 65536},
        {31, 65536}, {56, MOST_THREADS}, {63, 304}, {74, 64 << 10}, {75, 0},
    };
    if (device < 0) REFUSE(101, "device %d", device);
    for (usize i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    REFUSE(INVALID_VALUE, "attribute %d", attribute);
}

DRIVER(, hipSetDevice, int device) {
    BEGIN(, hipSetDevice, STARTED);
    if (device < 0 || device >= setting("FAKE_GPU_DEVICES", 1)) REFUSE(101, "device %d", device);
    current = device;
    contexts = 1;
    return 0;
}

static int tell(const char *call, char *properties, usize at, usize size) {
    if (!properties) REFUSE(INVALID_VALUE, "no room for properties");
    memset(properties, 0, size);
    snprintf(properties, 256, "Fake with gfx000 in its name");
    snprintf(properties + at, 256, "gfx942:sramecc+:xnack-");
    return 0;
}

/* Sizes and places as in the headers of ROCm 5 and 6. */
DRIVER(, hipGetDeviceProperties, char *properties, int device) {
    BEGIN(, hipGetDeviceProperties, STARTED);
    if (device < 0) REFUSE(101, "device %d", device);
    return tell(call, properties, 640, 792 + 256);
}

#ifndef FAKE_HIP_5
DRIVER(, hipGetDevicePropertiesR0600, char *properties, int device) {
    BEGIN(, hipGetDevicePropertiesR0600, STARTED);
    if (device < 0) REFUSE(101, "device %d", device);
    return tell(call, properties, 1160, 1472);
}
#endif

DRIVER(, hipMemcpyAsync, void *target, const void *source, usize size, int kind, void *stream) {
    BEGIN(, hipMemcpyAsync, CONTEXT);
    CHECK_STREAM();
    if (kind < 0 || kind > 4) REFUSE(21, "kind %d", kind);
    if (!memory_of(target, size) && !memory_of(source, size))
        REFUSE(INVALID_VALUE, "neither address is memory of the device");
    memcpy(target, source, size);
    return 0;
}

/* --- HSACO: https://llvm.org/docs/AMDGPUUsage.html#elf-code-object --- */
enum { ELF_BYTES = 64, MACHINE_AMDGPU = 224, OS_AMDGPU_HSA = 64, CHIP_GFX942 = 0x4c };

static usize elf_size(const char *code) {
    u64 sections = *(const u64 *)(code + 40);
    u16 width = *(const u16 *)(code + 58), count = *(const u16 *)(code + 60);
    return sections + (usize)width * count;
}

static int check_code(const char *call, const char *code, char *log, usize log_size) {
    (void)log;
    (void)log_size;
    if (memcmp(code, "\177ELF\2\1\1", 7) != 0) REFUSE(200, "code that is no 64-bit ELF");
    if (code[7] != OS_AMDGPU_HSA) REFUSE(200, "an ELF for OS ABI %d", code[7]);
    if (*(const u16 *)(code + 18) != MACHINE_AMDGPU) REFUSE(200, "an ELF for another machine");
    if (elf_size(code) < ELF_BYTES) REFUSE(200, "an ELF without sections");
    return (u8)code[48] == CHIP_GFX942 ? 0 : 209; /* e_flags: EF_AMDGPU_MACH */
}

static int find_kernel(const char *call, struct thing *function) {
    const char *code = function->owner->code;
    char symbol[sizeof function->name + 3];
    usize size = elf_size(code);
    snprintf(symbol, sizeof symbol, "%s.kd", function->name); /* the kernel's descriptor */
    usize length = strlen(symbol) + 1;
    for (usize at = ELF_BYTES; at + length <= size; ++at)
        if (code[at - 1] == 0 && memcmp(code + at, symbol, length) == 0) return 0;
    REFUSE(NOT_FOUND, "no %s", symbol);
}

DRIVER(, hipModuleLoadDataEx, void **module, const void *data, u32 count, int *options,
       void **values) {
    BEGIN(, hipModuleLoadDataEx, CONTEXT);
    if (count || options || values) REFUSE(INVALID_VALUE, "options, which HIP does not have");
    return load(call, module, data, 0, 0);
}
