/* Vulkan: compute shaders, one storage buffer for each pointer that a kernel takes.
 *
 * Memory is one mapped buffer for each allocation; a launch finds the buffers that its pointers lie
 * in. Kernels come as SPIR-V, their block size built in, their buffers at set 0, binding 0 and up. */
#define LH_API "Vulkan"
#include "immediate.h"
#include "spirv.h"
#include "vulkan_api.h"

enum { LH_MOST_BUFFERS = 64 };

static struct {
    _Bool open;
    void *instance, *physical, *device, *queue, *commands;
    vk_handle command_pool, times; /* times: a pool of two queries, where the queue has a clock */
    u32 family;
    u64 clock_mask;
    float ns_per_tick;
    struct vk_memory memory;
    struct vk_properties properties;
    char driver[520];
    struct vk_features features;
    struct vk_features_1_1 features_1_1;
    struct vk_features_1_2 features_1_2;
    double kernel_ns;
} vk;

/* Whether a call succeeded; `refused`: whose fault it is where the code alone does not tell. */
static _Bool vk_ok(i32 code, const char *call, const char *refused) {
    if (code >= 0) return 1;
    for (usize i = 0; i < sizeof vk_codes / sizeof *vk_codes; ++i)
        if (vk_codes[i].code == code) {
            lh_fail(vk_codes[i].kind ? vk_codes[i].kind : refused, "%s: %s (%d)", call,
                    vk_codes[i].name, code);
            return 0;
        }
    lh_fail(refused, "%s: VkResult %d", call, code);
    return 0;
}

/* --- The device --- */
static u32 vk_number(int offset) {
    u32 number;
    memcpy(&number, vk.properties.bytes + offset, sizeof number);
    return number;
}

static const char *vk_name(void) {
    return (const char *)vk.properties.bytes + VK_AT_NAME;
}

static u64 vk_alignment(void) {
    u64 number;
    memcpy(&number, vk.properties.bytes + VK_AT_ALIGNMENT, sizeof number);
    return number ? number : 1;
}

static const char *const vk_no_driver =
    "no Vulkan driver (ICD) could be loaded: install the GPU's, or mesa-vulkan-drivers for a GPU in "
    "software; VK_DRIVER_FILES names others";

static _Bool vk_open_instance(void) {
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", 0};
    void *library = lh_open_library(names);
    if (!library) {
        lh_fail(LH_DRIVER, "%s: install Vulkan's loader (libvulkan1)", lh_missing);
        return 0;
    }
    if (!lh_import_all(library, vk_imports, sizeof vk_imports / sizeof *vk_imports)) return 0;
    struct vk_application application = {
        .type = VK_APPLICATION, .name = "lighthouse", .api = VK_VERSION_1_2};
    struct vk_instance_info info = {.type = VK_INSTANCE_INFO, .application = &application};
    i32 code = vkCreateInstance(&info, 0, &vk.instance);
    if (code == -9) lh_fail(LH_DRIVER, "vkCreateInstance: %s", vk_no_driver);
    return vk_ok(code, "vkCreateInstance", LH_DRIVER);
}

static _Bool vk_choose_device(void) {
    void *devices[16];
    u32 count = 16; /* if there are more, we do not look at them */
    if (!vk_ok(vkEnumeratePhysicalDevices(vk.instance, &count, devices),
               "vkEnumeratePhysicalDevices", LH_DRIVER))
        return 0;
    if (!count) {
        lh_fail(LH_DEVICE, "vkEnumeratePhysicalDevices: the Vulkan drivers here have no device");
        return 0;
    }
    int wanted = lh_wanted_device((int)count);
    if (wanted < 0) return 0;
    vk.physical = devices[wanted];
    vkGetPhysicalDeviceProperties(vk.physical, vk.properties.bytes);
    if (vk_number(VK_AT_API) < VK_VERSION_1_2) {
        lh_fail(LH_DRIVER, "the driver of %s is of Vulkan %u.%u; 1.2 is needed: update it",
                vk_name(), vk_number(VK_AT_API) >> 22 & 0x7f, vk_number(VK_AT_API) >> 12 & 0x3ff);
        return 0;
    }
    struct vk_driver driver = {.type = VK_DRIVER_PROPERTIES};
    vk.properties.type = VK_PROPERTIES_2;
    vk.properties.next = &driver;
    vkGetPhysicalDeviceProperties2(vk.physical, &vk.properties);
    vk.properties.next = 0;
    lh_print(vk.driver, sizeof vk.driver, "%s%s%s", driver.name, *driver.info ? " " : "",
             driver.info);
    return 1;
}

