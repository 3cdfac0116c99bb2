/* Vulkan: compute shaders, one storage buffer for each pointer that a kernel takes.
 * https://registry.khronos.org/vulkan/specs/1.3-extensions/html/vkspec.html
 *
 * Memory is one mapped buffer for each allocation; a launch finds the buffers that its pointers lie
 * in. Kernels come as SPIR-V, their block size built in. */
#include "common.h"

typedef u64 vk_handle; /* VkBuffer and other handles that are no pointers on 64-bit machines */

enum { VK_SUCCESS = 0, VK_OUT_OF_HOST = -1, VK_OUT_OF_DEVICE = -2, VK_LOST = -4 };
enum { VK_INCOMPATIBLE_DRIVER = -9 };
enum { LH_HOST_VISIBLE_COHERENT = 2 | 4, LH_STORAGE_BUFFER_USAGE = 0x20, LH_COMPUTE = 2 };
enum { LH_STORAGE_BUFFER = 7, LH_STAGE_COMPUTE = 0x20, LH_MOST_BUFFERS = 64 };

/* --- The structures that we fill in, in the specification's order of members --- */
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
struct vk_submit { i32 type; const void *next; u32 waits; const vk_handle *wait; const u32 *stages;
                   u32 commands; void *const *command; u32 signals; const vk_handle *signal; };

/* VkPhysicalDeviceProperties is read at its documented offsets (its limits begin at 296). */
enum { LH_PROPERTIES_SIZE = 1024, LH_AT_API = 0, LH_AT_DRIVER = 4, LH_AT_NAME = 20 };
enum { LH_AT_SHARED = 296 + 216, LH_AT_GRID = 296 + 220, LH_AT_THREADS = 296 + 232,
       LH_AT_BLOCK = 296 + 236, LH_AT_ALIGNMENT = 296 + 328 };

static i32 (*vkCreateInstance)(const struct vk_instance_info *, const void *, void **);
static void (*vkDestroyInstance)(void *, const void *);
static i32 (*vkEnumeratePhysicalDevices)(void *, u32 *, void **);
static void (*vkGetPhysicalDeviceProperties)(void *, void *);
static void (*vkGetPhysicalDeviceFeatures)(void *, u32 *);
static void (*vkGetPhysicalDeviceQueueFamilyProperties)(void *, u32 *, struct vk_queue_family *);
static void (*vkGetPhysicalDeviceMemoryProperties)(void *, struct vk_memory *);
static i32 (*vkCreateDevice)(void *, const struct vk_device_info *, const void *, void **);
static void (*vkDestroyDevice)(void *, const void *);
static void (*vkGetDeviceQueue)(void *, u32, u32, void **);
static i32 (*vkQueueSubmit)(void *, u32, const struct vk_submit *, vk_handle);
static i32 (*vkQueueWaitIdle)(void *);
static i32 (*vkCreateBuffer)(void *, const struct vk_buffer_info *, const void *, vk_handle *);
static void (*vkDestroyBuffer)(void *, vk_handle, const void *);
static void (*vkGetBufferMemoryRequirements)(void *, vk_handle, struct vk_requirements *);
static i32 (*vkAllocateMemory)(void *, const struct vk_allocate_info *, const void *, vk_handle *);
static void (*vkFreeMemory)(void *, vk_handle, const void *);
static i32 (*vkBindBufferMemory)(void *, vk_handle, vk_handle, u64);
static i32 (*vkMapMemory)(void *, vk_handle, u64, u64, u32, void **);
static i32 (*vkCreateShaderModule)(void *, const struct vk_shader_info *, const void *, vk_handle *);
static void (*vkDestroyShaderModule)(void *, vk_handle, const void *);
static i32 (*vkCreateDescriptorSetLayout)(void *, const struct vk_set_layout_info *, const void *,
                                          vk_handle *);
static void (*vkDestroyDescriptorSetLayout)(void *, vk_handle, const void *);
static i32 (*vkCreatePipelineLayout)(void *, const struct vk_layout_info *, const void *,
                                     vk_handle *);
static void (*vkDestroyPipelineLayout)(void *, vk_handle, const void *);
static i32 (*vkCreateComputePipelines)(void *, vk_handle, u32, const struct vk_pipeline_info *,
                                       const void *, vk_handle *);
