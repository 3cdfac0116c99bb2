/* What every driver's shim needs: libc without its headers, the first error, JSON, finding a
 * driver's library, the registry of allocations, giving everything back at the end.
 *
 * Each driver's source includes this once, so all of it is static but for the entry points at the
 * end, which are the same for every driver. A shim is called by one thread at a time.
 *
 * A driver's source defines:
 *   lh_gpu_open, lh_gpu_describe, lh_gpu_kernel_ns, the mgpu* calls, and
 *   static void lh_forget_times(void);   launches not yet counted no longer count
 *   static void lh_close(void);          gives back modules, queues, contexts: at exit or unload
 */
#ifndef LH_COMMON_H
#define LH_COMMON_H

#include "mgpu.h"

#define LH_SHARED __attribute__((unused)) static
#define LH_FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* --- libc and libdl: found at load in the process that loads us --- */
typedef __builtin_va_list lh_va_list;
int vsnprintf(char *text, usize size, const char *format, lh_va_list arguments);
void *malloc(usize size);
void *realloc(void *pointer, usize size);
void free(void *pointer);
void *memcpy(void *target, const void *source, usize size);
void *memset(void *target, int value, usize size);
int memcmp(const void *left, const void *right, usize size);
usize strlen(const char *text);
int strcmp(const char *left, const char *right);
char *strstr(const char *text, const char *wanted);
char *getenv(const char *name);
long strtol(const char *text, char **end, int base);
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
char *dlerror(void);
struct lh_symbol_place { /* Dl_info of dladdr(3) */
    const char *file;
    void *base;
    const char *name;
    void *address;
};
int dladdr(const void *address, struct lh_symbol_place *place);
char *realpath(const char *path, char *resolved); /* `resolved`: 4096 bytes */
int access(const char *path, int wanted);
/* The C++ ABI's registration of what runs at exit (Itanium ABI 3.3.6): `atexit` is no dynamic
 * symbol of glibc. */
int __cxa_atexit(void (*function)(void *), void *argument, void *object);
void __cxa_finalize(void *object);

#define LH_RTLD_NOW 2
#define LH_EXISTS 0
#define LH_READ_WRITE 6
#define LH_TEXT 1024

static void lh_forget_times(void);
static void lh_close(void);

/* --- The first error --- */
#define LH_PROGRAM "program"
#define LH_DRIVER "driver"
#define LH_DEVICE "device"
#define LH_MEMORY "memory"

static char lh_first_error[2 * LH_TEXT];
/* Why a module could not be loaded; kept when errors are cleared, since its kernels stay unusable. */
static char lh_load_error[2 * LH_TEXT];

/* Whether something went wrong since the last clear: then entry points do nothing, but for those
 * that give something back. */
LH_SHARED _Bool lh_failed(void) {
    return lh_first_error[0] != 0;
}

LH_SHARED LH_FORMAT(3) void lh_print(char *text, usize size, const char *format, ...) {
    lh_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(text, size, format, arguments);
    __builtin_va_end(arguments);
}

/* Keeps an error unless there is one. `kind` is one of LH_PROGRAM, LH_DRIVER, LH_DEVICE, LH_MEMORY;
 * the words name the driver's call and its code. */
LH_SHARED LH_FORMAT(2) void lh_fail(const char *kind, const char *format, ...) {
    if (lh_failed()) return;
    lh_print(lh_first_error, sizeof lh_first_error, "%s: ", kind);
    usize head = strlen(lh_first_error);
    lh_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(lh_first_error + head, sizeof lh_first_error - head, format, arguments);
    __builtin_va_end(arguments);
}

/* A module was not loaded: its kernels answer with the same error ever after. */
LH_SHARED void lh_note_load_error(void) {
    if (lh_load_error[0] == 0) memcpy(lh_load_error, lh_first_error, sizeof lh_load_error);
}

/* What to say when a kernel is launched that was never found. */
LH_SHARED void lh_fail_no_kernel(void) {
    if (lh_failed()) return;
    if (lh_load_error[0]) memcpy(lh_first_error, lh_load_error, sizeof lh_first_error);
    else lh_fail(LH_PROGRAM, "mgpuLaunchKernel: there is no such kernel");
}

/* --- One flat JSON object: begin, any number of members, end --- */
static char lh_json[4096];
static usize lh_json_size;

LH_SHARED void lh_json_put(char letter) {
    if (lh_json_size + 2 < sizeof lh_json) lh_json[lh_json_size++] = letter; /* room for `}` */
}

