#include "predict/search/search_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRIES_OF_PARADIGM = 16, TRIES_OF_FAMILY = 6, LEVEL_OF_OPENING = 1 };

/* Whether a candidate may still be examined: as far as is known it fits, and no thread has taken
 * it. */
static bool is_open(const struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    return outcome->state == SEARCH_NOT_NEEDED && isnan(outcome->peak_bytes);
}

static struct task take_sharpened(struct search *s, int index)
{
    dt_heap_remove(&s->sharpened, (uint32_t)index);
    return (struct task){index, (enum look)s->all[index].look, false};
}

/* The best candidate of a paradigm among those with sharpened bounds; -1: there is none. */
static int best_sharpened(const struct search *s, enum paradigm_kind paradigm)
{
    int best = -1;
    for (uint32_t i = 0; i < s->sharpened.count; i++) {
        int index = (int)s->sharpened.entries[i].item;
        if (s->result->outcomes[index].paradigm == paradigm && (best < 0 || s->all[index].bound_score < s->all[best].bound_score))
            best = index;
    }
    return best;
}

/* For a paradigm without a result: its best candidate whose short form fits, or else its next one
 * by bound, a few times. */
static struct task pick_for_paradigm(struct search *s, enum paradigm_kind paradigm)
{
    int index = s->has_result[paradigm] || s->tries[paradigm] >= TRIES_OF_PARADIGM ? -1 : best_sharpened(s, paradigm);
    if (index >= 0) {
        s->tries[paradigm]++;
        return take_sharpened(s, index);
    }
    while (!s->has_result[paradigm] && s->tries[paradigm] < TRIES_OF_PARADIGM && s->later[paradigm] < s->result->count) {
        index = s->order[s->later[paradigm]++];
        if (s->result->outcomes[index].paradigm == paradigm && is_open(s, index) && isfinite(s->all[index].bound_score)) {
            s->tries[paradigm]++;
            return (struct task){index, LOOK_SHORT, false};
        }
    }
    return NO_TASK;
}

/* ---- the first round ---- */

/* Among candidates of this family (-1: of any) that are cheap to simulate: the one with the best
 * bound that needs less than most_bytes by its own bound; or, if leanest, the one that needs least.
 * -1: there is none. */
static int easiest(const struct search *s, int family, double most_bytes, bool leanest)
{
    int best = -1;
    for (int i = 0; i < s->level_end[LEVEL_OF_FIRST]; i++) {
        int index = s->order[i];
        double bytes = s->result->outcomes[index].bound.bytes;
        bool may = s->all[index].level <= LEVEL_OF_OPENING && (family < 0 || s->all[index].family == family) && is_open(s, index) &&
                   isfinite(s->all[index].bound_score) && (leanest || bytes < most_bytes);
        if (may &&
            (best < 0 || (leanest ? bytes < s->result->outcomes[best].bound.bytes : s->all[index].bound_score < s->all[best].bound_score)))
            best = index;
    }
    return best;
}

/* One candidate of each family. Without this round, families with loose bounds would come first for
 * a long time, and a search that is stopped early would have no results of the others. If only
 * candidates better than a known score matter, this round is not needed. */
static struct task pick_opening(struct search *s)
{
    for (int f = 0; f < FAMILIES && s->options->better_than == 0; f++) {
        struct family *family = &s->first_round[f];
        if (family->opened || family->busy || family->tries >= TRIES_OF_FAMILY)
            continue;
        int index = easiest(s, f, family->most_bytes, family->tries >= TRIES_OF_FAMILY / 2);
        family->opened = index < 0 || s->all[index].bound_score > s->worst_kept; /* no candidate is left, or none is good enough */
        if (family->opened)
            continue;
        family->busy = true;
        family->tries++;
        return (struct task){index, LOOK_SHORT, true};
    }
    return NO_TASK;
}

/* Whether only the best of each kind is wanted, and a better one of its kind is known. */
static bool is_beaten(const struct search *s, int index)
{
    int i = 0;
    while (i < s->kept_count && s->result->outcomes[s->kept[i]].kind != s->result->outcomes[index].kind)
        i++;
    return s->options->diverse && !s->options->all_simulated && i < s->kept_count && s->all[index].bound_score > s->all[s->kept[i]].score;
}

/* The candidate with the lowest bound of this level, sharpened or not. */
static struct task pick_of_level(struct search *s)
{
    bool all = s->options->all_simulated;
    while (s->next < s->level_end[s->level] && (!is_open(s, s->order[s->next]) || is_beaten(s, s->order[s->next])))
        s->next++; /* candidates with sharpened bounds have another place now */
    while (s->sharpened.count > 0 && is_beaten(s, (int)s->sharpened.entries[0].item))
        dt_heap_pop(&s->sharpened);
    double sharpened = dt_heap_time(&s->sharpened),
           raw = s->next < s->level_end[s->level] ? s->all[s->order[s->next]].bound_score : INFINITY;
    double least = fmin(sharpened, raw);
    if (isinf(least) || (!all && least > s->worst_kept))
        return NO_TASK;
    if (sharpened <= raw)
        return take_sharpened(s, (int)s->sharpened.entries[0].item);
    return (struct task){s->order[s->next++], all ? LOOK_WHOLE : LOOK_PLAYED, false};
}