static void (*vkDestroyPipeline)(void *, vk_handle, const void *);
static i32 (*vkCreateDescriptorPool)(void *, const struct vk_pool_info *, const void *, vk_handle *);
static void (*vkDestroyDescriptorPool)(void *, vk_handle, const void *);
static i32 (*vkAllocateDescriptorSets)(void *, const struct vk_set_info *, vk_handle *);
static void (*vkUpdateDescriptorSets)(void *, u32, const struct vk_write *, u32, const void *);
static i32 (*vkCreateCommandPool)(void *, const struct vk_command_pool_info *, const void *,
                                  vk_handle *);
static void (*vkDestroyCommandPool)(void *, vk_handle, const void *);
static i32 (*vkAllocateCommandBuffers)(void *, const struct vk_commands_info *, void **);
static i32 (*vkBeginCommandBuffer)(void *, const struct vk_begin_info *);
static i32 (*vkEndCommandBuffer)(void *);
static void (*vkCmdBindPipeline)(void *, i32, vk_handle);
static void (*vkCmdBindDescriptorSets)(void *, i32, vk_handle, u32, u32, const vk_handle *, u32,
                                       const u32 *);
static void (*vkCmdDispatch)(void *, u32, u32, u32);

#define LH_VK(name) {#name, (void **)&name, 0}
static const struct lh_import lh_vulkan_calls[] = {
    LH_VK(vkCreateInstance), LH_VK(vkDestroyInstance), LH_VK(vkEnumeratePhysicalDevices),
    LH_VK(vkGetPhysicalDeviceProperties), LH_VK(vkGetPhysicalDeviceFeatures),
    LH_VK(vkGetPhysicalDeviceQueueFamilyProperties), LH_VK(vkGetPhysicalDeviceMemoryProperties),
    LH_VK(vkCreateDevice), LH_VK(vkDestroyDevice), LH_VK(vkGetDeviceQueue), LH_VK(vkQueueSubmit),
    LH_VK(vkQueueWaitIdle), LH_VK(vkCreateBuffer), LH_VK(vkDestroyBuffer),
    LH_VK(vkGetBufferMemoryRequirements), LH_VK(vkAllocateMemory), LH_VK(vkFreeMemory),
    LH_VK(vkBindBufferMemory), LH_VK(vkMapMemory), LH_VK(vkCreateShaderModule),
    LH_VK(vkDestroyShaderModule), LH_VK(vkCreateDescriptorSetLayout),
    LH_VK(vkDestroyDescriptorSetLayout), LH_VK(vkCreatePipelineLayout),
    LH_VK(vkDestroyPipelineLayout), LH_VK(vkCreateComputePipelines), LH_VK(vkDestroyPipeline),
    LH_VK(vkCreateDescriptorPool), LH_VK(vkDestroyDescriptorPool), LH_VK(vkAllocateDescriptorSets),
    LH_VK(vkUpdateDescriptorSets), LH_VK(vkCreateCommandPool), LH_VK(vkDestroyCommandPool),
    LH_VK(vkAllocateCommandBuffers), LH_VK(vkBeginCommandBuffer), LH_VK(vkEndCommandBuffer),
    LH_VK(vkCmdBindPipeline), LH_VK(vkCmdBindDescriptorSets), LH_VK(vkCmdDispatch),
};

static struct {
    _Bool open;
    void *instance, *physical, *device, *queue, *commands;
    vk_handle command_pool;
    u32 family, memory_type;
    u64 memory_bytes;
    u8 properties[LH_PROPERTIES_SIZE];
} vk;

static u32 vk_number(int offset) {
    u32 number;
    memcpy(&number, vk.properties + offset, sizeof number);
    return number;
}

static u64 vk_alignment(void) {
    u64 number;
    memcpy(&number, vk.properties + LH_AT_ALIGNMENT, sizeof number);
    return number ? number : 1;
}

/* Whether a call succeeded; `refused`: whose fault it is when the driver says anything but that it
 * is out of memory or lost its device. */
static _Bool vk_ok(i32 code, const char *call, const char *refused) {
    if (code == VK_SUCCESS) return 1;
    const char *kind = code == VK_OUT_OF_HOST || code == VK_OUT_OF_DEVICE ? LH_MEMORY
                       : code == VK_LOST                                  ? LH_DEVICE
                       : code == VK_INCOMPATIBLE_DRIVER                   ? LH_DRIVER
                                                                          : refused;
    const char *words = code == VK_OUT_OF_HOST           ? "VK_ERROR_OUT_OF_HOST_MEMORY"
                        : code == VK_OUT_OF_DEVICE       ? "VK_ERROR_OUT_OF_DEVICE_MEMORY"
                        : code == VK_LOST                ? "VK_ERROR_DEVICE_LOST"
                        : code == VK_INCOMPATIBLE_DRIVER ? "VK_ERROR_INCOMPATIBLE_DRIVER"
                                                         : "VkResult";
    lh_fail(kind, "%s: %s (%d)", call, words, code);
    return 0;
}