static _Bool vk_choose_queue(void) {
    struct vk_queue_family families[16];
    u32 found = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(vk.physical, &found, families);
    for (vk.family = 0; vk.family < found; ++vk.family)
        if (families[vk.family].flags & VK_QUEUE_COMPUTE) {
            u32 bits = families[vk.family].timestamp_bits;
            vk.clock_mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
            memcpy(&vk.ns_per_tick, vk.properties.bytes + VK_AT_PERIOD, sizeof vk.ns_per_tick);
            return 1;
        }
    lh_fail(LH_DEVICE, "the Vulkan device %s computes nothing", vk_name());
    return 0;
}

/* The type of memory that the host reaches, out of a set: cached by the host where that is to be
 * had, since it reads results from there. -1: none. */
static int vk_memory_type(u32 types) {
    for (u32 wanted = VK_HOST_VISIBLE_COHERENT | VK_HOST_CACHED;; wanted &= ~(u32)VK_HOST_CACHED) {
        for (u32 i = 0; i < vk.memory.type_count; ++i)
            if (types >> i & 1 && (vk.memory.types[i].flags & wanted) == wanted) return (int)i;
        if (wanted == VK_HOST_VISIBLE_COHERENT) return -1;
    }
}

static u32 *vk_feature(const struct vk_feature *wanted) {
    u32 *flags = wanted->part == VK_CORE  ? vk.features.flags
                 : wanted->part == VK_1_1 ? vk.features_1_1.flags
                                          : vk.features_1_2.flags;
    return flags + wanted->index;
}

/* Leaves in `vk.features` those that kernels may need and the device has. */
static void vk_choose_features(void) {
    vk.features = (struct vk_features){.type = VK_FEATURES_2, .next = &vk.features_1_1};
    vk.features_1_1 = (struct vk_features_1_1){.type = VK_FEATURES_1_1, .next = &vk.features_1_2};
    vk.features_1_2 = (struct vk_features_1_2){.type = VK_FEATURES_1_2};
    vkGetPhysicalDeviceFeatures2(vk.physical, &vk.features);
    enum { COUNT = sizeof vk_wanted_features / sizeof *vk_wanted_features };
    u32 has[COUNT];
    for (usize i = 0; i < COUNT; ++i) has[i] = *vk_feature(&vk_wanted_features[i]);
    memset(vk.features.flags, 0, sizeof vk.features.flags);
    memset(vk.features_1_1.flags, 0, sizeof vk.features_1_1.flags);
    memset(vk.features_1_2.flags, 0, sizeof vk.features_1_2.flags);
    for (usize i = 0; i < COUNT; ++i) *vk_feature(&vk_wanted_features[i]) = has[i];
}

static _Bool vk_open_device(void) {
    float priority = 1;
    struct vk_queue_info queue = {.type = VK_QUEUE_INFO, .family = vk.family, .count = 1,
                                  .priorities = &priority};
    struct vk_device_info info = {
        .type = VK_DEVICE_INFO, .next = &vk.features, .queues = 1, .queue = &queue};
    if (!vk_ok(vkCreateDevice(vk.physical, &info, 0, &vk.device), "vkCreateDevice", LH_DEVICE))
        return 0;
    vkGetDeviceQueue(vk.device, vk.family, 0, &vk.queue);
    struct vk_query_pool_info times = {
        .type = VK_QUERY_POOL_INFO, .kind = VK_QUERY_TIMESTAMP, .count = 2};
    if (vk.clock_mask && !vk_ok(vkCreateQueryPool(vk.device, &times, 0, &vk.times),
                                "vkCreateQueryPool", LH_DEVICE))
        return 0;
    struct vk_command_pool_info pool = {
        .type = VK_COMMAND_POOL_INFO, .flags = 2 /* of buffers to be reset */, .family = vk.family};
    if (!vk_ok(vkCreateCommandPool(vk.device, &pool, 0, &vk.command_pool), "vkCreateCommandPool",
               LH_DEVICE))
        return 0;
    struct vk_commands_info commands = {
        .type = VK_COMMANDS_INFO, .pool = vk.command_pool, .count = 1};
    return vk_ok(vkAllocateCommandBuffers(vk.device, &commands, &vk.commands),
                 "vkAllocateCommandBuffers", LH_DEVICE);
}

