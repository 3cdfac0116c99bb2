/* What the codes of CUDA and HIP speak of; HIP took CUDA's numbers over.
 *
 * CUresult: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
 * hipError_t: https://rocm.docs.amd.com/projects/HIP/en/latest/reference/error_codes.html
 */
#ifndef LH_CUDA_CODES_H
#define LH_CUDA_CODES_H

#include "common.h"

static const char *lh_code_name(int code); /* `CUDA_ERROR_NO_DEVICE` */

static const struct lh_code {
    int code;
    const char *kind;
    const char *advice;
} lh_codes[] = {
    {1, LH_PROGRAM, ""},
    {2, LH_MEMORY, ""},
    {3, LH_DRIVER, ""},
    {4, LH_DRIVER, ""},
    {9, LH_PROGRAM, ""},
    {34, LH_DRIVER, "this library is the toolkit's stub: put the driver's own before it"},
    {35, LH_DRIVER, "the driver is too old: update it"},
    {36, LH_DRIVER, "the driver is too old: update it"},
    {46, LH_DEVICE, "another process holds the device"},
    {98, LH_PROGRAM, ""},
    {100, LH_DEVICE, ""},
    {101, LH_DEVICE, ""},
    {102, LH_DEVICE, "the device has no license"},
    {200, LH_PROGRAM, "the driver takes this for no kernel code"},
    {209, LH_PROGRAM, "the code is for another chip"},
    {214, LH_DEVICE, "memory that ECC could not correct: reset the device"},
    {218, LH_PROGRAM, ""},
    {220, LH_DEVICE, "an NVLink error: reset the device"},
    {221, LH_DRIVER, "the driver's compiler is missing: install libnvidia-ptxjitcompiler"},
    {222, LH_DRIVER, "the driver is too old for this PTX: update it or pick an older PTX version"},
    {223, LH_DRIVER, "the driver's compiler is switched off (CUDA_DISABLE_PTX_JIT)"},
    {224, LH_DEVICE, ""},
    {225, LH_PROGRAM, ""},
    {226, LH_DEVICE, ""},
    {300, LH_PROGRAM, ""},
    {304, LH_DEVICE, "the operating system refused"},
    {400, LH_PROGRAM, ""},
    {401, LH_PROGRAM, ""},
    {500, LH_PROGRAM, ""},
    {700, LH_PROGRAM, ""},
    {701, LH_PROGRAM, "more registers or threads than the device has for a block"},
    {702, LH_DEVICE, "the driver's watchdog ended a kernel"},
    {709, LH_DEVICE, "the device was reset"},
    {710, LH_PROGRAM, ""},
    {714, LH_PROGRAM, ""},
    {715, LH_PROGRAM, ""},
    {716, LH_PROGRAM, ""},
    {717, LH_PROGRAM, ""},
    {718, LH_PROGRAM, ""},
    {719, LH_DEVICE, "a fault on the device, or shared memory out of bounds: see the kernel's log"},
    {720, LH_PROGRAM, ""},
    {721, LH_PROGRAM, ""},
    {800, LH_DEVICE, "the device is not permitted to us"},
    {801, LH_DEVICE, "the device cannot do this"},
    {802, LH_DEVICE, "the machine is still starting: is its fabric manager up?"},
    {803, LH_DRIVER, "the driver's library does not fit its kernel module: install one release of both"},
    {804, LH_DRIVER, "CUDA's compatibility package does not support this device: remove it"},
    {912, LH_PROGRAM, ""},
    {999, LH_DEVICE, "see the kernel's log"},
    {1052, LH_MEMORY, ""},
};

static const char *lh_last_kernel = ""; /* the last one launched: faults are told later */

/* Keeps an error of the driver. A code that we do not know is newer than we are: no verdict. */
static void lh_fail_code(int code, const char *call, const char *more) {
    struct lh_code known = {code, LH_DRIVER, ""};
    for (usize i = 0; i < sizeof lh_codes / sizeof *lh_codes; ++i)
        if (lh_codes[i].code == code) known = lh_codes[i];
    _Bool running = code >= 700 && code < 800 && lh_last_kernel[0];
    lh_fail(known.kind, "%s: %s (%d)%s%s%s%s%s%s", call, lh_code_name(code), code,
            running ? ", kernel " : "", running ? lh_last_kernel : "",
            known.advice[0] ? ": " : "", known.advice, more[0] ? ": " : "", more);
}

static _Bool lh_check(int code, const char *call) {
    if (code) lh_fail_code(code, call, "");
    return code == 0;
}

#endif