/* The order is: the first round, all candidates that take about ten seconds at most, then level after
 * level, since results of cheap simulations may make expensive ones unnecessary. The lock is held. */
struct task search_next(struct search *s)
{
    if (s->stopped || s->failure < 0)
        return NO_TASK;
    struct task task = pick_opening(s);
    if (task.index < 0)
        task = pick_of_level(s);
    while (task.index < 0 && s->level + 1 < LEVELS) { /* another thread may put its candidate back, so the last level never ends */
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

/* ---- what is done about it ---- */
/* If a candidate did not fit, its bound of memory was too low: the next one that is tried may need
 * at most this part of it. */
#define LESS 0.6

bool search_is_stopped(void *context)
{
    struct search *s = context;
    return s->options->stop && s->options->stop(s->options->context);
}

bool search_are_twins(const struct search *s, int left, int right)
{
    const struct search_outcome *a = &s->result->outcomes[left], *b = &s->result->outcomes[right];
    return a->step_s == b->step_s && a->peak_bytes == b->peak_bytes && a->host_peak_bytes == b->host_peak_bytes &&
           space_differ_only_in(s->space, left, right, "ddp.bucket_mib");
}

/* Twins count as one result; if kinds are wanted, so do all candidates of a kind. */
static bool are_one(const struct search *s, int left, int right)
{
    return search_are_twins(s, left, right) || (s->options->diverse && s->result->outcomes[left].kind == s->result->outcomes[right].kind);
}

/* Add the candidate to the best ones if it is one of them. */
static void keep_if_good(struct search *s, int index)
{
    double score = s->all[index].score;
    int same = 0;
    if (score >= s->worst_kept)
        return;
    while (same < s->kept_count && !are_one(s, s->kept[same], index))
        same++;
    if (same < s->kept_count && s->all[s->kept[same]].score <= score)
        return;
    if (same < s->kept_count)
        memmove(&s->kept[same], &s->kept[same + 1], (size_t)(--s->kept_count - same) * sizeof *s->kept);
    int at = s->kept_count;
    if (s->kept_count < s->options->top)
        s->kept_count++;
    else
        at--;
    for (; at > 0 && s->all[s->kept[at - 1]].score > score; at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = index;
    if (s->kept_count == s->options->top)
        s->worst_kept = s->all[s->kept[s->kept_count - 1]].score;
}

static void note_result(struct search *s, int index, const struct experiment *e, const struct measure_result *result)
{
    struct search_outcome *outcome = &s->result->outcomes[index];
    outcome->step_s = result->step_s[result->steps_done - 1];
    outcome->units_per_s = search_units_per_s(e, outcome->step_s);
    outcome->step = result->metrics.step;
    outcome->storage = result->storage;
    outcome->state = SEARCH_SIMULATED;
    s->has_result[outcome->paradigm] = true;
    if (search_floor_rate(s->options, e, outcome) < s->options->floor_units_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
        return;
    }
    s->all[index].score = search_score(s->options->objective, e, outcome->step_s, outcome->peak_bytes);
    keep_if_good(s, index);
    s->best_units_per_s = fmax(s->best_units_per_s, outcome->units_per_s);
}

void search_note_failure(struct search *s, dt_status status)
{
    if (status == DT_ERR_INTERRUPTED) {
        s->stopped = true;
        return;
    }
    s->failure = s->failure < 0 ? s->failure : status;
    snprintf(s->error, sizeof s->error, "%s", dt_error_message());
}

static void tell_progress(const struct search *s)
{
    struct search_progress progress = {s->result->count, s->next, s->simulated, s->best_units_per_s};
    if (s->options->progress)
        s->options->progress(s->options->context, &progress);
}

/* Record the result of its simulation. The lock is held. */
static void note(struct search *s, int index, const struct experiment *e, dt_status status, const struct measure_result *result)
{
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    outcome->peak_bytes = simulated_peak_bytes(result);
    outcome->host_peak_bytes = 0;
    for (int i = 0; i < result->rank_count; i++)
        outcome->host_peak_bytes = fmax(outcome->host_peak_bytes, (double)result->ranks[i].memory.host.peak_total_bytes);
    if (status == DT_OK)
        note_result(s, index, e, result);
    else if (status == DT_ERR_OOM)
        outcome->state = SEARCH_OUT_OF_MEMORY;
    else
        search_note_failure(s, status);
    if (status != DT_OK && status != DT_ERR_OOM)
        return;
    s->simulated += status == DT_OK;
    if (o->done)
        o->done(o->context, e, status, dt_error_message(), result);
    tell_progress(s);
}

/* Record the result of a short form, and of a play, whose step takes step_s at least (0: it was not
 * played). task->look is the next examination. The lock is held. */
static dt_status note_short_form(struct search *s, const struct task *task, const struct experiment *e, const struct short_form *form,
                                 double step_s)
{
    int index = task->index;
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    s->all[index].look = (uint8_t)task->look;
    outcome->bound.bytes = fmax(outcome->bound.bytes, form->bytes);
    outcome->bound.step_s = fmax(outcome->bound.step_s, step_s);
    if (!form->fits) {
        outcome->peak_bytes = form->bytes;
        outcome->state = SEARCH_TOO_LARGE;
    } else if (search_units_per_s(e, outcome->bound.step_s) < o->floor_units_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
    } else {
        s->all[index].bound_score = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
        if (!task->opens)
            DT_TRY(dt_heap_set(&s->sharpened, (uint32_t)index, s->all[index].bound_score));
    }
    tell_progress(s);
    return DT_OK;
}

/* Whether a play takes longer than testing if a few micro-batches fit. A play's cost is its number
 * of passes, several times that for orders with halves; the test's cost is a recording of the
 * model's blocks. A block's recording takes as long as about twenty passes of a play. */
static bool plays_for_long(const struct experiment *e)
{
    const double passes_of_block = 20, recorded = 8; /* two ranks, two micro-batches for each stage, two steps */
    double passes = (double)e->strategy.stages * e->strategy.window * (e->strategy.order->halves ? 5 : 1);
    return passes > passes_of_block * recorded * dt_model_blocks(&e->model);
}

/* First what is faster: the test if a few micro-batches fit, or the time in which the order is
 * played. */
static dt_status play(struct search *s, const struct experiment *e, const struct bound *bound, struct short_form *out, double *step_s)
{
    *out = (struct short_form){.fits = true};
    if (plays_for_long(e))
        DT_TRY(short_forms_fit(s->shorts, e, out));
    return out->fits ? pipeline_played_s(e, &bound->passes, step_s) : DT_OK;
}

/* Examine the candidate without its whole simulation. task->look becomes LOOK_WHOLE if nothing else
 * is left. The lock is held, except during long work. */
static dt_status look_shortly(struct search *s, struct task *task, const struct experiment *e)
{
    struct bound bound = s->result->outcomes[task->index].bound;
    struct short_form form;
    double step_s = 0;
    bool plays = task->look == LOOK_PLAYED && e->strategy.stages > 1;
    pthread_mutex_unlock(&s->lock);
    dt_status status = plays ? play(s, e, &bound, &form, &step_s) : short_forms_fit(s->shorts, e, &form);
    pthread_mutex_lock(&s->lock);
    DT_TRY(status);
    task->look = plays ? LOOK_SHORT : LOOK_WHOLE;
    status = note_short_form(s, task, e, &form, step_s);
    if (!task->opens || s->result->outcomes[task->index].state != SEARCH_NOT_NEEDED)
        task->index = -1; /* it waits for its turn, or is excluded */
    return status;
}

static void simulate_and_note(struct search *s, int index, const struct experiment *e, bool stops)
{
    const struct measure_hooks hooks = {.context = s, .stop_requested = stops ? search_is_stopped : NULL};
    struct measure_result result;
    pthread_mutex_unlock(&s->lock);
    dt_status status = search_simulate(s->machine, e, &hooks, &result);
    pthread_mutex_lock(&s->lock);
    note(s, index, e, status, &result);
    measure_result_finish(&result);
}

/* A candidate that did not fit excludes others. */
static void note_opening(struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    struct family *family = &s->first_round[s->all[index].family];
    family->busy = false;
    family->opened = outcome->state == SEARCH_SIMULATED || outcome->state == SEARCH_TOO_SLOW;
    family->most_bytes = LESS * outcome->bound.bytes;
}

void search_do(struct search *s, struct task task)
{
    struct experiment e;
    int index = task.index;
    dt_status status = DT_OK;
    s->result->outcomes[index].peak_bytes = 0; /* the bytes now belong to the outcome */
    space_experiment(s->space, index, &e);
    if (task.look != LOOK_WHOLE)
        status = look_shortly(s, &task, &e);
    if (status < 0)
        search_note_failure(s, status);
    else if (task.index >= 0)
        simulate_and_note(s, index, &e, true);
    if (task.opens)
        note_opening(s, index);
}

void search_save(struct search *s)
{
    enum { TRIES = 12, OF_BEST = 4 };
    double most_bytes = s->result->capacity_bytes;
    pthread_mutex_lock(&s->lock);
    for (int tries = 0; tries < TRIES && isnan(s->best_units_per_s) && s->failure == DT_OK; tries++) {
        int index = easiest(s, -1, most_bytes, tries >= OF_BEST);
        if (index < 0)
            continue;
        struct experiment e;
        space_experiment(s->space, index, &e);
        simulate_and_note(s, index, &e, false);
        most_bytes = LESS * s->result->outcomes[index].bound.bytes;
    }
    pthread_mutex_unlock(&s->lock);
}