static _Bool vk_open_all(void) {
    if (!vk_open_instance() || !vk_choose_device() || !vk_choose_queue()) return 0;
    vkGetPhysicalDeviceMemoryProperties(vk.physical, &vk.memory);
    if (vk_memory_type(~0u) < 0) {
        lh_fail(LH_DEVICE, "the Vulkan device %s has no memory that the host reaches", vk_name());
        return 0;
    }
    vk_choose_features();
    return vk_open_device();
}

static void vk_close_all(void) {
    if (vk.times) vkDestroyQueryPool(vk.device, vk.times, 0);
    if (vk.command_pool) vkDestroyCommandPool(vk.device, vk.command_pool, 0);
    if (vk.device) vkDestroyDevice(vk.device, 0);
    if (vk.instance) vkDestroyInstance(vk.instance, 0);
    memset(&vk, 0, sizeof vk);
}

int lh_gpu_open(void) {
    if (vk.open) return 0;
    if (lh_closed || lh_failed()) return 1;
    vk.open = vk_open_all();
    if (vk.open) lh_register_close();
    else vk_close_all();
    return vk.open ? 0 : 1;
}

const char *lh_gpu_describe(void) {
    if (!vk.open) return "{}";
    char text[64];
    u32 api = vk_number(VK_AT_API);
    lh_print(text, sizeof text, "%u.%u.%u", api >> 22 & 0x7f, api >> 12 & 0x3ff, api & 0xfff);
    lh_json_begin();
    lh_json_text("driver", "vulkan");
    lh_json_text("driver_version", vk.driver);
    lh_json_text("api_version", text);
    lh_json_text("library", lh_file_of((const void *)vkCreateInstance));
    lh_json_text("device", vk_name());
    lh_json_text("chip", "");
    u32 heap = vk.memory.types[vk_memory_type(~0u)].heap;
    lh_json_number("memory_bytes", (i64)vk.memory.heaps[heap].size);
    lh_json_number("shared_memory_bytes", vk_number(VK_AT_SHARED));
    return lh_json_end();
}

/* --- Modules and kernels --- */
struct lh_kernel {
    struct lh_kernel *next;
    struct lh_module *module;
    vk_handle set_layout, layout, pipeline, pool, set;
    _Bool ready;
    u32 buffers; /* what it was made ready for */
    u32 block[3];
    char name[];
};
struct lh_module {
    struct lh_module *next;
    vk_handle shader;
    struct lh_spirv spirv;
    struct lh_kernel *kernels;
};
static struct lh_module *lh_module_list;

/* Refuses what no driver has to refuse and many a one dies of. */
static _Bool vk_takes(const struct lh_spirv *spirv, usize size) {
    if (size % 4 || !lh_spirv_sound(spirv)) {
        lh_fail(LH_PROGRAM, "mgpuModuleLoad: what is embedded is no SPIR-V, or is damaged");
        return 0;
    }
    usize at = LH_SPIRV_HEADER;
    struct lh_instruction each;
    while (lh_spirv_next(spirv, &at, &each)) {
        if (each.operation != LH_OP_CAPABILITY || each.length < 2) continue;
        if (each.operands[0] == LH_CAPABILITY_KERNEL)
            lh_fail(LH_PROGRAM, "mgpuModuleLoad: what is embedded is SPIR-V for OpenCL");
        for (usize i = 0; i < sizeof vk_wanted_features / sizeof *vk_wanted_features; ++i)
            if (vk_wanted_features[i].capability == each.operands[0] &&
                !*vk_feature(&vk_wanted_features[i]))
                lh_fail(LH_DRIVER, "the device %s has no %s, which the kernels need", vk_name(),
                        vk_wanted_features[i].name);
    }
    return !lh_failed();
}

