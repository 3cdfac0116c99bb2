/* For drivers whose memory the host reads and writes as its own, and whose launches are over when
 * mgpuLaunchKernel returns: what is left of copies, streams and events then.
 *
 * A driver's source defines LH_API, its name in messages, and includes this once. */
#ifndef LH_IMMEDIATE_H
#define LH_IMMEDIATE_H

#include "common.h"

/* Whether an entry point may go on: a device is bound, and nothing went wrong. */
static _Bool lh_enter(void) {
    return lh_gpu_open() == 0 && !lh_failed();
}

void mgpuMemcpy(void *target, void *source, usize size, void *stream) {
    (void)stream;
    if (lh_enter()) memcpy(target, source, size);
}

void mgpuMemset32(void *pointer, u32 value, usize count, void *stream) {
    (void)stream;
    if (lh_enter())
        for (usize i = 0; i < count; ++i) ((u32 *)pointer)[i] = value;
}

void mgpuMemset16(void *pointer, u16 value, usize count, void *stream) {
    (void)stream;
    if (lh_enter())
        for (usize i = 0; i < count; ++i) ((u16 *)pointer)[i] = value;
}

void *mgpuModuleLoadJIT(void *data, int optimization) {
    (void)data;
    (void)optimization;
    lh_fail(LH_PROGRAM, "mgpuModuleLoadJIT: " LH_API " takes SPIR-V, not assembly");
    lh_note_load_error();
    return 0;
}

/* Streams and events are only counted. */
static char lh_token;

void *mgpuStreamCreate(void) {
    if (!lh_enter()) return 0;
    ++lh_handles;
    return &lh_token;
}

void mgpuStreamDestroy(void *stream) {
    if (stream) --lh_handles;
}

void mgpuStreamSynchronize(void *stream) {
    (void)stream;
}

void mgpuStreamWaitEvent(void *stream, void *event) {
    (void)stream;
    (void)event;
}

void *mgpuEventCreate(void) {
    return mgpuStreamCreate();
}

void mgpuEventDestroy(void *event) {
    mgpuStreamDestroy(event);
}

void mgpuEventSynchronize(void *event) {
    (void)event;
}

void mgpuEventRecord(void *event, void *stream) {
    (void)event;
    (void)stream;
}

#endif
