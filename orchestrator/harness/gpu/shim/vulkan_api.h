/* The part of Vulkan that vulkan.c uses: structures in the specification's order of members, calls,
 * codes. https://registry.khronos.org/vulkan/specs/1.3-extensions/html/vkspec.html */
#ifndef LH_VULKAN_API_H
#define LH_VULKAN_API_H

#include "common.h"

typedef u64 vk_handle; /* VkBuffer and other handles that are no pointers on 64-bit machines */

enum { VK_VERSION_1_2 = 1u << 22 | 2u << 12 };
enum { VK_HOST_VISIBLE_COHERENT = 2 | 4, VK_HOST_CACHED = 8 };
enum { VK_STORAGE_BUFFER_USAGE = 0x20, VK_QUEUE_COMPUTE = 2, VK_STORAGE_BUFFER = 7 };
enum { VK_SHADER_STAGE_COMPUTE = 0x20, VK_BIND_COMPUTE = 1, VK_QUERY_TIMESTAMP = 2 };
enum { VK_AT_TOP = 1, VK_AT_COMPUTE = 0x800, VK_AT_BOTTOM = 0x2000, VK_AT_HOST = 0x4000 };
enum { VK_SHADER_WRITE = 0x40, VK_HOST_READ = 0x2000 };
#define VK_WHOLE_SIZE (~0ull)

/* VkStructureType */
enum { VK_APPLICATION = 0, VK_INSTANCE_INFO = 1, VK_QUEUE_INFO = 2, VK_DEVICE_INFO = 3,
       VK_SUBMIT = 4, VK_ALLOCATE_INFO = 5, VK_QUERY_POOL_INFO = 11, VK_BUFFER_INFO = 12,
       VK_SHADER_INFO = 16, VK_STAGE_INFO = 18, VK_PIPELINE_INFO = 29, VK_LAYOUT_INFO = 30,
       VK_SET_LAYOUT_INFO = 32, VK_POOL_INFO = 33, VK_SET_INFO = 34, VK_WRITE = 35,
       VK_COMMAND_POOL_INFO = 39, VK_COMMANDS_INFO = 40, VK_BEGIN_INFO = 42, VK_BARRIER = 46,
       VK_FEATURES_1_1 = 49, VK_FEATURES_1_2 = 51, VK_FEATURES_2 = 1000059000,
       VK_PROPERTIES_2 = 1000059001, VK_DRIVER_PROPERTIES = 1000196000 };

struct vk_application { i32 type; const void *next; const char *name; u32 version;
                        const char *engine; u32 engine_version, api; };
struct vk_instance_info { i32 type; const void *next; u32 flags;
                          const struct vk_application *application; u32 layers;
                          const char *const *layer_names; u32 extensions;
                          const char *const *extension_names; };
struct vk_queue_info { i32 type; const void *next; u32 flags, family, count;
                       const float *priorities; };
struct vk_device_info { i32 type; const void *next; u32 flags, queues;
                        const struct vk_queue_info *queue; u32 layers;
                        const char *const *layer_names; u32 extensions;
                        const char *const *extension_names; const u32 *features; };
struct vk_queue_family { u32 flags, count, timestamp_bits, granularity[3]; };
struct vk_memory { u32 type_count; struct { u32 flags, heap; } types[32]; u32 heap_count;
                   struct { u64 size; u32 flags; } heaps[16]; };
struct vk_requirements { u64 size, alignment; u32 types; };
struct vk_buffer_info { i32 type; const void *next; u32 flags; u64 size; u32 usage, sharing, families;
                        const u32 *family; };
struct vk_allocate_info { i32 type; const void *next; u64 size; u32 memory_type; };
struct vk_shader_info { i32 type; const void *next; u32 flags; usize size; const void *code; };
struct vk_binding { u32 binding; i32 kind; u32 count, stages; const void *samplers; };
struct vk_set_layout_info { i32 type; const void *next; u32 flags, count;
                            const struct vk_binding *bindings; };
struct vk_layout_info { i32 type; const void *next; u32 flags, sets; const vk_handle *set;
                        u32 ranges; const void *range; };
struct vk_stage_info { i32 type; const void *next; u32 flags, stage; vk_handle module;
                       const char *name; const void *specialization; };
struct vk_pipeline_info { i32 type; const void *next; u32 flags; struct vk_stage_info stage;
                          vk_handle layout, base; i32 base_index; };
struct vk_pool_size { i32 kind; u32 count; };
struct vk_pool_info { i32 type; const void *next; u32 flags, sets, sizes;
                      const struct vk_pool_size *size; };
struct vk_set_info { i32 type; const void *next; vk_handle pool; u32 count;
                     const vk_handle *layouts; };
struct vk_buffer_range { vk_handle buffer; u64 offset, range; };
struct vk_write { i32 type; const void *next; vk_handle set; u32 binding, element, count; i32 kind;
                  const void *images; const struct vk_buffer_range *buffers; const void *views; };
