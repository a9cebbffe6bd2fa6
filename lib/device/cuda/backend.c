/* The cuda device: streams, events and graphs are CUDA's, memory comes from pools (pool.h). The
 * tests also run it on an emulated GPU (test/cuda_emulator). */
#include "lib/device/cuda/device.h"

#include "lib/base/machine.h"
#include "lib/device/cuda/internal.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

static struct cuda_device *cuda_of(const struct dt_device *device)
{
    return (struct cuda_device *)device;
}

static dt_status open_gpu(struct cuda_device *device)
{
    size_t free_bytes, total_bytes;
    int *multiprocessors = &device->multiprocessors;
    DT_TRY(dt_cuda_status(cudaSetDevice(device->ordinal), "cuda device"));
    DT_TRY(dt_cuda_status(cudaMemGetInfo(&free_bytes, &total_bytes), "cuda device: its memory"));
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(multiprocessors, cudaDevAttrMultiProcessorCount, device->ordinal), "cuda device"));
    device->info.memory_bytes = total_bytes;
    return DT_OK;
}

/* Only kernels that are compiled for Hopper wait for the kernels before them
 * (lib/kernels/cuda/launch.cuh): others would race if they were launched early. */
enum { CODE_WAITS = DTBENCH_CUDA_HOPPER };

static dt_status needs_capability(const struct cuda_device *device, const char *option, int wanted_major, bool or_newer)
{
    int major = 0, minor = 0;
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device->ordinal), "cuda device"));
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device->ordinal), "cuda device"));
    if (major == wanted_major ? minor == 0 || or_newer : major > wanted_major && or_newer)
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%s: compute capability %d.0 is needed, and this GPU has %d.%d", option, wanted_major, major, minor);
}

static dt_status set_options(struct cuda_device *device, const struct dt_device_options *options)
{
    int spared = options ? options->spared_multiprocessors : 0;
    device->early_launch = options && options->early_launch;
    device->warpgroup_kernels = options ? options->warpgroup_kernels : DT_WARPGROUPS_AUTO;
    device->product_multiprocessors = device->multiprocessors - spared;
    if (device->product_multiprocessors < 1)
        return dt_fail(DT_ERR_INVALID, "spared_multiprocessors is %d, and this GPU has %d", spared, device->multiprocessors);
    /* code for sm_90a runs on no other GPU */
    dt_status hopper = device->warpgroup_kernels == DT_WARPGROUPS_NEVER ? DT_OK : needs_capability(device, "warpgroup_kernels", 9, false);
    if (hopper < 0 && device->warpgroup_kernels == DT_WARPGROUPS_ALWAYS)
        return hopper;
    if (hopper < 0)
        device->warpgroup_kernels = DT_WARPGROUPS_NEVER;
    if (!device->early_launch)
        return DT_OK;
    if (!CODE_WAITS)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       "early_launch: the kernels of this build are for older GPUs, too; build with -Dgpu_target=hopper");
    return needs_capability(device, "early_launch", 9, true);
}

static dt_status cuda_create(const struct dt_device_options *options, struct dt_device **out)
{
    int ordinal;
    DT_TRY(dt_cuda_choose(options, &ordinal));
    struct cuda_device *device = calloc(1, sizeof *device);
    DT_TRY(dt_allocated(device, "cuda device: no host memory"));
    char address[24];
    device->ordinal = ordinal;
    if (!dt_cuda_look(ordinal, &device->info)) {
        free(device);
        return dt_fail(DT_ERR_DEVICE, "cuda device: the properties of GPU %d cannot be read", ordinal);
    }
    if (cudaDeviceGetPCIBusId(address, sizeof address, ordinal) == cudaSuccess) {
        dt_cuda_bind_near("/sys/bus/pci/devices", address);
        device->nvml = dt_nvml_open(address);
    } else {
        cudaGetLastError();
    }
    dt_status status = open_gpu(device);
    DT_THEN(status, set_options(device, options));
    if (status < 0) {
        dt_nvml_close(device->nvml);
        free(device);
        return status;
    }
    device->poison = getenv("DTBENCH_POISON") != NULL;
    device->base.ledger.limit_bytes = device->info.memory_bytes;
    device->base.host_ledger.limit_bytes = dt_machine_memory_bytes();
    dt_cuda_memory_init(device);
    pthread_mutex_init(&device->mutex, NULL);
    *out = &device->base;
    return DT_OK;
}