LH_SHARED void lh_json_string(const char *text) {
    lh_json_put('"');
    for (; *text; ++text) {
        u8 letter = (u8)*text;
        if (letter == '"' || letter == '\\') lh_json_put('\\');
        lh_json_put(letter < 0x20 || letter > 0x7e ? '?' : (char)letter); /* always valid UTF-8 */
    }
    lh_json_put('"');
}

LH_SHARED void lh_json_begin(void) {
    lh_json_size = 0;
    lh_json_put('{');
}

LH_SHARED void lh_json_key(const char *key) {
    if (lh_json_size > 1) lh_json_put(',');
    lh_json_string(key);
    lh_json_put(':');
}

LH_SHARED void lh_json_text(const char *key, const char *value) {
    lh_json_key(key);
    lh_json_string(value);
}

LH_SHARED void lh_json_number(const char *key, i64 value) {
    char digits[24];
    lh_print(digits, sizeof digits, "%lld", (long long)value);
    lh_json_key(key);
    for (const char *digit = digits; *digit; ++digit) lh_json_put(*digit);
}

LH_SHARED const char *lh_json_end(void) {
    lh_json[lh_json_size++] = '}';
    lh_json[lh_json_size] = 0;
    return lh_json;
}

/* --- The driver's library --- */
static char lh_missing[LH_TEXT]; /* what the loader said of the last name that it did not find */

/* The first of `names` (ended by NULL) that loads, from the folders of $LH_SYSROOT first; NULL
 * when none does, and `lh_missing` says why. */
LH_SHARED void *lh_open_library(const char *const *names) {
    const char *root = getenv("LH_SYSROOT");
#if defined(__aarch64__)
    const char *folder = "usr/lib/aarch64-linux-gnu";
#else
    const char *folder = "usr/lib/x86_64-linux-gnu";
#endif
    lh_missing[0] = 0;
    for (const char *const *name = names; *name; ++name) {
        char path[LH_TEXT];
        void *library = 0;
        if (root && root[0]) {
            lh_print(path, sizeof path, "%s/%s/%s", root, folder, *name);
            library = dlopen(path, LH_RTLD_NOW);
        }
        if (!library) library = dlopen(*name, LH_RTLD_NOW);
        if (library) return library;
        const char *why = dlerror();
        if (!lh_missing[0]) lh_print(lh_missing, sizeof lh_missing, "%s", why ? why : *name);
    }
    return 0;
}

/* The file that a function of a driver came from, links followed: its name tells the version. */
LH_SHARED const char *lh_file_of(const void *function) {
    static char resolved[4096];
    struct lh_symbol_place place;
    if (!dladdr(function, &place) || !place.file) return "";
    return realpath(place.file, resolved) ? resolved : place.file;
}

/* Why a device's node cannot be used, with what to do; "" when it can. */
LH_SHARED const char *lh_node_trouble(const char *node, const char *groups) {
    static char text[LH_TEXT];
    if (access(node, LH_EXISTS))
        lh_print(text, sizeof text,
                 "there is no %s here: load the kernel's driver; a container must be handed the "
                 "device", node);
    else if (access(node, LH_READ_WRITE))
        lh_print(text, sizeof text, "permission denied on %s: %s", node, groups);
    else return "";
    return text;
}

/* A row of the table of a driver's functions. */
struct lh_import {
    const char *name;
    void **function;
    _Bool optional; /* absent from old or trimmed drivers; we can do without */
};

/* Fills in all functions; else says which is missing: such a driver is too old for us. */
LH_SHARED _Bool lh_import_all(void *library, const struct lh_import *imports, usize count) {
    for (usize i = 0; i < count; ++i) {
        *imports[i].function = dlsym(library, imports[i].name);
        if (*imports[i].function || imports[i].optional) continue;
        lh_fail(LH_DRIVER, "the driver has no %s: it is too old, update it", imports[i].name);
        return 0;
    }
    return 1;
}

/* Which of `count` devices to bind: $LH_GPU_DEVICE or 0; -1 after an error was kept. */
LH_SHARED int lh_wanted_device(int count) {
    const char *text = getenv("LH_GPU_DEVICE");
    if (!text || !text[0]) return 0;
    char *end = 0;
    long index = strtol(text, &end, 10);
    if (end != text && !*end && index >= 0 && index < count) return (int)index;
    lh_fail(LH_DEVICE, "LH_GPU_DEVICE is '%s', but devices are numbered 0 to %d here", text,
            count - 1);
    return -1;
}

