/* The table of backends, and which one a device and a world get. Only this file knows all
 * backends. */
#include "lib/comm/backend.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text; /* for backends that every build has and that need no launcher; NULL: the two functions are used */
    bool (*available)(char *text, size_t text_bytes);
    dt_status (*check_world)(const struct dt_world *world);
} backends[] = {
    {"self", "one rank", NULL, NULL},
    {"mpi", NULL, dt_comm_mpi_available, dt_comm_mpi_check_world},
    {"nccl", NULL, dt_comm_nccl_available, dt_comm_nccl_check_world},
    {"sim", "any number of ranks in one process, for predictions", NULL, NULL},
};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

static int find(const char *backend)
{
    int i = 0;
    while (i < BACKENDS && strcmp(backends[i].name, backend) != 0)
        i++;
    return i;
}

const char *dt_comm_backend_name(int index)
{
    return index >= 0 && index < BACKENDS ? backends[index].name : NULL;
}

const char *dt_comm_backend_for(const struct dt_device_kind *device, int world_size)
{
    return world_size == 1 && !device->simulated ? "self" : device->communicator;
}

bool dt_comm_available(const char *backend, char *text, size_t text_bytes)
{
    int i = find(backend);
    if (i < BACKENDS && backends[i].available)
        return backends[i].available(text, text_bytes);
    snprintf(text, text_bytes, "%s", i < BACKENDS ? backends[i].text : "this version has none");
    return i < BACKENDS;
}

dt_status dt_comm_check_world(const char *backend, const struct dt_world *world)
{
    int i = find(backend);
    return i < BACKENDS && backends[i].check_world ? backends[i].check_world(world) : DT_OK;
}

static dt_status create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_members *members,
                        const struct dt_comm_options *options, struct dt_comm **out)
{
    const struct dt_device_kind *kind = dt_device_kind_of(device);
    if (kind->simulated)
        return dt_comm_sim_create(device, members, "world", options, out);
    if (world->size == 1)
        return dt_comm_self_create(device, "world", options, out);
    return kind->gpus ? dt_comm_nccl_create(device, world, members, options, out) : dt_comm_mpi_create(device, world, options, out);
}

dt_status dt_comm_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                         struct dt_comm **out)
{
    *out = NULL;
    if (world->size < 1 || world->rank < 0 || world->rank >= world->size)
        return dt_fail(DT_ERR_INVALID, "rank %d of %d is not a place in a world", world->rank, world->size);
    DT_FREED int *world_ranks = malloc((size_t)world->size * sizeof *world_ranks);
    DT_TRY(dt_allocated(world_ranks, "no host memory for a communicator"));
    for (int i = 0; i < world->size; i++)
        world_ranks[i] = i;
    const struct dt_comm_members members = {.world_ranks = world_ranks, .count = world->size, .place = world->rank};
    DT_TRY(create(device, world, &members, options, out));
    (*out)->world_ranks = DT_PASSED_ON(world_ranks);
    return DT_OK;
}
