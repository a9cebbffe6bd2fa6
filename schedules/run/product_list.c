#include "schedules/run/product_list.h"

#include "schedules/config/split.h"
#include "schedules/run/dry_rank.h"

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
    dt_status status = DT_OK;
    for (int rank = 0; rank < e->world_size && status == DT_OK; rank++) {
        struct dry_rank dry = {0};
        if (mesh_index(&shape, MESH_ON_DATA, rank) > 0) /* ranks that differ in their samples have the same products */
            continue;
        status = list_step(tuning, e, rank, &dry);
        dry_rank_finish(&dry);
    }
    return status;
}
