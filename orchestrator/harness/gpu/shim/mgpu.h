/* The GPU runtime that MLIR's generated host code calls (`mgpu*`), and what our runner asks of it.
 *
 * One implementation for each driver (cuda.c, hip.c, opencl.c, vulkan.c); exactly one of them is
 * linked into a bundle's shared object, together with the host code. The driver itself is found
 * with dlopen when it is first needed: nothing of any vendor is needed to build this, and neither
 * are libc's headers.
 *
 * No entry point aborts. The first thing that goes wrong is kept for `lh_gpu_error`, and from then
 * on every call does nothing until `lh_gpu_clear`, but for those that give something back (free,
 * unload, destroy): these do so silently. One thread at a time may call.
 *
 * The environment variable LH_GPU_DEVICE chooses one of several devices by its number (default 0).
 */
#ifndef LH_MGPU_H
#define LH_MGPU_H

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __INT32_TYPE__ i32;
typedef __UINT32_TYPE__ u32;
typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;
typedef __SIZE_TYPE__ usize;
typedef __INTPTR_TYPE__ isize;

#define LH_PUBLIC __attribute__((visibility("default")))

/* --- MLIR's own interface (mlir/lib/ExecutionEngine/CudaRuntimeWrappers.cpp, RocmRuntimeWrappers.cpp,
 *     VulkanRuntimeWrappers.cpp). Memory is reachable from host and device alike when it was asked
 *     for with `host_shared`. --- */
/* What `data` and `name` point to may be gone when the call is over. */
LH_PUBLIC void *mgpuModuleLoad(void *data, usize size);
/* `data`: text, ended by a zero byte. */
LH_PUBLIC void *mgpuModuleLoadJIT(void *data, int optimization);
LH_PUBLIC void mgpuModuleUnload(void *module);
LH_PUBLIC void *mgpuModuleGetFunction(void *module, const char *name);
LH_PUBLIC void mgpuLaunchKernel(void *function, isize grid_x, isize grid_y, isize grid_z,
                                isize block_x, isize block_y, isize block_z, i32 shared_bytes,
                                void *stream, void **params, void **extra, usize params_count);
LH_PUBLIC void *mgpuStreamCreate(void);
LH_PUBLIC void mgpuStreamDestroy(void *stream);
LH_PUBLIC void mgpuStreamSynchronize(void *stream);
LH_PUBLIC void mgpuStreamWaitEvent(void *stream, void *event);
LH_PUBLIC void *mgpuEventCreate(void);
LH_PUBLIC void mgpuEventDestroy(void *event);
LH_PUBLIC void mgpuEventSynchronize(void *event);
LH_PUBLIC void mgpuEventRecord(void *event, void *stream);
LH_PUBLIC void *mgpuMemAlloc(u64 size, void *stream, _Bool host_shared);
LH_PUBLIC void mgpuMemFree(void *pointer, void *stream);
LH_PUBLIC void mgpuMemcpy(void *target, void *source, usize size, void *stream);
LH_PUBLIC void mgpuMemset32(void *pointer, u32 value, usize count, void *stream);
LH_PUBLIC void mgpuMemset16(void *pointer, u16 value, usize count, void *stream);

/* What `finalize-memref-to-llvm{use-generic-functions}` calls for memref.alloc and .dealloc in the
 * host code: buffers that kernels share. */
LH_PUBLIC void *_mlir_memref_to_llvm_alloc(usize size);
LH_PUBLIC void *_mlir_memref_to_llvm_aligned_alloc(usize alignment, usize size);
LH_PUBLIC void _mlir_memref_to_llvm_free(void *pointer);

/* --- Ours --- */

/* Binds the driver and a device, unless that was done. 0: ready. */
LH_PUBLIC int lh_gpu_open(void);
/* What was bound, as one JSON object with string and integer values, at least:
 *   driver ("cuda" "hip" "opencl" "vulkan"), driver_version, library (what dlopen found), device,
 *   chip ("sm_90", "gfx942", "" where there is no such name), memory_bytes, shared_memory_bytes
 *   (a block's limit). Where the driver tells: clock_khz (the highest), multiprocessors.
 *   "{}" when nothing is bound. Valid until the next call. */
LH_PUBLIC const char *lh_gpu_describe(void);
/* The first error since the last clear, "" when there is none: `<class>: <words>`.
 *   program   the code is at fault: refused by the driver's compiler, an illegal address, a launch
 *             that no device of this kind takes
 *   driver    the driver is missing, too old for the code, or does not fit the kernel module
 *   device    no device, a device that is lost, faulty, hung or not permitted to us
 *   memory    the device's memory is full
 * Words name the driver's call and its code: `cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)`. */
LH_PUBLIC const char *lh_gpu_error(void);
LH_PUBLIC void lh_gpu_clear(void);
/* Device time of the launches since the last `lh_gpu_clear`, in nanoseconds; 0 where the driver
 * does not tell. */
LH_PUBLIC u64 lh_gpu_kernel_ns(void);
/* Allocations not freed, streams and events not destroyed: 0 after a run that leaks nothing. Modules
 * do not count: the host code's constructor loads them and its destructor unloads them. */
LH_PUBLIC u64 lh_gpu_live(void);
/* Modules that are loaded. */
LH_PUBLIC u64 lh_gpu_modules(void);

#endif
