/* The table of device kinds, and creating and destroying devices. Only this file knows the
 * backends. */
#include "lib/device/backend.h"
#include "lib/device/span.h"

#include <stdio.h>
#include <string.h>

/* Defaults are tried in this order. */
static const struct dt_device_kind kinds[DT_DEVICE_KINDS] = {
    {"cuda", DT_DEVICE_CUDA, .gpus = true, .communicator = "nccl", .nccl = true},
    {"cpu", DT_DEVICE_CPU, .communicator = "mpi"},
    {"sim", DT_DEVICE_SIM, .simulated = true, .communicator = "sim"},
};
static const struct dt_device_backend *const backends[DT_DEVICE_KINDS] = {&dt_device_cuda, &dt_device_cpu, &dt_device_sim};

const struct dt_device_kind *dt_device_kind_at(int index)
{
    return index >= 0 && index < DT_DEVICE_KINDS ? &kinds[index] : NULL;
}

const struct dt_device_kind *dt_device_kind_find(const char *name)
{
    const struct dt_device_kind *kind;
    for (int i = 0; (kind = dt_device_kind_at(i)); i++)
        if (strcmp(name, kind->name) == 0)
            return kind;
    return NULL;
}

bool dt_device_is_simulated(const char *name)
{
    const struct dt_device_kind *kind = dt_device_kind_find(name);
    return kind && kind->simulated;
}

static const struct dt_device_backend *find_backend(const char *name)
{
    const struct dt_device_kind *kind = dt_device_kind_find(name);
    return kind ? backends[kind->index] : NULL;
}

static dt_status unknown_kind(const char *kind)
{
    return dt_fail(DT_ERR_INVALID, "unknown device \"%s\": use cuda, cpu or sim", kind);
}

bool dt_device_available(const char *kind, char *reason, size_t reason_bytes)
{
    const struct dt_device_backend *backend = find_backend(kind);
    snprintf(reason, reason_bytes, "%s", "");
    if (backend && !backend->missing)
        return !backend->available || backend->available(reason, reason_bytes);
    if (!backend)
        unknown_kind(kind);
    snprintf(reason, reason_bytes, "%s", backend ? backend->missing : dt_error_message());
    return false;
}

bool dt_device_look(const char *kind, int index, struct dt_device_info *out)
{
    const struct dt_device_backend *backend = find_backend(kind);
    memset(out, 0, sizeof *out);
    out->kind = dt_device_kind_find(kind);
    return backend && index >= 0 && backend->look && backend->look(index, out);
}

int dt_device_count(const char *kind)
{
    struct dt_device_info info;
    int count = 0;
    while (dt_device_look(kind, count, &info))
        count++;
    return count;
}

dt_status dt_device_create(const char *kind, const struct dt_device_options *options, struct dt_device **out)
{
    struct dt_device_options resolved = options ? *options : (struct dt_device_options){0};
    const struct dt_device_backend *backend = find_backend(kind);
    *out = NULL;
    if (!backend)
        return unknown_kind(kind);
    if (backend->missing)
        return dt_fail(DT_ERR_UNAVAILABLE, "%s device: %s", kind, backend->missing);
    if (resolved.local_size == 0)
        resolved.local_size = 1;
    if (resolved.threads < 0)
        return dt_fail(DT_ERR_INVALID, "device threads: %d is negative; use 0 for this rank's share of the processors", resolved.threads);
    if (resolved.local_rank < 0 || resolved.local_rank >= resolved.local_size)
        return dt_fail(DT_ERR_INVALID, "local rank %d is outside 0 to %d", resolved.local_rank, resolved.local_size - 1);
    struct dt_device *device;
    DT_TRY(backend->create(&resolved, &device));
    device->backend = backend;
    device->kind = dt_device_kind_find(kind);
    device->options = resolved;
    device->pass = dt_no_pass();
    if (resolved.memory_limit_bytes)
        device->ledger.limit_bytes = resolved.memory_limit_bytes;
    if (resolved.host_memory_limit_bytes)
        device->host_ledger.limit_bytes = resolved.host_memory_limit_bytes;
    device->host_ledger.on_host = true;
    *out = device;
    return DT_OK;
}

void dt_device_destroy(struct dt_device *device)
{
    if (!device)
        return;
    if (device->capturing)
        dt_graph_end(device->capturing, NULL); /* a step that failed during a capture may leave it open */
    dt_spans_forget(device);
    device->backend->destroy(device);
}
