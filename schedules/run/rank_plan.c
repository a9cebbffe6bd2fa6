#include "schedules/run/rank_plan.h"

#include "schedules/run/trainer.h"

/* One rank on the sim device. */
struct dry_rank {
    struct dt_device *device;
    struct dt_comm *world;
    struct trainer *trainer;
};

static dt_status create(const struct experiment *experiment, int rank, struct dry_rank *dry)
{
    struct dt_world place = {.rank = rank, .size = experiment->world_size, .local_size = 1, .launcher = "none"};
    struct dt_comm_options no_timeouts = {0};
    struct dt_device_options no_limit = {0};
    DT_TRY(dt_device_create("sim", &no_limit, &dry->device));
    DT_TRY(dt_comm_create(dry->device, &place, &no_timeouts, &dry->world));
    return trainer_create(experiment, dry->device, dry->world, NULL, &dry->trainer);
}

static dt_status copy(const struct plan *from, struct plan *out)
{
    *out = *from;
    out->actions = NULL;
    out->count = out->room = 0;
    for (int i = 0; i < from->count; i++)
        DT_TRY(plan_append(out, from->actions[i]));
    return DT_OK;
}

dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out)
{
    struct dry_rank dry = {0};
    *out = (struct plan){0};
    dt_status status = create(experiment, rank, &dry);
    if (status == DT_OK)
        status = copy(trainer_plan(dry.trainer), out);
    trainer_destroy(dry.trainer);
    dt_comm_destroy(dry.world);
    dt_device_destroy(dry.device);
    return status;
}