static _Bool vk_open_instance(void) {
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", 0};
    void *library = lh_open_library(names);
    if (!library) {
        lh_fail(LH_DRIVER, "no Vulkan loader: %s", lh_missing);
        return 0;
    }
    if (!lh_import_all(library, lh_vulkan_calls, sizeof lh_vulkan_calls / sizeof *lh_vulkan_calls))
        return 0;
    /* SPIR-V 1.3 is of Vulkan 1.1 */
    struct vk_application application = {.type = 0, .name = "lighthouse", .api = 1u << 22 | 1u << 12};
    struct vk_instance_info info = {.type = 1, .application = &application};
    return vk_ok(vkCreateInstance(&info, 0, &vk.instance), "vkCreateInstance", LH_DRIVER);
}

static _Bool vk_choose_device(void) {
    void *devices[16];
    u32 count = 16;
    if (!vk_ok(vkEnumeratePhysicalDevices(vk.instance, &count, devices) & ~5,
               "vkEnumeratePhysicalDevices", LH_DRIVER))
        return 0; /* 5 is VK_INCOMPLETE: there are more than we look at */
    if (!count) {
        lh_fail(LH_DEVICE, "Vulkan has no device here: no driver (ICD) was found");
        return 0;
    }
    int wanted = lh_wanted_device((int)count);
    if (wanted < 0) return 0;
    vk.physical = devices[wanted];
    vkGetPhysicalDeviceProperties(vk.physical, vk.properties);
    struct vk_queue_family families[16];
    u32 found = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(vk.physical, &found, families);
    for (vk.family = 0; vk.family < found; ++vk.family)
        if (families[vk.family].flags & LH_COMPUTE) return 1;
    lh_fail(LH_DEVICE, "the Vulkan device %s computes nothing", vk.properties + LH_AT_NAME);
    return 0;
}

static _Bool vk_choose_memory(void) {
    struct vk_memory memory;
    vkGetPhysicalDeviceMemoryProperties(vk.physical, &memory);
    for (u32 i = 0; i < memory.type_count; ++i)
        if ((memory.types[i].flags & LH_HOST_VISIBLE_COHERENT) == LH_HOST_VISIBLE_COHERENT) {
            vk.memory_type = i;
            vk.memory_bytes = memory.heaps[memory.types[i].heap].size;
            return 1;
        }
    lh_fail(LH_DEVICE, "the Vulkan device has no memory that the host reaches");
    return 0;
}

static _Bool vk_open_device(void) {
    u32 features[64] = {0}; /* VkPhysicalDeviceFeatures has 55; all that are there may be used */
    vkGetPhysicalDeviceFeatures(vk.physical, features);
    float priority = 1;
    struct vk_queue_info queue = {.type = 2, .family = vk.family, .count = 1,
                                  .priorities = &priority};
    struct vk_device_info info = {.type = 3, .queues = 1, .queue = &queue, .features = features};
    if (!vk_ok(vkCreateDevice(vk.physical, &info, 0, &vk.device), "vkCreateDevice", LH_DEVICE))
        return 0;
    vkGetDeviceQueue(vk.device, vk.family, 0, &vk.queue);
    struct vk_command_pool_info pool = {.type = 39, .flags = 2, .family = vk.family};
    if (!vk_ok(vkCreateCommandPool(vk.device, &pool, 0, &vk.command_pool), "vkCreateCommandPool",
               LH_DEVICE))
        return 0;
    struct vk_commands_info commands = {.type = 40, .pool = vk.command_pool, .count = 1};
    return vk_ok(vkAllocateCommandBuffers(vk.device, &commands, &vk.commands),
                 "vkAllocateCommandBuffers", LH_DEVICE);
}

int lh_gpu_open(void) {
    if (vk.open) return 0;
    if (lh_closed || lh_failed()) return 1;
    vk.open = vk_open_instance() && vk_choose_device() && vk_choose_memory() && vk_open_device();
    if (vk.open) lh_register_close();
    return vk.open ? 0 : 1;
}

