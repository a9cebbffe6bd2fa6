/* Two backends without peers. self: one rank, whose collectives are copies at most. sim: any rank and size in one process; operations are
 * noted and move nothing, since on the sim device there is nothing to move. */
#include "lib/comm_backend.h"

#include <stdlib.h>
#include <string.h>

static const struct dt_comm_backend self_backend, sim_backend;

static const char *no_library(const struct dt_comm *comm)
{
    return "none";
}

static void alone_destroy(struct dt_comm *comm)
{
    free(comm);
}

static dt_status alone_create(const struct dt_comm_backend *backend, struct dt_device *device, int rank, int size, const char *name,
                              const struct dt_comm_options *options, struct dt_comm **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a communicator");
    dt_comm_init(*out, backend, device, rank, size, name, options);
    return DT_OK;
}

dt_status dt_comm_self_create(struct dt_device *device, const char *name, const struct dt_comm_options *options, struct dt_comm **out)
{
    return alone_create(&self_backend, device, 0, 1, name, options, out);
}

dt_status dt_comm_sim_create(struct dt_device *device, int rank, int size, const char *name, const struct dt_comm_options *options,
                             struct dt_comm **out)
{
    return alone_create(&sim_backend, device, rank, size, name, options, out);
}

static dt_status self_queue(struct dt_comm *comm, const struct dt_comm_operation *operation)
{
    if (operation->kind == DT_COMM_SEND || operation->kind == DT_COMM_RECV)
        return dt_fail(DT_ERR_INVALID, "%s: a rank alone has nobody to %s", comm->name, dt_comm_kind_name(operation->kind));
    dt_comm_mark(comm, operation->sequence, DT_COMM_DONE);
    if (operation->send == operation->receive)
        return DT_OK;
    return dt_copy(operation->stream, operation->receive, operation->send, operation->count_elems * dt_dtype_bytes(operation->dtype));
}

static dt_status sim_queue(struct dt_comm *comm, const struct dt_comm_operation *operation)
{
    dt_comm_mark(comm, operation->sequence, DT_COMM_DONE);
    return DT_OK;
}

static dt_status alone_group(struct dt_comm *comm)
{
    return DT_OK;
}

static dt_status self_split(struct dt_comm *parent, int color, int key, const char *name, struct dt_comm **out)
{
    return color < 0 ? DT_OK : dt_comm_self_create(parent->device, name, &parent->options, out);
}

static dt_status sim_split(struct dt_comm *parent, int color, int key, const char *name, struct dt_comm **out)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "%s: sim cannot know the other ranks' colors; use a subset", name);
}

static dt_status alone_subset(struct dt_comm *parent, const int *ranks, int count, const char *name, struct dt_comm **out)
{
    int rank = 0;
    if (count == 0)
        return DT_OK;
    while (ranks[rank] != parent->rank)
        rank++;
    return alone_create(parent->backend, parent->device, rank, count, name, &parent->options, out);
}

static dt_status alone_host_all_gather(struct dt_comm *comm, const void *mine, size_t bytes, void *all)
{
    for (int i = 0; i < comm->size; i++)
        memcpy((char *)all + (size_t)i * bytes, mine, bytes);
    return DT_OK;
}

static void alone_abort(struct dt_comm *comm)
{
    /* nothing here ever waits for anybody */
}

static const struct dt_comm_backend self_backend = {
    .name = "self",
    .library = no_library,
    .destroy = alone_destroy,
    .queue = self_queue,
    .group_start = alone_group,
    .group_end = alone_group,
    .split = self_split,
    .subset = alone_subset,
    .host_all_gather = alone_host_all_gather,
    .abort = alone_abort,
};

static const struct dt_comm_backend sim_backend = {
    .name = "sim",
    .library = no_library,
    .destroy = alone_destroy,
    .queue = sim_queue,
    .group_start = alone_group,
    .group_end = alone_group,
    .split = sim_split,
    .subset = alone_subset,
    .host_all_gather = alone_host_all_gather,
    .abort = alone_abort,
};
