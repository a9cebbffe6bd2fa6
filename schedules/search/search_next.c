#include "schedules/search/search_parts.h"

#include <math.h>

enum { TRIES_OF_PARADIGM = 16 };

static bool is_open(const struct search *s, int index)
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
        if (s->result->outcomes[index].paradigm == paradigm && is_open(s, index) && isfinite(s->bound_scores[index])) {
            s->tries[paradigm]++;
            return (struct task){index, LOOK_SHORT};
        }
    }
    return NO_TASK;
}

/* The first round: the best bound of each family. Without it, what has loose bounds would come first for long, and a search that is stopped
 * early would know nothing of the rest. Who asks for better than a known one knows enough. */
static struct task pick_opening(struct search *s)
{
    while (s->opening < s->result->count && s->options->better_than == 0) {
        int index = s->order[s->opening++];
        if (isinf(s->bound_scores[index]))
            break;
        if (s->opened[s->families[index]] || !is_open(s, index))
            continue;
        s->opened[s->families[index]] = true;
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
        if (is_open(s, index))
            return (struct task){index, all ? LOOK_WHOLE : LOOK_PLAYED};
    }
    for (int p = 0; p < PARADIGM_COUNT && !s->options->only_best; p++) {
        struct task task = pick_for_paradigm(s, (enum paradigm_kind)p);
        if (task.index >= 0)
            return task;
    }
    return NO_TASK;
}