static void cuda_destroy(struct dt_device *base)
{
    struct cuda_device *device = cuda_of(base);
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (device->streams[i])
            dt_cuda_stream_destroy(&device->streams[i]->base);
    }
    dt_cuda_memory_finish(device);
    dt_cuda_tasks_free(&device->tasks);
    dt_cuda_tasks_free(&device->captured_tasks);
    pthread_mutex_destroy(&device->mutex);
    dt_nvml_close(device->nvml);
    free(device);
}

static uint64_t cuda_reserved_bytes(const struct dt_device *device)
{
    return cuda_of(device)->pool.reserved_bytes + cuda_of(device)->host_pool.reserved_bytes;
}

static void cuda_info(const struct dt_device *base, struct dt_device_info *out)
{
    const struct cuda_device *device = cuda_of(base);
    size_t free_bytes, total_bytes;
    const struct dt_device_kind *kind = out->kind;
    *out = device->info;
    out->kind = kind;
    if (!device->capture && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        out->available_bytes = free_bytes + device->pool.reserved_bytes;
    else
        cudaGetLastError();
}

static void cuda_condition(const struct dt_device *base, struct dt_device_condition *out)
{
    const struct cuda_device *device = cuda_of(base);
    if (device->nvml)
        dt_nvml_read(device->nvml, out);
}

/* The end of a step: report what tasks on the driver's threads found, and join free memory. */
static dt_status cuda_stream_synchronize(struct dt_stream *stream)
{
    struct cuda_device *device = cuda_of(stream->device);
    DT_TRY(dt_cuda_wait_for_stream((struct cuda_stream *)stream, 0));
    DT_TRY(dt_cuda_task_failure(device));
    dt_cuda_memory_settle(device);
    return DT_OK;
}

bool dt_cuda_capturing(const struct dt_device *device)
{
    return cuda_of(device)->capture != 0;
}

int dt_cuda_ordinal(const struct dt_device *device)
{
    return cuda_of(device)->ordinal;
}

int dt_cuda_product_multiprocessors(const struct dt_device *device)
{
    return cuda_of(device)->product_multiprocessors;
}

bool dt_cuda_launches_early(const struct dt_stream *stream)
{
    return cuda_of(stream->device)->early_launch;
}

enum dt_warpgroup_kernels dt_cuda_warpgroup_kernels(const struct dt_device *device)
{
    return cuda_of(device)->warpgroup_kernels;
}

int dt_cuda_multiprocessors(const struct dt_device *device)
{
    return cuda_of(device)->multiprocessors;
}

void dt_cuda_watch(struct dt_device *device, struct dt_cuda_watch *watch)
{
    watch->next = cuda_of(device)->watches;
    cuda_of(device)->watches = watch;
}

void dt_cuda_unwatch(struct dt_device *device, struct dt_cuda_watch *watch)
{
    struct dt_cuda_watch **place = &cuda_of(device)->watches;
    while (*place && *place != watch)
        place = &(*place)->next;
    if (*place)
        *place = watch->next;
}

const struct dt_device_backend dt_device_cuda = {
    .kind = "cuda",
    .available = dt_cuda_available,
    .look = dt_cuda_look,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .info = cuda_info,
    .condition = cuda_condition,
    .reserved_bytes = cuda_reserved_bytes,
    .stream_create = dt_cuda_stream_create,
    .stream_destroy = dt_cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .stream_wait = dt_cuda_stream_wait,
    .event_create = dt_cuda_event_create,
    .event_destroy = dt_cuda_event_destroy,
    .event_record = dt_cuda_event_record,
    .event_elapsed_ns = dt_cuda_event_elapsed_ns,
    .alloc = dt_cuda_alloc,
    .free = dt_cuda_free,
    .copy = dt_cuda_copy,
    .copy_from_host = dt_cuda_copy_from_host,
    .copy_to_host = dt_cuda_copy_to_host,
    .zero = dt_cuda_zero,
    .captures = true,
    .graph_begin = dt_cuda_graph_begin,
    .graph_end = dt_cuda_graph_end,
    .graph_launch = dt_cuda_graph_launch,
    .graph_destroy = dt_cuda_graph_destroy,
};
