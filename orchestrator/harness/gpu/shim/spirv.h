/* What has to be known of a SPIR-V module before a driver compiles it: drivers take for granted
 * that it is sound, and crash or compute garbage when it is not.
 * https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html, 2.3, 3.6, 3.32 and 3.52 */
#ifndef LH_SPIRV_H
#define LH_SPIRV_H

#include "common.h"

enum { LH_SPIRV_MAGIC = 0x07230203, LH_SPIRV_HEADER = 5 /* words */ };
enum { LH_OP_ENTRY_POINT = 15, LH_OP_EXECUTION_MODE = 16, LH_OP_CAPABILITY = 17 };
enum { LH_MODE_LOCAL_SIZE = 17, LH_CAPABILITY_KERNEL = 6 };

struct lh_spirv {
    u32 *words; /* in this machine's byte order */
    usize count;
};

/* One instruction; `length` counts its first word. */
struct lh_instruction {
    u32 operation, length;
    const u32 *operands;
};

/* The instruction at `*at`, and moves on; false at the end, and where a length leads nowhere: then
 * `*at` is not the module's end. */
static _Bool lh_spirv_next(const struct lh_spirv *spirv, usize *at, struct lh_instruction *found) {
    if (*at >= spirv->count) return 0;
    u32 head = spirv->words[*at];
    *found = (struct lh_instruction){
        .operation = head & 0xffff, .length = head >> 16, .operands = spirv->words + *at + 1};
    if (!found->length || found->length > spirv->count - *at) return 0;
    *at += found->length;
    return 1;
}

/* Whether it has SPIR-V's form: a header, then whole instructions. */
static _Bool lh_spirv_sound(const struct lh_spirv *spirv) {
    if (spirv->count < LH_SPIRV_HEADER || spirv->words[0] != LH_SPIRV_MAGIC) return 0;
    usize at = LH_SPIRV_HEADER;
    struct lh_instruction instruction;
    while (lh_spirv_next(spirv, &at, &instruction)) {}
    return at == spirv->count;
}

/* Whether a literal string of so many words is this one; its last word ends in a zero byte. */
static _Bool lh_spirv_named(const u32 *words, u32 count, const char *name) {
    usize size = strlen(name) + 1;
    return size <= (usize)count * 4 && memcmp(words, name, size) == 0;
}

/* Block size of an entry point; false where there is no such entry, or it does not tell. Entry
 * points stand before execution modes (2.4). */
static _Bool lh_spirv_block(const struct lh_spirv *spirv, const char *name, u32 *block) {
    u32 id = 0;
    usize at = LH_SPIRV_HEADER;
    struct lh_instruction each;
    while (lh_spirv_next(spirv, &at, &each)) {
        const u32 *operands = each.operands;
        if (each.operation == LH_OP_ENTRY_POINT && each.length > 3 &&
            lh_spirv_named(operands + 2, each.length - 3, name))
            id = operands[1];
        if (each.operation == LH_OP_EXECUTION_MODE && each.length == 6 && id &&
            operands[0] == id && operands[1] == LH_MODE_LOCAL_SIZE) {
            memcpy(block, operands + 2, 3 * sizeof *block);
            return 1;
        }
    }
    return 0;
}

#endif