static struct lh_module *vk_load(const void *data, usize size) {
    struct lh_module *module = malloc(sizeof *module);
    u32 *words = malloc(size ? size : 1);
    vk_handle shader = 0;
    if (!module || !words) {
        lh_fail(LH_MEMORY, "the host has no memory left");
    } else {
        memcpy(words, data, size);
        *module = (struct lh_module){.spirv = {.words = words, .count = size / 4}};
        struct vk_shader_info info = {.type = VK_SHADER_INFO, .size = size, .code = words};
        if (vk_takes(&module->spirv, size))
            vk_ok(vkCreateShaderModule(vk.device, &info, 0, &shader), "vkCreateShaderModule",
                  LH_PROGRAM);
    }
    if (lh_failed()) {
        free(module);
        free(words);
        return 0;
    }
    module->shader = shader;
    return module;
}

void *mgpuModuleLoad(void *data, usize size) {
    struct lh_module *module = lh_enter() ? vk_load(data, size) : 0;
    if (!module) {
        lh_note_load_error();
        return 0;
    }
    module->next = lh_module_list;
    lh_module_list = module;
    ++lh_modules;
    return module;
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    if (!module || !lh_enter()) return 0;
    struct lh_module *owner = module;
    for (struct lh_kernel *kernel = owner->kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0) return kernel;
    u32 block[3];
    if (!lh_spirv_block(&owner->spirv, name, block)) {
        lh_fail(LH_PROGRAM, "mgpuModuleGetFunction: the SPIR-V has no entry point %s with a block "
                "size (LocalSize)", name);
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

/* Gives back what `vk_make_ready` made, all of it or a part. */
static void vk_make_unready(struct lh_kernel *kernel) {
    if (kernel->pool) vkDestroyDescriptorPool(vk.device, kernel->pool, 0);
    if (kernel->pipeline) vkDestroyPipeline(vk.device, kernel->pipeline, 0);
    if (kernel->layout) vkDestroyPipelineLayout(vk.device, kernel->layout, 0);
    if (kernel->set_layout) vkDestroyDescriptorSetLayout(vk.device, kernel->set_layout, 0);
    kernel->pool = kernel->pipeline = kernel->layout = kernel->set_layout = 0;
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
        vk_make_unready(kernel);
        free(kernel);
    }
    vkDestroyShaderModule(vk.device, found->shader, 0);
    free(found->spirv.words);
    free(found);
}

static _Bool vk_make_pipeline(struct lh_kernel *kernel, u32 buffers) {
    struct vk_binding bindings[LH_MOST_BUFFERS];
    for (u32 i = 0; i < buffers; ++i)
        bindings[i] = (struct vk_binding){
            .binding = i, .kind = VK_STORAGE_BUFFER, .count = 1, .stages = VK_SHADER_STAGE_COMPUTE};
    struct vk_set_layout_info sets = {
        .type = VK_SET_LAYOUT_INFO, .count = buffers, .bindings = bindings};
    struct vk_layout_info layout = {
        .type = VK_LAYOUT_INFO, .sets = 1, .set = &kernel->set_layout};
    if (!vk_ok(vkCreateDescriptorSetLayout(vk.device, &sets, 0, &kernel->set_layout),
               "vkCreateDescriptorSetLayout", LH_PROGRAM) ||
        !vk_ok(vkCreatePipelineLayout(vk.device, &layout, 0, &kernel->layout),
               "vkCreatePipelineLayout", LH_PROGRAM))
        return 0;
    struct vk_pipeline_info pipeline = {
        .type = VK_PIPELINE_INFO,
        .stage = {.type = VK_STAGE_INFO, .stage = VK_SHADER_STAGE_COMPUTE,
                  .module = kernel->module->shader, .name = kernel->name},
        .layout = kernel->layout, .base_index = -1};
    return vk_ok(vkCreateComputePipelines(vk.device, 0, 1, &pipeline, 0, &kernel->pipeline),
                 "vkCreateComputePipelines", LH_PROGRAM);
}

static _Bool vk_make_set(struct lh_kernel *kernel, u32 buffers) {
    struct vk_pool_size size = {.kind = VK_STORAGE_BUFFER, .count = buffers};
    struct vk_pool_info pool = {
        .type = VK_POOL_INFO, .sets = 1, .sizes = buffers ? 1 : 0, .size = &size};
    if (!vk_ok(vkCreateDescriptorPool(vk.device, &pool, 0, &kernel->pool),
               "vkCreateDescriptorPool", LH_PROGRAM))
        return 0;
    struct vk_set_info set = {
        .type = VK_SET_INFO, .pool = kernel->pool, .count = 1, .layouts = &kernel->set_layout};
    return vk_ok(vkAllocateDescriptorSets(vk.device, &set, &kernel->set),
                 "vkAllocateDescriptorSets", LH_PROGRAM);
}

/* Compiles a kernel for as many buffers as it is launched with. */
static _Bool vk_make_ready(struct lh_kernel *kernel, u32 buffers) {
    if (kernel->ready && kernel->buffers == buffers) return 1;
    if (kernel->ready) {
        lh_fail(LH_PROGRAM, "kernel %s: launched with %u buffers, before with %u", kernel->name,
                buffers, kernel->buffers);
        return 0;
    }
    kernel->buffers = buffers;
    kernel->ready = vk_make_pipeline(kernel, buffers) && vk_make_set(kernel, buffers);
    if (!kernel->ready) vk_make_unready(kernel);
    return kernel->ready;
}

/* --- Launches --- */

/* The range of a buffer that an argument names; false after an error was kept. */
static _Bool vk_range(const struct lh_kernel *kernel, void **params, u32 index,
                      struct vk_buffer_range *range) {
    u8 *pointer = *(u8 **)params[2 * index];
    usize size = *(usize *)params[2 * index + 1];
    struct lh_block *block = lh_block_find(pointer);
    if (!block || size > block->size - (usize)(pointer - block->user)) {
        lh_fail(LH_PROGRAM, "kernel %s: argument %u is no memory that the GPU reaches (%zu bytes "
                "at %p)", kernel->name, index, size, (void *)pointer);
        return 0;
    }
    usize offset = (usize)(pointer - (u8 *)block->base);
    if (offset % vk_alignment()) {
        lh_fail(LH_PROGRAM, "kernel %s: argument %u begins %zu bytes into its buffer, and this "
                "device takes multiples of %llu", kernel->name, index, offset,
                (unsigned long long)vk_alignment());
        return 0;
    }
    if (size > vk_number(VK_AT_RANGE)) {
        lh_fail(LH_PROGRAM, "kernel %s: argument %u is of %zu bytes, and this device takes %u",
                kernel->name, index, size, vk_number(VK_AT_RANGE));
        return 0;
    }
    /* whole words, which buffers consist of: narrow elements may be read and written as a part of
     * one, and what lies beyond the range is neither */
    usize words = (size + 3) & ~(usize)3;
    *range = (struct vk_buffer_range){
        .buffer = block->handles[0], .offset = offset, .range = words ? words : VK_WHOLE_SIZE};
    return 1;
}

/* Points a kernel's bindings at the buffers that its pointers lie in. */
static _Bool vk_bind(struct lh_kernel *kernel, void **params, u32 buffers) {
    struct vk_buffer_range ranges[LH_MOST_BUFFERS];
    struct vk_write writes[LH_MOST_BUFFERS];
    for (u32 i = 0; i < buffers; ++i) {
        if (!vk_range(kernel, params, i, &ranges[i])) return 0;
        writes[i] = (struct vk_write){.type = VK_WRITE, .set = kernel->set, .binding = i,
                                      .count = 1, .kind = VK_STORAGE_BUFFER, .buffers = &ranges[i]};
    }
    vkUpdateDescriptorSets(vk.device, buffers, writes, 0, 0);
    return 1;
}

/* Refuses what would compute garbage: a grid or block that the device does not take, a block other
 * than the one that is built into the shader. */
static _Bool vk_launchable(const struct lh_kernel *kernel, const isize *grid, const isize *block) {
    for (int i = 0; i < 3; ++i) {
        if (block[i] != (isize)kernel->block[i])
            lh_fail(LH_PROGRAM, "kernel %s: launched with blocks of %zd x %zd x %zd, and made for "
                    "%u x %u x %u", kernel->name, block[0], block[1], block[2], kernel->block[0],
                    kernel->block[1], kernel->block[2]);
        if (block[i] > (isize)vk_number(VK_AT_BLOCK + 4 * i))
            lh_fail(LH_PROGRAM, "kernel %s: blocks of %zd x %zd x %zd; this device takes %u x %u x "
                    "%u", kernel->name, block[0], block[1], block[2], vk_number(VK_AT_BLOCK),
                    vk_number(VK_AT_BLOCK + 4), vk_number(VK_AT_BLOCK + 8));
        if (grid[i] < 0 || grid[i] > (isize)vk_number(VK_AT_GRID + 4 * i))
            lh_fail(LH_PROGRAM, "kernel %s: %zd x %zd x %zd blocks; this device takes %u x %u x %u",
                    kernel->name, grid[0], grid[1], grid[2], vk_number(VK_AT_GRID),
                    vk_number(VK_AT_GRID + 4), vk_number(VK_AT_GRID + 8));
    }
    if (block[0] * block[1] * block[2] > (isize)vk_number(VK_AT_THREADS))
        lh_fail(LH_PROGRAM, "kernel %s: blocks of %zd threads; this device takes %u", kernel->name,
                block[0] * block[1] * block[2], vk_number(VK_AT_THREADS));
    return !lh_failed();
}

static void vk_record(struct lh_kernel *kernel, const isize *grid) {
    if (vk.times) {
        vkCmdResetQueryPool(vk.commands, vk.times, 0, 2);
        vkCmdWriteTimestamp(vk.commands, VK_AT_TOP, vk.times, 0);
    }
    vkCmdBindPipeline(vk.commands, VK_BIND_COMPUTE, kernel->pipeline);
    vkCmdBindDescriptorSets(vk.commands, VK_BIND_COMPUTE, kernel->layout, 0, 1, &kernel->set, 0, 0);
    vkCmdDispatch(vk.commands, (u32)grid[0], (u32)grid[1], (u32)grid[2]);
    if (vk.times) vkCmdWriteTimestamp(vk.commands, VK_AT_BOTTOM, vk.times, 1);
    /* what the host wrote is seen by what is submitted later; the way back has to be asked for */
    struct vk_barrier barrier = {.type = VK_BARRIER, .from = VK_SHADER_WRITE, .to = VK_HOST_READ};
    vkCmdPipelineBarrier(vk.commands, VK_AT_COMPUTE, VK_AT_HOST, 0, 1, &barrier, 0, 0, 0, 0);
}

static void vk_count_time(void) {
    u64 ticks[2];
    if (!vk.times || vkGetQueryPoolResults(vk.device, vk.times, 0, 2, sizeof ticks, ticks,
                                           sizeof *ticks, 1 | 2 /* 64 bits, wait */))
        return;
    vk.kernel_ns += (double)((ticks[1] - ticks[0]) & vk.clock_mask) * vk.ns_per_tick;
}

static void vk_dispatch(struct lh_kernel *kernel, const isize *grid) {
    struct vk_begin_info begin = {.type = VK_BEGIN_INFO, .flags = 1 /* to be submitted once */};
    if (!vk_ok(vkBeginCommandBuffer(vk.commands, &begin), "vkBeginCommandBuffer", LH_DEVICE)) return;
    vk_record(kernel, grid);
    if (!vk_ok(vkEndCommandBuffer(vk.commands), "vkEndCommandBuffer", LH_PROGRAM)) return;
    struct vk_submit submit = {.type = VK_SUBMIT, .commands = 1, .command = &vk.commands};
    char call[LH_TEXT];
    lh_print(call, sizeof call, "kernel %s: vkQueueSubmit", kernel->name);
    if (!vk_ok(vkQueueSubmit(vk.queue, 1, &submit, 0), call, LH_DEVICE)) return;
    /* one launch at a time: the next one may use what this one writes */
    lh_print(call, sizeof call, "kernel %s: vkQueueWaitIdle", kernel->name);
    if (vk_ok(vkQueueWaitIdle(vk.queue), call, LH_DEVICE)) vk_count_time();
}

void mgpuLaunchKernel(void *function, isize grid_x, isize grid_y, isize grid_z, isize block_x,
                      isize block_y, isize block_z, i32 shared_bytes, void *stream, void **params,
                      void **extra, usize params_count) {
    (void)stream;
    (void)extra;
    struct lh_kernel *kernel = function;
    if (!kernel) lh_fail_no_kernel();
    if (!lh_enter()) return;
    if (shared_bytes)
        lh_fail(LH_PROGRAM, "kernel %s: Vulkan has no dynamic shared memory", kernel->name);
    u32 most = vk_number(VK_AT_BUFFERS);
    if (most > LH_MOST_BUFFERS) most = LH_MOST_BUFFERS;
    if (params_count % 2 || params_count / 2 > most)
        lh_fail(LH_PROGRAM, "kernel %s: %zu parameters; pairs of pointer and size are expected, at "
                "most %u", kernel->name, params_count, most);
    isize grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    u32 buffers = (u32)(params_count / 2);
    if (lh_failed() || !vk_launchable(kernel, grid, block)) return;
    if (!grid_x || !grid_y || !grid_z) return;
    if (vk_make_ready(kernel, buffers) && vk_bind(kernel, params, buffers))
        vk_dispatch(kernel, grid);
}

/* --- Memory --- */
static _Bool vk_make_memory(vk_handle buffer, vk_handle *memory, void **pointer) {
    struct vk_requirements needs;
    vkGetBufferMemoryRequirements(vk.device, buffer, &needs);
    int kind = vk_memory_type(needs.types);
    if (kind < 0) {
        lh_fail(LH_DEVICE, "the device %s has no memory for buffers that the host reaches",
                vk_name());
        return 0;
    }
    struct vk_allocate_info info = {
        .type = VK_ALLOCATE_INFO, .size = needs.size, .memory_type = (u32)kind};
    return vk_ok(vkAllocateMemory(vk.device, &info, 0, memory), "vkAllocateMemory", LH_MEMORY) &&
           vk_ok(vkBindBufferMemory(vk.device, buffer, *memory, 0), "vkBindBufferMemory",
                 LH_MEMORY) &&
           vk_ok(vkMapMemory(vk.device, *memory, 0, VK_WHOLE_SIZE, 0, pointer), "vkMapMemory",
                 LH_MEMORY);
}

void *mgpuMemAlloc(u64 size, void *stream, _Bool host_shared) {
    (void)stream;
    (void)host_shared;
    if (!lh_enter()) return 0;
    if (size > ~0ull >> 1) { /* rounding it would make little of it */
        lh_fail(LH_MEMORY, "mgpuMemAlloc: %llu bytes", (unsigned long long)size);
        return 0;
    }
    vk_handle buffer = 0, memory = 0;
    struct vk_buffer_info info = {.type = VK_BUFFER_INFO, .size = size ? (size + 3) & ~3ull : 4,
                                  .usage = VK_STORAGE_BUFFER_USAGE};
    if (!vk_ok(vkCreateBuffer(vk.device, &info, 0, &buffer), "vkCreateBuffer", LH_MEMORY)) return 0;
    void *pointer = 0;
    struct lh_block *block = 0;
    if (vk_make_memory(buffer, &memory, &pointer)) block = lh_block_add(pointer, size);
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

/* --- Times, the end --- */
u64 lh_gpu_kernel_ns(void) {
    return (u64)vk.kernel_ns;
}

static void lh_forget_times(void) {
    vk.kernel_ns = 0;
}

static void lh_close(void) {
    if (!vk.open) return;
    vkQueueWaitIdle(vk.queue);
    while (lh_module_list) mgpuModuleUnload(lh_module_list);
    while (lh_block_count) mgpuMemFree(lh_blocks[lh_block_count - 1].user, 0);
    vk_close_all();
}