const char *lh_gpu_describe(void) {
    if (!vk.open) return "{}";
    char text[64];
    lh_json_begin();
    lh_json_text("driver", "vulkan");
    u32 driver = vk_number(LH_AT_DRIVER);
    lh_print(text, sizeof text, "%u.%u.%u", driver >> 22, driver >> 12 & 0x3ff, driver & 0xfff);
    lh_json_text("driver_version", text);
    u32 api = vk_number(LH_AT_API);
    lh_print(text, sizeof text, "%u.%u.%u", api >> 22 & 0x7f, api >> 12 & 0x3ff, api & 0xfff);
    lh_json_text("api_version", text);
    lh_json_text("library", lh_file_of((const void *)vkCreateInstance));
    lh_json_text("device", (const char *)vk.properties + LH_AT_NAME);
    lh_json_text("chip", "");
    lh_json_number("memory_bytes", (i64)vk.memory_bytes);
    lh_json_number("shared_memory_bytes", vk_number(LH_AT_SHARED));
    return lh_json_end();
}

/* --- Modules and kernels --- */
struct lh_kernel {
    struct lh_kernel *next;
    struct lh_module *module;
    vk_handle set_layout, layout, pipeline, pool, set;
    u32 buffers; /* what the pipeline was made for; 0: not yet made */
    u32 block[3];
    char name[];
};
struct lh_module {
    struct lh_module *next;
    vk_handle shader;
    u32 *words;
    usize count;
    struct lh_kernel *kernels;
};
static struct lh_module *lh_module_list;

static _Bool vk_enter(void) {
    return lh_gpu_open() == 0 && !lh_failed();
}

void *mgpuModuleLoad(void *data, usize size) {
    if (!vk_enter()) {
        lh_note_load_error();
        return 0;
    }
    struct lh_module *module = malloc(sizeof *module);
    u32 *words = malloc(size ? size : 1);
    if (!module || !words) {
        lh_fail(LH_MEMORY, "the host has no memory left");
    } else {
        memcpy(words, data, size);
        if (size < 20 || size % 4 || words[0] != 0x07230203)
            lh_fail(LH_PROGRAM, "mgpuModuleLoad: what is embedded is no SPIR-V");
    }
    vk_handle shader = 0;
    struct vk_shader_info info = {.type = 16, .size = size, .code = words};
    if (lh_failed() || !vk_ok(vkCreateShaderModule(vk.device, &info, 0, &shader),
                              "vkCreateShaderModule", LH_PROGRAM)) {
        free(module);
        free(words);
        lh_note_load_error();
        return 0;
    }
    *module = (struct lh_module){
        .next = lh_module_list, .shader = shader, .words = words, .count = size / 4};
    lh_module_list = module;
    ++lh_modules;
    return module;
}

void *mgpuModuleLoadJIT(void *data, int optimization) {
    (void)data;
    (void)optimization;
    lh_fail(LH_PROGRAM, "mgpuModuleLoadJIT: Vulkan takes SPIR-V, not assembly");
    lh_note_load_error();
    return 0;
}

/* Block size of an entry point: OpEntryPoint (15) gives its id, OpExecutionMode (16) with
 * LocalSize (17) the size. False when there is no such entry. */
static _Bool vk_read_block(const struct lh_module *module, const char *name, u32 *block) {
    u32 id = 0;
    for (usize at = 5; at < module->count;) {
        u32 length = module->words[at] >> 16, operation = module->words[at] & 0xffff;
        if (!length || at + length > module->count) return 0;
        const u32 *operands = module->words + at + 1;
        if (operation == 15 && length > 3 && strcmp((const char *)(operands + 2), name) == 0)
            id = operands[1];
        if (operation == 16 && length == 6 && id && operands[0] == id && operands[1] == 17) {
            memcpy(block, operands + 2, 3 * sizeof *block);
            return 1;
        }
        at += length;
    }
    return 0;
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    if (!module || !vk_enter()) return 0;
    struct lh_module *owner = module;
    for (struct lh_kernel *kernel = owner->kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0) return kernel;
    u32 block[3];
    if (!vk_read_block(owner, name, block)) {
        lh_fail(LH_PROGRAM, "the SPIR-V has no entry point %s with a block size", name);
        return 0;
    }
    usize size = strlen(name) + 1;
    struct lh_kernel *kernel = malloc(sizeof *kernel + size);
    if (!kernel) {
        lh_fail(LH_MEMORY, "the host has no memory left");
        return 0;
    }
    *kernel = (struct lh_kernel){.next = owner->kernels, .module = owner};
    memcpy(kernel->block, block, sizeof block);
    memcpy(kernel->name, name, size);
    owner->kernels = kernel;
    return kernel;
}