/* --- What was allocated --- */
struct lh_block {
    u8 *user;       /* what was handed out */
    void *base;     /* what the driver gave */
    usize size;     /* bytes from `user`, at least 1 */
    u64 handles[2]; /* the driver's own names of it */
};
static struct lh_block *lh_blocks;
static usize lh_block_count, lh_block_room;
static i64 lh_handles; /* queues and events that live */
static u64 lh_modules; /* modules that are loaded */

/* Notes an allocation; the result is valid until the next call, NULL when we have no memory. */
LH_SHARED struct lh_block *lh_block_add(void *base, usize size) {
    if (lh_block_count == lh_block_room) {
        usize room = lh_block_room ? 2 * lh_block_room : 64;
        struct lh_block *grown = realloc(lh_blocks, room * sizeof *grown);
        if (!grown) {
            lh_fail(LH_MEMORY, "the host has no memory left");
            return 0;
        }
        lh_blocks = grown;
        lh_block_room = room;
    }
    struct lh_block *block = &lh_blocks[lh_block_count++];
    *block = (struct lh_block){.user = base, .base = base, .size = size ? size : 1};
    return block;
}

/* The allocation that an address lies in, or NULL. */
LH_SHARED struct lh_block *lh_block_find(const void *address) {
    for (usize i = lh_block_count; i-- > 0;) { /* the youngest is asked for most often */
        const u8 *user = lh_blocks[i].user;
        if ((const u8 *)address >= user && (usize)((const u8 *)address - user) < lh_blocks[i].size)
            return &lh_blocks[i];
    }
    return 0;
}

/* Takes out the allocation that was handed out as `pointer` and copies it to `taken`; else false,
 * and an error was kept. NULL is nothing and no error: false. */
LH_SHARED _Bool lh_block_take(void *pointer, struct lh_block *taken) {
    if (!pointer) return 0;
    struct lh_block *block = lh_block_find(pointer);
    if (!block || block->user != pointer) {
        lh_fail(LH_PROGRAM, "mgpuMemFree: %p was not allocated here, or is free already", pointer);
        return 0;
    }
    *taken = *block;
    *block = lh_blocks[--lh_block_count];
    return 1;
}

/* --- The end ---
 * Drivers tear themselves down at exit, and may do so before the host code's destructors unload
 * its modules. What is registered after the driver was loaded runs before the driver's own. */
static _Bool lh_closed;

LH_SHARED void lh_at_exit(void *unused) {
    (void)unused;
    if (lh_closed) return;
    if (!lh_failed()) lh_close(); /* a broken device may hang or crash a driver that cleans up */
    lh_closed = 1;
}

/* To be called once, at the end of a successful lh_gpu_open. */
LH_SHARED void lh_register_close(void) {
    __cxa_atexit(lh_at_exit, 0, &lh_closed);
}

__attribute__((destructor)) static void lh_unloaded(void) {
    __cxa_finalize(&lh_closed); /* dlclose: runs lh_at_exit unless it has run */
}

/* --- Entry points that are the same for all drivers --- */
const char *lh_gpu_error(void) {
    return lh_first_error;
}

void lh_gpu_clear(void) {
    lh_first_error[0] = 0;
    lh_forget_times();
}

u64 lh_gpu_live(void) {
    return lh_block_count + (u64)lh_handles;
}

u64 lh_gpu_modules(void) {
    return lh_modules;
}

void *_mlir_memref_to_llvm_alloc(usize size) {
    return mgpuMemAlloc(size, 0, 1);
}

void *_mlir_memref_to_llvm_aligned_alloc(usize alignment, usize size) {
    usize mask = alignment ? alignment - 1 : 0;
    if (alignment & mask || size + mask < size) {
        lh_fail(LH_PROGRAM, "an allocation of %zu bytes aligned to %zu", size, alignment);
        return 0;
    }
    u8 *pointer = mgpuMemAlloc(size, 0, 1);
    if (!pointer || !((usize)pointer & mask)) return pointer;
    mgpuMemFree(pointer, 0); /* drivers align to pages or to 64 bytes at least: this is rare */
    pointer = mgpuMemAlloc(size + mask, 0, 1);
    struct lh_block *block = pointer ? lh_block_find(pointer) : 0;
    if (!block) return 0;
    block->user = (u8 *)(((usize)pointer + mask) & ~mask);
    block->size -= (usize)(block->user - pointer);
    return block->user;
}

void _mlir_memref_to_llvm_free(void *pointer) {
    mgpuMemFree(pointer, 0);
}

#endif
