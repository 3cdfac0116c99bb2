/* A fake libOpenCL.so.1 that has platforms and devices to choose from, and executes nothing.
 *
 * FAKE_CL: a line for each platform: `NAME|VENDOR|GPUS|CPUS`. A device is called by its platform, its
 * kind and its number: `Fast gpu 0`. */
#include "mgpu.h"

char *getenv(const char *name);
char *strchr(const char *text, int wanted);
usize strlen(const char *text);
long strtol(const char *text, char **end, int base);
void *memcpy(void *target, const void *source, usize size);
int snprintf(char *text, usize size, const char *format, ...);

enum { MOST = 8, NOT_FOUND = -1, INVALID = -30, GPU = 4, CPU = 2 };

struct platform { char name[64], vendor[64]; int devices[2]; };
struct device { struct platform *of; int kind, number; };
static struct platform platforms[MOST];
static struct device devices[2 * MOST * MOST];
static int count = -1, device_count;

static const char *field(const char *line, char *text, char end) {
    const char *stop = strchr(line, end);
    usize size = (usize)(stop - line);
    memcpy(text, line, size);
    text[size] = 0;
    return stop + 1;
}

static void start(void) {
    if (count >= 0) return;
    const char *line = getenv("FAKE_CL");
    for (count = 0; line && *line; ++count) {
        char number[64];
        line = field(line, platforms[count].name, '|');
        line = field(line, platforms[count].vendor, '|');
        for (int i = 0; i < 2; ++i) {
            line = field(line, number, i ? '\n' : '|');
            platforms[count].devices[i] = (int)strtol(number, 0, 10);
        }
    }
}

static i32 answer(const char *text, usize room, void *value, usize *written) {
    usize size = strlen(text) + 1;
    if (written) *written = size;
    if (!value) return 0;
    if (room < size) return INVALID;
    memcpy(value, text, size);
    return 0;
}

LH_PUBLIC i32 clGetPlatformIDs(u32 room, void **found, u32 *number) {
    start();
    *number = (u32)count;
    for (int i = 0; i < count && i < (int)room; ++i) found[i] = &platforms[i];
    return count ? 0 : -1001;
}

LH_PUBLIC i32 clGetPlatformInfo(void *platform, u32 what, usize room, void *value, usize *written) {
    struct platform *asked = platform;
    if (what != 0x0902 && what != 0x0903) return INVALID;
    return answer(what == 0x0902 ? asked->name : asked->vendor, room, value, written);
}

LH_PUBLIC i32 clGetDeviceIDs(void *platform, u64 kinds, u32 room, void **found, u32 *number) {
    struct platform *asked = platform;
    u32 at = 0;
    for (int kind = 0; kind < 2; ++kind)
        for (int i = 0; kinds & (kind ? CPU : GPU) && i < asked->devices[kind]; ++i, ++at) {
            if (at >= room) continue;
            devices[device_count] = (struct device){asked, kind, i};
            found[at] = &devices[device_count++];
        }
    *number = at;
    return at ? 0 : NOT_FOUND;
}

LH_PUBLIC i32 clGetDeviceInfo(void *device, u32 what, usize room, void *value, usize *written) {
    struct device *asked = device;
    char text[128];
    u64 number = what == 0x1053 ? 1 : what == 0x100C ? 1500 : what == 0x1002 ? 512 : 1 << 20;
    snprintf(text, sizeof text, "%s %s %d", asked->of->name, asked->kind ? "cpu" : "gpu",
             asked->number);
    if (what == 0x102B || what == 0x102D || what == 0x102F) return answer(text, room, value, written);
    if (room < sizeof number) return INVALID;
    memcpy(value, &number, what == 0x100C || what == 0x1002 ? 4 : sizeof number);
    return 0;
}

static char token;
LH_PUBLIC void *clCreateContext(const isize *properties, u32 number, void *const *list, void *tell,
                                void *data, i32 *code) {
    *code = properties || number != 1 || !list[0] || tell || data ? INVALID : 0;
    return &token;
}

LH_PUBLIC void *clCreateCommandQueue(void *context, void *device, u64 properties, i32 *code) {
    *code = context != &token || !device || properties != 2 ? INVALID : 0;
    return &token;
}

/* What nothing may come to. */
#define NEVER(name) LH_PUBLIC i32 name(void) { __builtin_trap(); }
NEVER(clCreateProgramWithBinary) NEVER(clBuildProgram) NEVER(clGetProgramBuildInfo)
NEVER(clReleaseProgram) NEVER(clCreateKernel) NEVER(clReleaseKernel) NEVER(clGetKernelArgInfo)
NEVER(clSetKernelArg) NEVER(clSetKernelArgSVMPointer) NEVER(clEnqueueNDRangeKernel)
NEVER(clSVMAlloc) NEVER(clSVMFree) NEVER(clEnqueueSVMMap) NEVER(clEnqueueSVMUnmap)
NEVER(clGetEventProfilingInfo) NEVER(clReleaseEvent)
LH_PUBLIC i32 clFinish(void *queue) { return queue == &token ? 0 : INVALID; }
LH_PUBLIC i32 clReleaseContext(void *context) { return context == &token ? 0 : INVALID; }
LH_PUBLIC i32 clReleaseCommandQueue(void *queue) { return queue == &token ? 0 : INVALID; }