static void vk_free_kernel(struct lh_kernel *kernel) {
    if (kernel->pool) vkDestroyDescriptorPool(vk.device, kernel->pool, 0);
    if (kernel->pipeline) vkDestroyPipeline(vk.device, kernel->pipeline, 0);
    if (kernel->layout) vkDestroyPipelineLayout(vk.device, kernel->layout, 0);
    if (kernel->set_layout) vkDestroyDescriptorSetLayout(vk.device, kernel->set_layout, 0);
    free(kernel);
}

void mgpuModuleUnload(void *module) {
    struct lh_module **link = &lh_module_list;
    while (*link && *link != module) link = &(*link)->next;
    if (!*link || lh_closed || !vk.open) return;
    struct lh_module *found = *link;
    *link = found->next;
    --lh_modules;
    while (found->kernels) {
        struct lh_kernel *kernel = found->kernels;
        found->kernels = kernel->next;
        vk_free_kernel(kernel);
    }
    vkDestroyShaderModule(vk.device, found->shader, 0);
    free(found->words);
    free(found);
}

/* Makes a kernel's pipeline for as many buffers as it is launched with. */
static _Bool vk_prepare(struct lh_kernel *kernel, u32 buffers) {
    if (kernel->buffers == buffers) return 1;
    if (kernel->buffers) {
        lh_fail(LH_PROGRAM, "kernel %s: launched with %u buffers, before with %u", kernel->name,
                buffers, kernel->buffers);
        return 0;
    }
    struct vk_binding bindings[LH_MOST_BUFFERS];
    for (u32 i = 0; i < buffers; ++i)
        bindings[i] = (struct vk_binding){
            .binding = i, .kind = LH_STORAGE_BUFFER, .count = 1, .stages = LH_STAGE_COMPUTE};
    struct vk_set_layout_info sets = {.type = 32, .count = buffers, .bindings = bindings};
    if (!vk_ok(vkCreateDescriptorSetLayout(vk.device, &sets, 0, &kernel->set_layout),
               "vkCreateDescriptorSetLayout", LH_PROGRAM))
        return 0;
    struct vk_layout_info layout = {.type = 30, .sets = 1, .set = &kernel->set_layout};
    if (!vk_ok(vkCreatePipelineLayout(vk.device, &layout, 0, &kernel->layout),
               "vkCreatePipelineLayout", LH_PROGRAM))
        return 0;
    struct vk_pipeline_info pipeline = {
        .type = 29,
        .stage = {.type = 18, .stage = LH_STAGE_COMPUTE, .module = kernel->module->shader,
                  .name = kernel->name},
        .layout = kernel->layout, .base_index = -1};
    if (!vk_ok(vkCreateComputePipelines(vk.device, 0, 1, &pipeline, 0, &kernel->pipeline),
               "vkCreateComputePipelines", LH_PROGRAM))
        return 0;
    struct vk_pool_size size = {.kind = LH_STORAGE_BUFFER, .count = buffers};
    struct vk_pool_info pool = {.type = 33, .sets = 1, .sizes = 1, .size = &size};
    if (!vk_ok(vkCreateDescriptorPool(vk.device, &pool, 0, &kernel->pool),
               "vkCreateDescriptorPool", LH_PROGRAM))
        return 0;
    struct vk_set_info set = {.type = 34, .pool = kernel->pool, .count = 1,
                              .layouts = &kernel->set_layout};
    if (!vk_ok(vkAllocateDescriptorSets(vk.device, &set, &kernel->set), "vkAllocateDescriptorSets",
               LH_PROGRAM))
        return 0;
    kernel->buffers = buffers;
    return 1;
}

