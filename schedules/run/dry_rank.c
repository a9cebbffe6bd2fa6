#include "schedules/run/dry_rank.h"

#include "schedules/run/device_choice.h"

dt_status dry_rank_init(struct dry_rank *dry, const struct experiment *experiment, int rank, int repetitions)
{
    struct dt_world place = {.rank = rank, .size = experiment->world_size, .local_size = 1, .launcher = "none"};
    struct dt_comm_options no_timeouts = {0};
    struct dt_device_options no_limit = {.stands_for = experiment->strategy.device};
    struct trainer_options options = {.memory_at = dry->memory_at, .repetitions = repetitions};
    *dry = (struct dry_rank){0};
    if (!no_limit.stands_for && device_choose(experiment, &no_limit.stands_for) < 0)
        no_limit.stands_for = NULL; /* memory of this machine does not matter */
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

dt_status rank_plan(const struct experiment *experiment, int rank, struct plan *out)
{
    DT_ENDED(dry_rank_finish) struct dry_rank dry = {0};
    *out = (struct plan){0};
    DT_TRY(dry_rank_init(&dry, experiment, rank, 0));
    return plan_copy(trainer_plan(dry.trainer), out);
}

static dt_status list_step(struct dt_tuning *tuning, const struct experiment *e, int rank, struct dry_rank *dry)
{
    DT_TRY(dry_rank_init(dry, e, rank, 0));
    DT_TRY(trainer_list_products(dry->trainer, tuning));
    DT_TRY(trainer_step(dry->trainer, 0));
    return trainer_synchronize(dry->trainer);
}

dt_status product_list_add(struct dt_tuning *tuning, const struct experiment *e)
{
    struct mesh_shape shape = e->strategy.mesh;
    for (int rank = 0; rank < e->world_size; rank++) {
        DT_ENDED(dry_rank_finish) struct dry_rank dry = {0};
        if (mesh_index(&shape, MESH_ON_DATA, rank) == 0) /* ranks that differ only in their samples have the same products */
            DT_TRY(list_step(tuning, e, rank, &dry));
    }
    return DT_OK;
}