struct vk_command_pool_info { i32 type; const void *next; u32 flags, family; };
struct vk_commands_info { i32 type; const void *next; vk_handle pool; i32 level; u32 count; };
struct vk_begin_info { i32 type; const void *next; u32 flags; const void *inheritance; };
struct vk_query_pool_info { i32 type; const void *next; u32 flags; i32 kind; u32 count, statistics; };
struct vk_barrier { i32 type; const void *next; u32 from, to; };
struct vk_submit { i32 type; const void *next; u32 waits; const vk_handle *wait; const u32 *stages;
                   u32 commands; void *const *command; u32 signals; const vk_handle *signal; };
struct vk_driver { i32 type; void *next; i32 id; char name[256], info[256]; u8 conformance[4]; };

/* VkPhysicalDeviceProperties is read at its offsets, its limits begin at 296. */
enum { VK_PROPERTIES_SIZE = 824, VK_AT_API = 0, VK_AT_DRIVER = 4, VK_AT_NAME = 20 };
enum { VK_AT_RANGE = 296 + 28, VK_AT_BUFFERS = 296 + 76, VK_AT_SHARED = 296 + 216,
       VK_AT_GRID = 296 + 220, VK_AT_THREADS = 296 + 232, VK_AT_BLOCK = 296 + 236,
       VK_AT_ALIGNMENT = 296 + 328, VK_AT_PERIOD = 296 + 424 };
struct vk_properties { i32 type; void *next; _Alignas(8) u8 bytes[VK_PROPERTIES_SIZE]; };
/* VkPhysicalDeviceFeatures2 and those of 1.1 and 1.2: booleans in the specification's order. */
struct vk_features { i32 type; void *next; u32 flags[55]; };
struct vk_features_1_1 { i32 type; void *next; u32 flags[12]; };
struct vk_features_1_2 { i32 type; void *next; u32 flags[47]; };

/* name without `vk`, result, parameters */
#define VK_CALLS(ROW)                                                                              \
    ROW(CreateInstance, i32, const struct vk_instance_info *, const void *, void **)               \
    ROW(DestroyInstance, void, void *, const void *)                                               \
    ROW(EnumeratePhysicalDevices, i32, void *, u32 *, void **)                                     \
    ROW(GetPhysicalDeviceProperties, void, void *, void *)                                         \
    ROW(GetPhysicalDeviceProperties2, void, void *, struct vk_properties *)                        \
    ROW(GetPhysicalDeviceFeatures2, void, void *, struct vk_features *)                            \
    ROW(GetPhysicalDeviceQueueFamilyProperties, void, void *, u32 *, struct vk_queue_family *)     \
    ROW(GetPhysicalDeviceMemoryProperties, void, void *, struct vk_memory *)                       \
    ROW(CreateDevice, i32, void *, const struct vk_device_info *, const void *, void **)           \
    ROW(DestroyDevice, void, void *, const void *)                                                 \
    ROW(GetDeviceQueue, void, void *, u32, u32, void **)                                           \
    ROW(QueueSubmit, i32, void *, u32, const struct vk_submit *, vk_handle)                        \
    ROW(QueueWaitIdle, i32, void *)                                                                \
    ROW(CreateBuffer, i32, void *, const struct vk_buffer_info *, const void *, vk_handle *)       \
    ROW(DestroyBuffer, void, void *, vk_handle, const void *)                                      \
    ROW(GetBufferMemoryRequirements, void, void *, vk_handle, struct vk_requirements *)            \
    ROW(AllocateMemory, i32, void *, const struct vk_allocate_info *, const void *, vk_handle *)   \
    ROW(FreeMemory, void, void *, vk_handle, const void *)                                         \
    ROW(BindBufferMemory, i32, void *, vk_handle, vk_handle, u64)                                  \
    ROW(MapMemory, i32, void *, vk_handle, u64, u64, u32, void **)                                 \
    ROW(CreateShaderModule, i32, void *, const struct vk_shader_info *, const void *, vk_handle *) \
    ROW(DestroyShaderModule, void, void *, vk_handle, const void *)                                \
    ROW(CreateDescriptorSetLayout, i32, void *, const struct vk_set_layout_info *, const void *,   \
        vk_handle *)                                                                               \
    ROW(DestroyDescriptorSetLayout, void, void *, vk_handle, const void *)                         \
    ROW(CreatePipelineLayout, i32, void *, const struct vk_layout_info *, const void *,            \
        vk_handle *)                                                                               \
    ROW(DestroyPipelineLayout, void, void *, vk_handle, const void *)                              \
    ROW(CreateComputePipelines, i32, void *, vk_handle, u32, const struct vk_pipeline_info *,      \
        const void *, vk_handle *)                                                                 \
    ROW(DestroyPipeline, void, void *, vk_handle, const void *)                                    \
    ROW(CreateDescriptorPool, i32, void *, const struct vk_pool_info *, const void *, vk_handle *) \
    ROW(DestroyDescriptorPool, void, void *, vk_handle, const void *)                              \
    ROW(AllocateDescriptorSets, i32, void *, const struct vk_set_info *, vk_handle *)              \
    ROW(UpdateDescriptorSets, void, void *, u32, const struct vk_write *, u32, const void *)       \
    ROW(CreateQueryPool, i32, void *, const struct vk_query_pool_info *, const void *,             \
        vk_handle *)                                                                               \
    ROW(DestroyQueryPool, void, void *, vk_handle, const void *)                                   \
    ROW(GetQueryPoolResults, i32, void *, vk_handle, u32, u32, usize, void *, u64, u32)            \
    ROW(CreateCommandPool, i32, void *, const struct vk_command_pool_info *, const void *,         \
        vk_handle *)                                                                               \
    ROW(DestroyCommandPool, void, void *, vk_handle, const void *)                                 \
    ROW(AllocateCommandBuffers, i32, void *, const struct vk_commands_info *, void **)             \
    ROW(BeginCommandBuffer, i32, void *, const struct vk_begin_info *)                             \
    ROW(EndCommandBuffer, i32, void *)                                                             \
    ROW(CmdBindPipeline, void, void *, i32, vk_handle)                                             \
    ROW(CmdBindDescriptorSets, void, void *, i32, vk_handle, u32, u32, const vk_handle *, u32,     \
        const u32 *)                                                                               \
    ROW(CmdDispatch, void, void *, u32, u32, u32)                                                  \
    ROW(CmdPipelineBarrier, void, void *, u32, u32, u32, u32, const struct vk_barrier *, u32,      \
        const void *, u32, const void *)                                                           \
    ROW(CmdResetQueryPool, void, void *, vk_handle, u32, u32)                                      \
    ROW(CmdWriteTimestamp, void, void *, u32, vk_handle, u32)