/* Points a kernel's bindings at the buffers that its pointers lie in. */
static _Bool vk_bind(struct lh_kernel *kernel, void **params, u32 buffers) {
    struct vk_buffer_range ranges[LH_MOST_BUFFERS];
    struct vk_write writes[LH_MOST_BUFFERS];
    for (u32 i = 0; i < buffers; ++i) {
        u8 *pointer = *(u8 **)params[2 * i];
        usize size = *(usize *)params[2 * i + 1];
        struct lh_block *block = lh_block_find(pointer);
        usize offset = block ? (usize)(pointer - (u8 *)block->base) : 0;
        if (!block || (usize)(pointer - block->user) + size > block->size) {
            lh_fail(LH_PROGRAM, "kernel %s: argument %u is no memory that the GPU reaches (%zu "
                    "bytes at %p)", kernel->name, i, size, (void *)pointer);
            return 0;
        }
        if (offset % vk_alignment()) {
            lh_fail(LH_PROGRAM, "kernel %s: argument %u begins %zu bytes into its buffer, and this "
                    "device takes multiples of %llu", kernel->name, i, offset,
                    (unsigned long long)vk_alignment());
            return 0;
        }
        ranges[i] = (struct vk_buffer_range){
            .buffer = block->handles[0], .offset = offset, .range = size ? size : 4};
        writes[i] = (struct vk_write){.type = 35, .set = kernel->set, .binding = i, .count = 1,
                                      .kind = LH_STORAGE_BUFFER, .buffers = &ranges[i]};
    }
    vkUpdateDescriptorSets(vk.device, buffers, writes, 0, 0);
    return 1;
}

/* Refuses what would compute garbage: a grid that the device does not take, a block other than the
 * one that is built into the shader. */
static _Bool vk_launchable(const struct lh_kernel *kernel, const isize *grid, const isize *block) {
    for (int i = 0; i < 3; ++i) {
        if (block[i] != (isize)kernel->block[i])
            lh_fail(LH_PROGRAM, "kernel %s: launched with blocks of %zd x %zd x %zd, and made for "
                    "%u x %u x %u", kernel->name, block[0], block[1], block[2], kernel->block[0],
                    kernel->block[1], kernel->block[2]);
        if (grid[i] < 0 || grid[i] > (isize)vk_number(LH_AT_GRID + 4 * i))
            lh_fail(LH_PROGRAM, "kernel %s: %zd x %zd x %zd blocks; this device takes %u x %u x %u",
                    kernel->name, grid[0], grid[1], grid[2], vk_number(LH_AT_GRID),
                    vk_number(LH_AT_GRID + 4), vk_number(LH_AT_GRID + 8));
    }
    if (block[0] * block[1] * block[2] > (isize)vk_number(LH_AT_THREADS))
        lh_fail(LH_PROGRAM, "kernel %s: blocks of %zd threads; this device takes %u", kernel->name,
                block[0] * block[1] * block[2], vk_number(LH_AT_THREADS));
    return !lh_failed();
}

static void vk_dispatch(struct lh_kernel *kernel, const isize *grid) {
    struct vk_begin_info begin = {.type = 42, .flags = 1};
    if (!vk_ok(vkBeginCommandBuffer(vk.commands, &begin), "vkBeginCommandBuffer", LH_DEVICE)) return;
    vkCmdBindPipeline(vk.commands, 1, kernel->pipeline);
    vkCmdBindDescriptorSets(vk.commands, 1, kernel->layout, 0, 1, &kernel->set, 0, 0);
    vkCmdDispatch(vk.commands, (u32)grid[0], (u32)grid[1], (u32)grid[2]);
    if (!vk_ok(vkEndCommandBuffer(vk.commands), "vkEndCommandBuffer", LH_PROGRAM)) return;
    struct vk_submit submit = {.type = 4, .commands = 1, .command = &vk.commands};
    if (!vk_ok(vkQueueSubmit(vk.queue, 1, &submit, 0), "vkQueueSubmit", LH_DEVICE)) return;
    /* one launch at a time: the next one may use what this one writes */
    vk_ok(vkQueueWaitIdle(vk.queue), "vkQueueWaitIdle", LH_DEVICE);
}

void mgpuLaunchKernel(void *function, isize grid_x, isize grid_y, isize grid_z, isize block_x,
                      isize block_y, isize block_z, i32 shared_bytes, void *stream, void **params,
                      void **extra, usize params_count) {
    (void)stream;
    (void)extra;
    struct lh_kernel *kernel = function;
    if (!kernel) lh_fail_no_kernel();
    if (!vk_enter()) return;
    if (shared_bytes)
        lh_fail(LH_PROGRAM, "kernel %s: Vulkan has no dynamic shared memory", kernel->name);
    if (params_count % 2 || params_count / 2 > LH_MOST_BUFFERS)
        lh_fail(LH_PROGRAM, "kernel %s: %zu parameters; pairs of pointer and size are expected, at "
                "most %d", kernel->name, params_count, LH_MOST_BUFFERS);
    isize grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    u32 buffers = (u32)(params_count / 2);
    if (lh_failed() || !vk_launchable(kernel, grid, block)) return;
    if (!grid_x || !grid_y || !grid_z) return;
    if (vk_prepare(kernel, buffers) && vk_bind(kernel, params, buffers)) vk_dispatch(kernel, grid);
}

