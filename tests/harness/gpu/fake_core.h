/* What the fake drivers are made of: handles, breaches, failures on demand. See fake_driver.h. */
#include "mgpu.h"

void *malloc(usize size);
void free(void *pointer);
void *memcpy(void *target, const void *source, usize size);
void *memset(void *target, int value, usize size);
int memcmp(const void *left, const void *right, usize size);
usize strlen(const char *text);
int strcmp(const char *left, const char *right);
int strncmp(const char *left, const char *right, usize size);
char *strstr(const char *text, const char *wanted);
char *strchr(const char *text, int wanted);
char *getenv(const char *name);
long strtol(const char *text, char **end, int base);
int snprintf(char *text, usize size, const char *format, ...);
void *aligned_alloc(usize alignment, usize size);
void *fopen(const char *path, const char *mode);
int fputs(const char *text, void *file);
int fclose(void *file);

#ifdef FAKE_HIP
#define API(cuda, hip) hip
#else
#define API(cuda, hip) cuda
#endif
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
/* A function of the driver under its vendor's name; `begin` decides what it answers. */
#define DRIVER(cuda, hip, ...) LH_PUBLIC int API(cuda, hip)(__VA_ARGS__)
#define BEGIN(cuda, hip, needs)                                                                    \
    const char *const call = NAME_OF(API(cuda, hip));                                              \
    int code = begin(call, needs);                                                                 \
    if (code) return code
#define REFUSE(code, ...)                                                                          \
    do {                                                                                           \
        breach(call, __VA_ARGS__);                                                                 \
        return code;                                                                               \
    } while (0)

enum { NOTHING, STARTED, CONTEXT };
enum { INVALID_VALUE = 1, OUT_OF_MEMORY, NOT_STARTED, NO_CONTEXT = 201, INVALID_HANDLE = 400,
       NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };
enum { MEMORY, HOST_MEMORY, MODULE, FUNCTION, STREAM, EVENT };
static const char *const kinds[] = {"memory", "host memory", "module", "function", "stream", "event"};
enum { MOST_PARAMS = 64, BLOCK_NS = 1500 };
enum { MOST_THREADS = 1024, DEFAULT_SHARED = 48 << 10, MOST_SHARED = 227 << 10 };

struct thing {
    struct thing *next, *owner;
    int kind;
    u8 *memory;
    usize size;
    char name[64];
    const char *code; /* a module's */
    int params, threads, shared, allowed;
    _Bool pointer[MOST_PARAMS], untimed, recorded;
    u64 at;
};

static struct thing *things;
static _Bool started, injected;
static int poisoned, contexts; /* the code that every call answers; how often it was retained */
static _Thread_local int current = -1;
static u64 now_ns;
static usize used;

static void append(const char *variable, const char *call, const char *words) {
    const char *path = getenv(variable);
    void *file = path ? fopen(path, "a") : 0;
    if (!file) return;
    char line[512];
    snprintf(line, sizeof line, "%s%s%s\n", call, words[0] ? ": " : "", words);
    fputs(line, file);
    fclose(file);
}

__attribute__((format(printf, 2, 3))) static void breach(const char *call, const char *format, ...) {
    int vsnprintf(char *, usize, const char *, __builtin_va_list);
    char words[400];
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    __builtin_va_end(arguments);
    append("FAKE_GPU_LOG", call, words);
}

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, 0, 10) : otherwise;
}

/* The code that $FAKE_GPU_FAIL has for this call, or 0. */
static int wanted_failure(const char *call) {
    static int calls[8];
    const char *at = getenv("FAKE_GPU_FAIL");
    for (int i = 0; at && *at && i < 8; ++i) {
        usize size = strlen(call);
        char *end = 0;
        if (strncmp(at, call, size) == 0 && at[size] == ':') {
            int code = (int)strtol(at + size + 1, &end, 10);
            long which = *end == ':' ? strtol(end + 1, 0, 10) : 0;
            if (++calls[i] == which || !which) return code;
        }
        at = strchr(at, ',');
        if (at) ++at;
    }
    return 0;
}

static int begin(const char *call, int needs) {
    append("FAKE_GPU_TRACE", call, "");
    int code = wanted_failure(call);
    if (code) {
        injected = 1;
        if (code >= ILLEGAL_ADDRESS && code < 720) poisoned = code;
        return code;
    }
    if (needs >= STARTED && !started) REFUSE(NOT_STARTED, "the driver was not started");
    if (poisoned) return poisoned;
    if (needs >= CONTEXT && current < 0) REFUSE(NO_CONTEXT, "this thread has no current context");
    if (needs >= CONTEXT && !contexts) REFUSE(NO_CONTEXT, "the context was released");
    return 0;
}

static struct thing *add(int kind) {
    struct thing *thing = malloc(sizeof *thing);
    memset(thing, 0, sizeof *thing);
    thing->kind = kind;
    thing->next = things;
    return things = thing;
}

static struct thing *find(int kind, const void *handle) {
    for (struct thing *thing = things; thing; thing = thing->next)
        if (thing == handle && thing->kind == kind) return thing;
    return 0;
}

static void drop(struct thing *gone) {
    struct thing **link = &things;
    while (*link != gone) link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

/* The memory that lies wholly in one allocation, or NULL. */
static struct thing *memory_of(const void *address, usize size) {
    for (struct thing *thing = things; thing; thing = thing->next)
        if (thing->memory && (const u8 *)address >= thing->memory &&
            (const u8 *)address + size <= thing->memory + thing->size) return thing;
    return 0;
}

__attribute__((destructor)) static void leaks(void) {
    if (poisoned || injected) return;
    for (struct thing *thing = things; thing; thing = thing->next)
        if (thing->kind != FUNCTION) breach("exit", "a %s was not given back", kinds[thing->kind]);
#ifndef FAKE_HIP
    if (contexts) breach("exit", "the context was retained %d times more than released", contexts);
#endif
}
