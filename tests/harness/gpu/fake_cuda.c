/* A fake libcuda.so.1 for sm_90 that speaks PTX 8.4 at most; see fake_driver.h.
 *
 *   FAKE_CUDA_PTX      the newest PTX version, times ten (84)
 *   FAKE_CUDA_MANAGED  0: there is no managed memory
 */
#include "fake_driver.h"

DRIVER(cuDriverGetVersion, , int *version) {
    BEGIN(cuDriverGetVersion, , NOTHING);
    *version = 12040;
    return 0;
}

DRIVER(cuGetErrorName, , int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {100, "CUDA_ERROR_NO_DEVICE"}, {218, "CUDA_ERROR_INVALID_PTX"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {500, "CUDA_ERROR_NOT_FOUND"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (usize i = 0; i < sizeof names / sizeof *names; ++i)
        if (names[i].code == code) {
            *name = names[i].name;
            return 0;
        }
    return INVALID_VALUE;
}

DRIVER(cuDeviceGetAttribute, , int *value, int attribute, int device) {
    BEGIN(cuDeviceGetAttribute, , STARTED);
    static const struct { int attribute, value; } known[] = {
        {1, MOST_THREADS}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535},
        {8, DEFAULT_SHARED}, {13, 1980000}, {16, 132}, {75, 9}, {76, 0}, {97, MOST_SHARED},
    };
    if (device < 0) REFUSE(101, "device %d", device);
    *value = (int)setting("FAKE_CUDA_MANAGED", 1);
    if (attribute == 83) return 0;
    for (usize i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    REFUSE(INVALID_VALUE, "attribute %d", attribute);
}

/* --- Contexts: the only one is the address of `contexts` --- */
DRIVER(cuDevicePrimaryCtxRetain, , void **context, int device) {
    BEGIN(cuDevicePrimaryCtxRetain, , STARTED);
    if (device < 0) REFUSE(101, "device %d", device);
    ++contexts;
    *context = &contexts;
    return 0;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, , int device) {
    BEGIN(cuDevicePrimaryCtxRelease_v2, , STARTED);
    if (device < 0 || !contexts) REFUSE(NO_CONTEXT, "released more often than retained");
    --contexts;
    return 0;
}

DRIVER(cuCtxSetCurrent, , void *context) {
    BEGIN(cuCtxSetCurrent, , STARTED);
    if (context != &contexts || !contexts) REFUSE(NO_CONTEXT, "%p is no context", context);
    current = 0;
    return 0;
}

DRIVER(cuMemcpyAsync, , void *target, const void *source, usize size, void *stream) {
    BEGIN(cuMemcpyAsync, , CONTEXT);
    CHECK_STREAM();
    if (!memory_of(target, size) && !memory_of(source, size))
        REFUSE(INVALID_VALUE, "neither address is memory of the device");
    memcpy(target, source, size);
    return 0;
}

/* --- PTX: https://docs.nvidia.com/cuda/parallel-thread-execution/ --- */
static int check_code(const char *call, const char *text, char *log, usize log_size) {
    static const char *const parts[] = {".version ", ".target ", ".address_size 64", ".entry "};
    for (usize i = 0; i < sizeof parts / sizeof *parts; ++i)
        if (!strstr(text, parts[i])) REFUSE(200, "PTX without %s", parts[i]);
    usize size = strlen(text); /* text that is not ended runs on into other data */
    while (size && (u8)text[size - 1] <= ' ') --size;
    for (usize i = 0; i < size; ++i)
        if ((u8)text[i] > '~') REFUSE(200, "PTX that is not text, at %zu", i);
    if (!size || text[size - 1] != '}') REFUSE(200, "PTX that does not end with }");
    char *end = 0;
    long version = 10 * strtol(strstr(text, ".version ") + 9, &end, 10);
    version += strtol(end + 1, 0, 10);
    long newest = setting("FAKE_CUDA_PTX", 84);
    if (version > newest) {
        snprintf(log, log_size,
                 "ptxas application ptx input, line 5; fatal   : Unsupported .version %ld.%ld; "
                 "current version is '%ld.%ld'\n", version / 10, version % 10, newest / 10,
                 newest % 10);
        return 222;
    }
    if (!strstr(text, "does not parse")) return 0;
    snprintf(log, log_size, "ptxas application ptx input, line 7; error   : Parsing error\n"
                            "ptxas fatal   : Ptx assembly aborted due to errors\n");
    return 218;
}

static int find_kernel(const char *call, struct thing *function) {
    const char *at = function->owner->code;
    usize size = strlen(function->name);
    do {
        at = strstr(at, ".entry ");
        if (at) at += 7;
    } while (at && !(strncmp(at, function->name, size) == 0 && at[size] == '('));
    if (!at) REFUSE(NOT_FOUND, "no .entry %s", function->name);
    const char *last = strchr(at, ')'), *body = strchr(at, '{');
    while ((at = strstr(at, ".param ")) && at < last) {
        const char *next = strchr(at, '\n');
        const char *pointer = strstr(at, ".ptr ");
        if (function->params == MOST_PARAMS) REFUSE(INVALID_VALUE, "too many parameters");
        function->pointer[function->params++] = pointer && pointer < next;
        at = next ? next : last;
    }
    const char *most = strstr(last, ".maxntid ");
    if (most && most < body) {
        function->threads = 1;
        for (most += 8; *most == ' ' || *most == ','; ) {
            char *end = 0;
            function->threads *= (int)strtol(most + 1, &end, 10);
            most = end;
        }
    }
    const char *shared = strstr(function->owner->code, ".shared ");
    if (shared) function->shared = (int)strtol(strchr(shared, '[') + 1, 0, 10);
    return 0;
}

DRIVER(cuModuleLoadDataEx, , void **module, const void *data, u32 count, int *options,
       void **values) {
    BEGIN(cuModuleLoadDataEx, , CONTEXT);
    char *log = 0;
    usize size = 0;
    for (u32 i = 0; i < count; ++i) {
        if (options[i] == 5) log = values[i];
        else if (options[i] == 6) size = (usize)values[i];
        else if (options[i] != 7 || (usize)values[i] > 4) REFUSE(INVALID_VALUE, "option %d", options[i]);
    }
    if (!log || !size) REFUSE(INVALID_VALUE, "no room for what the compiler says");
    return load(call, module, data, log, size);
}

DRIVER(cuFuncSetAttribute, , void *function, int attribute, int value) {
    BEGIN(cuFuncSetAttribute, , CONTEXT);
    struct thing *found = find(FUNCTION, function);
    if (!found) REFUSE(INVALID_HANDLE, "%p is no function", function);
    if (attribute != 8 || value < 0 || value + found->shared > MOST_SHARED)
        REFUSE(INVALID_VALUE, "attribute %d = %d", attribute, value);
    found->allowed = value;
    return 0;
}

#ifndef FAKE_CUDA_OLD /* came with CUDA 12.4 */
DRIVER(cuFuncGetParamInfo, , void *function, usize index, usize *offset, usize *size) {
    BEGIN(cuFuncGetParamInfo, , CONTEXT);
    struct thing *found = find(FUNCTION, function);
    if (!found) REFUSE(INVALID_HANDLE, "%p is no function", function);
    if (index >= (usize)found->params) return INVALID_VALUE;
    *offset = 8 * index;
    *size = 8;
    return 0;
}
#endif
