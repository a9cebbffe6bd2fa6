#include "schedules/search/search_parts.h"

#include <math.h>

enum { TRIES_OF_PARADIGM = 16, TRIES_OF_FAMILY = 6, LEVEL_OF_OPENING = 1 };

bool search_is_open(const struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    return outcome->state == SEARCH_NOT_NEEDED && isnan(outcome->peak_bytes);
}

static struct task take_sharpened(struct search *s, int index)
{
    dt_sim_heap_remove(&s->sharpened, (uint32_t)index);
    return (struct task){index, (enum look)s->looks[index], false};
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
            return (struct task){index, LOOK_SHORT, false};
        }
    }
    return NO_TASK;
}

/* ---- the first round ---- */

int search_easiest(const struct search *s, int family, double most_bytes, bool leanest)
{
    int best = -1;
    for (int i = 0; i < s->level_end[LEVEL_OF_FIRST]; i++) {
        int index = s->order[i];
        double bytes = s->result->outcomes[index].bound.bytes;
        bool may = s->levels[index] <= LEVEL_OF_OPENING && (family < 0 || s->families[index] == family) && search_is_open(s, index) &&
                   isfinite(s->bound_scores[index]) && (leanest || bytes < most_bytes);
        if (may && (best < 0 || (leanest ? bytes < s->result->outcomes[best].bound.bytes : s->bound_scores[index] < s->bound_scores[best])))
            best = index;
    }
    return best;
}

/* One of each family. Without them, what has loose bounds would come first for long, and a search that is stopped early would know nothing of the
 * rest. Who asks for better than a known one knows enough. */
static struct task pick_opening(struct search *s)
{
    for (int f = 0; f < FAMILIES && s->options->better_than == 0; f++) {
        struct family *family = &s->first_round[f];
        if (family->opened || family->busy || family->tries >= TRIES_OF_FAMILY)
            continue;
        int index = search_easiest(s, f, family->most_bytes, family->tries >= TRIES_OF_FAMILY / 2);
        family->opened = index < 0 || s->bound_scores[index] > s->worst_kept; /* nothing is there, or is worth it */
        if (family->opened)
            continue;
        family->busy = true;
        family->tries++;
        return (struct task){index, LOOK_SHORT, true};
    }
    return NO_TASK;
}

/* The lowest bound of this level, whether it is a sharpened one or not. */
static struct task pick_of_level(struct search *s)
{
    bool all = s->options->all_simulated;
    for (;;) {
        double sharpened = dt_sim_heap_time(&s->sharpened),
               raw = s->next < s->level_end[s->level] ? s->bound_scores[s->order[s->next]] : INFINITY;
        double least = fmin(sharpened, raw);
        if (isinf(least) || (!all && least > s->worst_kept))
            return NO_TASK;
        if (sharpened <= raw)
            return take_sharpened(s, (int)s->sharpened.entries[0].item);
        int index = s->order[s->next++];
        if (search_is_open(s, index))
            return (struct task){index, all ? LOOK_WHOLE : LOOK_PLAYED, false};
    }
}

/* The first round, all that takes about a second, and then level after level: what takes little may spare what takes long. The lock is held. */
struct task search_next(struct search *s)
{
    if (s->stopped || s->failure < 0)
        return NO_TASK;
    struct task task = pick_opening(s);
    if (task.index < 0)
        task = pick_of_level(s);
    while (task.index < 0 && s->level + 1 < LEVELS) { /* what another thread has taken may come back: the last level has no end */
        s->next = s->level_end[s->level++];
        task = pick_of_level(s);
    }
    if (task.index >= 0)
        return task;
    for (int p = 0; paradigm_of((enum paradigm_kind)p) && !s->options->only_best; p++) {
        task = pick_for_paradigm(s, (enum paradigm_kind)p);
        if (task.index >= 0)
            return task;
    }
    return NO_TASK;
}
