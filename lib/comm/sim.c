/* The sim device's communicators: any rank and size in one process. No data is sent, since that
 * device has none; operations are added to the program that the device records (lib/device/sim.h),
 * and the engine computes their times. */
#include "lib/device/sim.h"
#include "lib/comm/backend.h"

#include <stdlib.h>
#include <string.h>

struct sim_comm {
    struct dt_comm base;
    int slot; /* slot in the device's program; -1: nothing is recorded */
    char labels[DT_COMM_KINDS][64];
};

static const struct dt_comm_backend sim_backend;

static struct sim_comm *sim_of(const struct dt_comm *comm)
{
    return (struct sim_comm *)comm;
}

dt_status dt_comm_sim_create(struct dt_device *device, const struct dt_comm_members *members, const char *name,
                             const struct dt_comm_options *options, struct dt_comm **out)
{
    DT_FREED struct sim_comm *comm = calloc(1, sizeof *comm);
    DT_TRY(dt_allocated(comm, "no host memory for a communicator"));
    dt_comm_init(&comm->base, &sim_backend, device, members->place, members->count, name, options);
    for (int kind = 0; kind < DT_COMM_KINDS; kind++)
        snprintf(comm->labels[kind], sizeof *comm->labels, "%s %s", dt_comm_kind_name((enum dt_comm_kind)kind), comm->base.name);
    DT_TRY(dt_sim_add_slot(device, name, members->world_ranks, members->count, &comm->slot));
    *out = &DT_PASSED_ON(comm)->base;
    return DT_OK;
}

static dt_status sim_subset(struct dt_comm *parent, const struct dt_comm_members *members, const char *name, struct dt_comm **out)
{
    return members->count == 0 ? DT_OK : dt_comm_sim_create(parent->device, members, name, &parent->options, out);
}

static bool is_of(const struct sim_comm *comm, const char *group)
{
    return group && strcmp(group, comm->base.name) == 0;
}

/* The allocator returns memory to the driver and requests it again; the driver waits until the
 * device is idle. */
static dt_status reallocate(struct dt_sim_program *program, double seconds)
{
    DT_TRY(dt_sim_program_synchronize(program, DT_SIM_ALL_STREAMS));
    return dt_sim_program_host(program, seconds);
}

static dt_status record(const struct sim_comm *comm, const struct dt_comm_operation *o, struct dt_sim_program *program, int stream)
{
    static const enum dt_sim_collective collectives[] = {
        [DT_COMM_ALL_REDUCE] = DT_SIM_ALL_REDUCE, [DT_COMM_REDUCE_SCATTER] = DT_SIM_REDUCE_SCATTER,
        [DT_COMM_ALL_GATHER] = DT_SIM_ALL_GATHER, [DT_COMM_BROADCAST] = DT_SIM_BROADCAST,
        [DT_COMM_REDUCE] = DT_SIM_REDUCE,         [DT_COMM_ALL_TO_ALL] = DT_SIM_ALL_TO_ALL,
        [DT_COMM_SHIFT] = DT_SIM_SHIFT,
    };
    const struct dt_sim_device *device = dt_sim_device_of(comm->base.device);
    bool message = o->kind == DT_COMM_SEND || o->kind == DT_COMM_RECV;
    double bytes = (double)o->count_elems * (double)dt_dtype_bytes(o->dtype) * (dt_comm_of_parts(o->kind) ? comm->base.size : 1);
    const char *label = comm->labels[o->kind];
    bool gathered = dt_comm_of_parts(o->kind) && is_of(comm, device->gathered_group);
    if (gathered && o->kind == DT_COMM_ALL_GATHER && device->gather_host_s_per_byte > 0)
        DT_TRY(reallocate(program, device->gather_host_s_per_byte * bytes));
    double host_s = gathered ? device->gather_host_s : device->collective_host_s;
    if (!message && is_of(comm, device->slow_group))
        host_s += device->slow_group_rank_s * comm->base.size;
    DT_TRY(dt_sim_program_host(program, message ? device->message_host_s : host_s));
    if (o->kind == DT_COMM_SEND)
        return dt_sim_program_send(program, stream, comm->slot, o->peer, bytes, label);
    if (o->kind == DT_COMM_RECV)
        return dt_sim_program_recv(program, stream, comm->slot, o->peer, bytes, label);
    return dt_sim_program_collective(program, stream, comm->slot, collectives[o->kind], bytes, o->peer, label);
}

static dt_status sim_queue(struct dt_comm *base, const struct dt_comm_operation *operation)
{
    int stream;
    struct dt_sim_program *program = dt_sim_recording(operation->stream, &stream);
    dt_comm_mark(base, operation->sequence, DT_COMM_DONE);
    return program ? record(sim_of(base), operation, program, stream) : DT_OK;
}

static dt_status sim_group_start(struct dt_comm *comm)
{
    struct dt_sim_program *program = dt_sim_recording_of(comm->device);
    return program ? dt_sim_program_group_start(program) : DT_OK;
}

static dt_status sim_group_end(struct dt_comm *comm)
{
    struct dt_sim_program *program = dt_sim_recording_of(comm->device);
    return program ? dt_sim_program_group_end(program) : DT_OK;
}

static dt_status sim_host_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    for (int i = 0; i < comm->size; i++)
        memcpy((char *)all + (size_t)i * bytes, mine, bytes);
    return DT_OK;
}

static const struct dt_comm_backend sim_backend = {
    .name = "sim",
    .queue = sim_queue,
    .group_start = sim_group_start,
    .group_end = sim_group_end,
    .subset = sim_subset,
    .host_all_gather = sim_host_all_gather,
};
