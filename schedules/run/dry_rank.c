#include "schedules/run/dry_rank.h"

dt_status dry_rank_init(struct dry_rank *dry, const struct experiment *experiment, int rank, int repetitions)
{
    struct dt_world place = {.rank = rank, .size = experiment->world_size, .local_size = 1, .launcher = "none"};
    struct dt_comm_options no_timeouts = {0};
    struct dt_device_options no_limit = {0};
    struct trainer_options options = {.memory_at = dry->memory_at, .repetitions = repetitions};
    *dry = (struct dry_rank){0};
    DT_TRY(dt_device_create("sim", &no_limit, &dry->device));
    DT_TRY(dt_comm_create(dry->device, &place, &no_timeouts, &dry->world));
    return trainer_create(experiment, dry->device, dry->world, &options, &dry->trainer);
}

void dry_rank_finish(struct dry_rank *dry)
{
    trainer_destroy(dry->trainer);
    dt_comm_destroy(dry->world);
    dt_device_destroy(dry->device);
    *dry = (struct dry_rank){0};
}
