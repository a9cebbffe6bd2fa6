#include "schedules/config/split.h"

#include <ctype.h>
#include <stdlib.h>

const char *split_rule_name(int rule)
{
    static const char *const names[] = {[DT_SPLIT_BALANCED] = "balanced", [DT_SPLIT_PARAMETERS] = "parameters"};
    return (unsigned)rule < sizeof names / sizeof *names ? names[rule] : NULL;
}

int split_points(const char *text, uint16_t *points)
{
    int count = 0;
    for (char *end; isdigit((unsigned char)*text) && count < SPLIT_MOST_POINTS; text = *end ? end + 1 : end)
        points[count++] = (uint16_t)strtoul(text, &end, 10);
    return count;
}

static dt_status split_at_points(const struct experiment *e, int virtual_stages, int *first_layer)
{
    const struct dt_model *model = &e->model;
    int points = e->strategy.split_points, stages = e->strategy.stages, last = -1;
    if (points != virtual_stages - 1 && virtual_stages == stages)
        return dt_fail(DT_ERR_INVALID, "pipeline.split: %d point%s for %d stage%s; it takes the first block of each but the first, %d%s",
                       points, points > 1 ? "s" : "", stages, stages > 1 ? "s" : "", virtual_stages - 1,
                       (points + 1) % stages == 0 ? "; several parts on each stage are pipeline.order interleaved's" : "");
    if (points != virtual_stages - 1)
        return dt_fail(
            DT_ERR_INVALID,
            "pipeline.split: %d point%s for %d stages with %d parts each; it takes the first block of each part but the first, %d", points,
            points > 1 ? "s" : "", stages, virtual_stages / stages, virtual_stages - 1);
    for (int i = 1; i < virtual_stages; i++) {
        int block = e->strategy.split_at[i - 1];
        if (block <= last)
            return dt_fail(DT_ERR_INVALID, "pipeline.split: %d comes after %d; each point must be larger than the one before it", block,
                           last);
        if (block > dt_model_blocks(model))
            return dt_fail(DT_ERR_INVALID, "pipeline.split: %d of a model of %d blocks; a last stage of the head alone begins at %d", block,
                           dt_model_blocks(model), dt_model_blocks(model));
        first_layer[i] = dt_block_layer(model->family, block);
        last = block;
    }
    first_layer[0] = 0;
    return DT_OK;
}

dt_status experiment_partition(const struct experiment *e, int virtual_stages, int *first_layer)
{
    if (!e->strategy.split_points || !e->strategy.has_pipeline)
        return dt_partition(&e->model, e->strategy.split, virtual_stages, first_layer);
    first_layer[virtual_stages] = dt_layer_count(&e->model);
    return split_at_points(e, virtual_stages, first_layer);
}