/* --- Memory --- */
void *mgpuMemAlloc(u64 size, void *stream, _Bool host_shared) {
    (void)stream;
    (void)host_shared;
    if (!vk_enter()) return 0;
    vk_handle buffer = 0, memory = 0;
    struct vk_buffer_info info = {.type = 12, .size = size < 4 ? 4 : (size + 3) & ~3ull,
                                  .usage = LH_STORAGE_BUFFER_USAGE};
    if (!vk_ok(vkCreateBuffer(vk.device, &info, 0, &buffer), "vkCreateBuffer", LH_MEMORY)) return 0;
    struct vk_requirements needs;
    vkGetBufferMemoryRequirements(vk.device, buffer, &needs);
    struct vk_allocate_info allocate = {.type = 5, .size = needs.size,
                                        .memory_type = vk.memory_type};
    void *pointer = 0;
    struct lh_block *block = 0;
    if (vk_ok(vkAllocateMemory(vk.device, &allocate, 0, &memory), "vkAllocateMemory", LH_MEMORY) &&
        vk_ok(vkBindBufferMemory(vk.device, buffer, memory, 0), "vkBindBufferMemory", LH_MEMORY) &&
        vk_ok(vkMapMemory(vk.device, memory, 0, ~0ull, 0, &pointer), "vkMapMemory", LH_MEMORY))
        block = lh_block_add(pointer, size);
    if (!block) {
        vkDestroyBuffer(vk.device, buffer, 0);
        if (memory) vkFreeMemory(vk.device, memory, 0);
        return 0;
    }
    block->handles[0] = buffer;
    block->handles[1] = memory;
    return pointer;
}

void mgpuMemFree(void *pointer, void *stream) {
    (void)stream;
    struct lh_block block;
    if (lh_closed || !vk.open || !lh_block_take(pointer, &block)) return;
    vkDestroyBuffer(vk.device, block.handles[0], 0);
    vkFreeMemory(vk.device, block.handles[1], 0); /* unmaps it */
}

/* Mapped memory is plain memory, and no launch is under way when we are called. */
void mgpuMemcpy(void *target, void *source, usize size, void *stream) {
    (void)stream;
    if (vk_enter()) memcpy(target, source, size);
}

void mgpuMemset32(void *pointer, u32 value, usize count, void *stream) {
    (void)stream;
    if (vk_enter())
        for (usize i = 0; i < count; ++i) ((u32 *)pointer)[i] = value;
}

void mgpuMemset16(void *pointer, u16 value, usize count, void *stream) {
    (void)stream;
    if (vk_enter())
        for (usize i = 0; i < count; ++i) ((u16 *)pointer)[i] = value;
}

/* --- Streams and events: launches are over when mgpuLaunchKernel returns, so all is in order --- */
static char lh_token;

void *mgpuStreamCreate(void) {
    if (!vk_enter()) return 0;
    ++lh_handles;
    return &lh_token;
}

void mgpuStreamDestroy(void *stream) {
    if (stream) --lh_handles;
}

void mgpuStreamSynchronize(void *stream) { (void)stream; }

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

void mgpuEventSynchronize(void *event) { (void)event; }

void mgpuEventRecord(void *event, void *stream) {
    (void)event;
    (void)stream;
}

u64 lh_gpu_kernel_ns(void) {
    return 0; /* not told: software devices measure nothing of interest */
}

static void lh_forget_times(void) {}

static void lh_close(void) {
    if (!vk.open) return;
    vkQueueWaitIdle(vk.queue);
    while (lh_module_list) mgpuModuleUnload(lh_module_list);
    while (lh_block_count) mgpuMemFree(lh_blocks[lh_block_count - 1].user, 0);
    vkDestroyCommandPool(vk.device, vk.command_pool, 0);
    vkDestroyDevice(vk.device, 0);
    vkDestroyInstance(vk.instance, 0);
    vk.open = 0;
}
