#include "schedules/search/score.h"

#include "schedules/config/parse.h"

double search_score(enum search_objective objective, const struct experiment *e, double step_s, double bytes)
{
    double tokens = (double)experiment_global_batch(e) * e->model.block_size;
    switch (objective) {
    case SEARCH_MEMORY: return bytes;
    case SEARCH_COST:
    case SEARCH_ENERGY: return e->world_size * step_s / tokens;
    default: return step_s / tokens;
    }
}

double search_tokens_per_s(const struct experiment *e, double step_s)
{
    return (double)experiment_global_batch(e) * e->model.block_size / step_s;
}