#define VK_POINTER(name, result, ...) static result (*vk##name)(__VA_ARGS__);
VK_CALLS(VK_POINTER)
#define VK_IMPORT(name, ...) {"vk" #name, (void **)&vk##name, 0},
static const struct lh_import vk_imports[] = {VK_CALLS(VK_IMPORT)};

/* VkResult; no kind: it depends on the call. */
static const struct {
    i32 code;
    const char *name, *kind;
} vk_codes[] = {
    {-1, "VK_ERROR_OUT_OF_HOST_MEMORY", LH_MEMORY},
    {-2, "VK_ERROR_OUT_OF_DEVICE_MEMORY", LH_MEMORY},
    {-3, "VK_ERROR_INITIALIZATION_FAILED", 0},
    {-4, "VK_ERROR_DEVICE_LOST", LH_DEVICE},
    {-5, "VK_ERROR_MEMORY_MAP_FAILED", LH_MEMORY},
    {-7, "VK_ERROR_EXTENSION_NOT_PRESENT", LH_DRIVER},
    {-8, "VK_ERROR_FEATURE_NOT_PRESENT", LH_DRIVER},
    {-9, "VK_ERROR_INCOMPATIBLE_DRIVER", LH_DRIVER},
    {-10, "VK_ERROR_TOO_MANY_OBJECTS", LH_MEMORY},
    {-12, "VK_ERROR_FRAGMENTED_POOL", LH_MEMORY},
    {-13, "VK_ERROR_UNKNOWN", 0},
    {-1000012000, "VK_ERROR_INVALID_SHADER_NV", LH_PROGRAM},
    {-1000069000, "VK_ERROR_OUT_OF_POOL_MEMORY", LH_MEMORY},
    {-1000161000, "VK_ERROR_FRAGMENTATION", LH_MEMORY},
    {-1000174001, "VK_ERROR_NOT_PERMITTED", LH_DEVICE},
};

/* Features that kernels may need: what SPIR-V calls them, and where the device says whether it has
 * them. Those of `core` are the index in vk_features, of `v11` and `v12` in the later ones. */
static const struct vk_feature {
    u32 capability;
    enum { VK_CORE, VK_1_1, VK_1_2 } part;
    u32 index;
    const char *name;
} vk_wanted_features[] = {
    {10, VK_CORE, 39, "shaderFloat64"},
    {11, VK_CORE, 40, "shaderInt64"},
    {22, VK_CORE, 41, "shaderInt16"},
    {4433, VK_1_1, 0, "storageBuffer16BitAccess"},
    {4434, VK_1_1, 1, "uniformAndStorageBuffer16BitAccess"},
    {4441, VK_1_1, 7, "variablePointersStorageBuffer"},
    {4442, VK_1_1, 8, "variablePointers"},
    {4448, VK_1_2, 2, "storageBuffer8BitAccess"},
    {4449, VK_1_2, 3, "uniformAndStorageBuffer8BitAccess"},
    {9, VK_1_2, 7, "shaderFloat16"},
    {39, VK_1_2, 8, "shaderInt8"},
    {5345, VK_1_2, 41, "vulkanMemoryModel"},
};

#endif
