#include "schedules/search/search_parts.h"

#include "schedules/predict/symmetry.h"

#include <math.h>
#include <stdlib.h>

/* MOST_EFFORT: of a candidate of the first round, about half a second's. */
enum { TRIES_OF_PARADIGM = 16, MOST_EFFORT = 8192 };

bool search_is_open(const struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    return outcome->state == SEARCH_NOT_NEEDED && isnan(outcome->peak_bytes);
}

static struct task take_sharpened(struct search *s, int index)
{
    dt_sim_heap_remove(&s->sharpened, (uint32_t)index);
    return (struct task){index, (enum look)s->looks[index]};
}

/* The best one of a paradigm among those whose bounds are sharpened; -1: there is none. */
static int best_sharpened(const struct search *s, enum paradigm_kind paradigm)
{
    int best = -1;
    for (uint32_t i = 0; i < s->sharpened.count; i++) {
        int index = (int)s->sharpened.entries[i].item;
        if (s->result->outcomes[index].paradigm == paradigm && (best < 0 || s->bound_scores[index] < s->bound_scores[best]))
            best = index;
    }
    return best;
}

/* A paradigm that has no result yet: its best that is known to fit by its short form, or else its next candidate by bound, a few times. */
static struct task pick_for_paradigm(struct search *s, enum paradigm_kind paradigm)
{
    int index = s->has_result[paradigm] || s->tries[paradigm] >= TRIES_OF_PARADIGM ? -1 : best_sharpened(s, paradigm);
    if (index >= 0) {
        s->tries[paradigm]++;
        return take_sharpened(s, index);
    }
    while (!s->has_result[paradigm] && s->tries[paradigm] < TRIES_OF_PARADIGM && s->later[paradigm] < s->result->count) {
        index = s->order[s->later[paradigm]++];
        if (s->result->outcomes[index].paradigm == paradigm && search_is_open(s, index) && isfinite(s->bound_scores[index])) {
            s->tries[paradigm]++;
            return (struct task){index, LOOK_SHORT};
        }
    }
    return NO_TASK;
}

/* ---- the first round ---- */

double search_effort(const struct search *s, const struct experiment *e)
{
    struct symmetric_part part;
    int stages = experiment_stages(e), micro_batches = e->micro_batches * (stages > 1 ? e->pipeline.chunks : 1);
    bool found = symmetric_part_find(e, s->system, &part) == DT_OK;
    double ranks = found ? part.count : e->world_size;
    symmetric_part_finish(&part);
    return ranks * micro_batches * e->model.layers / stages;
}

struct opening {
    int index;
    double effort, bound;
};

static int by_effort(const void *left, const void *right)
{
    const struct opening *a = left, *b = right;
    if (a->effort != b->effort)
        return a->effort < b->effort ? -1 : 1;
    return a->index - b->index;
}

/* Bounds of memory are half of what is needed at worst, and what is far below them fits. */
static bool is_small(const struct search *s, int index)
{
    return s->result->outcomes[index].bound.bytes < 0.5 * s->result->capacity_bytes;
}

/* Of each family the one that takes least to simulate among those whose bound is near the family's best; those that take least come first.
 * Without this round, what has loose bounds would come first for long, and a search that is stopped early would know nothing of the rest. Who
 * asks for better than a known one knows enough. */
void search_choose_openings(struct search *s)
{
    const double near = 1.25;
    enum { OF_FAMILY = 64 };
    struct opening best[FAMILIES];
    int seen[FAMILIES] = {0};
    struct experiment *e = s->options->better_than == 0 ? malloc(sizeof *e) : NULL;
    for (int f = 0; f < FAMILIES; f++)
        best[f] = (struct opening){-1, INFINITY, INFINITY};
    for (int i = 0; e && i < s->result->count && isfinite(s->bound_scores[s->order[i]]); i++) {
        int index = s->order[i], family = s->families[index];
        struct opening *chosen = &best[family];
        if (!search_is_open(s, index) || seen[family] >= OF_FAMILY || !is_small(s, index))
            continue;
        if (seen[family]++ == 0)
            chosen->bound = s->bound_scores[index];
        space_experiment(s->space, space_candidate(s->space, index), e);
        double effort = s->bound_scores[index] <= near * chosen->bound ? search_effort(s, e) : INFINITY;
        if (effort < chosen->effort) {
            chosen->index = index;
            chosen->effort = effort;
        }
    }
    free(e);
    qsort(best, FAMILIES, sizeof *best, by_effort);
    for (s->opening_count = 0; s->opening_count < FAMILIES && best[s->opening_count].effort <= MOST_EFFORT; s->opening_count++)
        s->openings[s->opening_count] = best[s->opening_count].index;
}

static struct task pick_opening(struct search *s)
{
    while (s->opening < s->opening_count) {
        int index = s->openings[s->opening++];
        if (search_is_open(s, index) && s->bound_scores[index] < s->worst_kept)
            return (struct task){index, LOOK_WHOLE};
    }
    return NO_TASK;
}

/* The first round, and then the lowest bound first, whether it is a sharpened one or not. The lock is held. */
struct task search_next(struct search *s)
{
    bool all = s->options->all_simulated;
    if (s->stopped || s->failure < 0)
        return NO_TASK;
    struct task opening = pick_opening(s);
    if (opening.index >= 0)
        return opening;
    for (;;) {
        double sharpened = dt_sim_heap_time(&s->sharpened),
               raw = s->next < s->result->count ? s->bound_scores[s->order[s->next]] : INFINITY;
        double least = fmin(sharpened, raw);
        if (isinf(least) || (!all && least > s->worst_kept))
            break;
        if (sharpened <= raw)
            return take_sharpened(s, (int)s->sharpened.entries[0].item);
        int index = s->order[s->next++];
        if (search_is_open(s, index))
            return (struct task){index, all ? LOOK_WHOLE : LOOK_PLAYED};
    }
    for (int p = 0; p < PARADIGM_COUNT && !s->options->only_best; p++) {
        struct task task = pick_for_paradigm(s, (enum paradigm_kind)p);
        if (task.index >= 0)
            return task;
    }
    return NO_TASK;
}
