#include "lib/model/split.h"

/* ---- the study's rule ---- */

static void split_by_parameters(const struct dt_piece *pieces, int count, int stages, int *first_layer)
{
    int stage = 0;
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < count; i++)
        total += pieces[i].parameters;
    first_layer[0] = pieces[0].first_layer;
    for (int i = 0; i + 1 < count && stage < stages - 1; i++) {
        seen += pieces[i].parameters;
        /* seen > total * (stage + 1) / stages, without rounding */
        bool share_passed = seen * (uint64_t)stages > total * (uint64_t)(stage + 1);
        /* without this a large head would leave the last stages empty */
        bool rest_needed = count - 1 - i == stages - 1 - stage;
        if (share_passed || rest_needed)
            first_layer[++stage] = pieces[i + 1].first_layer;
    }
}

/* ---- balanced ---- */

/* Set `stages` of all pieces [count]: the number of stages that the pieces from there on need, if
 * none costs more than `bound`. Fills stages from the back. No piece costs more than bound. The
 * stages are the same for all bounds from *most, the cost of the largest one, to below *next. */
static int stages_needed(struct dt_piece *pieces, int count, int64_t bound, int64_t *most, int64_t *next)
{
    int64_t cost = 0;
    *most = 0;
    *next = INT64_MAX;
    for (int first = count - 1, end = count; first >= 0; first--) {
        cost += pieces[first].cost;
        for (; cost > bound; end--)
            cost -= pieces[end - 1].cost;
        pieces[first].stages = 1 + (end < count ? pieces[end].stages : 0);
        *most = cost > *most ? cost : *most;
        if (end < count && cost + pieces[end].cost < *next)
            *next = cost + pieces[end].cost;
    }
    return pieces[0].stages;
}

/* The lowest possible cost of the slowest of `stages` stages. */
static int64_t least_bound(struct dt_piece *pieces, int count, int stages)
{
    int64_t low = 0, high = 0, most, next;
    for (int i = 0; i < count; i++) {
        low = pieces[i].cost > low ? pieces[i].cost : low;
        high += pieces[i].cost;
    }
    while (low < high)
        if (stages_needed(pieces, count, low + (high - low) / 2, &most, &next) <= stages)
            high = most;
        else
            low = next;
    return low;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Choose stages from the front. The cost of each is as close to the mean of the remaining ones as
 * the bound and the later stages allow. */
static void fill_evenly(struct dt_piece *pieces, int count, int stages, int64_t bound, int *first_layer)
{
    int64_t left = 0, most, next;
    stages_needed(pieces, count, bound, &most, &next);
    for (int i = 0; i < count; i++)
        left += pieces[i].cost;
    for (int stage = 0, at = 0; stage < stages; stage++) {
        int behind = stages - 1 - stage;
        int64_t cost = 0;
        first_layer[stage] = pieces[at].first_layer;
        for (bool first = true; at < count && count - at > behind; first = false, at++) {
            int64_t more = cost + pieces[at].cost, parts = behind + 1;
            bool nearer = distance(more * parts, left) < distance(cost * parts, left);
            bool needed = first || behind == 0 || pieces[at].stages > behind;
            if (!needed && (!nearer || more > bound))
                break;
            cost = more;
        }
        left -= cost;
    }
}

void dt_split(struct dt_piece *pieces, int count, enum dt_split_rule rule, int stages, int *first_layer)
{
    if (rule == DT_SPLIT_BALANCED)
        fill_evenly(pieces, count, stages, least_bound(pieces, count, stages), first_layer);
    else
        split_by_parameters(pieces, count, stages, first_layer);
}
