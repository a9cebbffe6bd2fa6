#include "schedules/plan/orders.h"
#include "schedules/predict/simulation.h"
#include "schedules/search/search_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What did not fit has a bound of memory that is too low: the next one to be tried needs so much of it at most. */
#define LESS 0.6

bool search_is_stopped(void *context)
{
    struct search *s = context;
    return s->options->stop && s->options->stop(s->options->context);
}

static dt_status simulate(struct search *s, const struct experiment *e, bool stops, struct measure_result *result)
{
    struct measure_hooks hooks = {.context = s, .stop_requested = stops ? search_is_stopped : NULL};
    struct simulated_system *system;
    *result = (struct measure_result){0};
    DT_TRY(simulated_system_create_on(s->machine, e, &system));
    dt_status status = simulation_run_symmetric(e, system, &hooks, result);
    simulated_system_destroy(system);
    return status;
}

bool search_are_twins(const struct search *s, int left, int right)
{
    const struct search_outcome *a = &s->result->outcomes[left], *b = &s->result->outcomes[right];
    return a->step_s == b->step_s && a->peak_bytes == b->peak_bytes && a->host_peak_bytes == b->host_peak_bytes &&
           space_differ_only_in(s->space, left, right, "ddp.bucket_mib");
}

/* Twins are one, and where kinds are wanted all of a kind. */
static bool are_one(const struct search *s, int left, int right)
{
    return search_are_twins(s, left, right) || (s->options->diverse && s->result->outcomes[left].kind == s->result->outcomes[right].kind);
}

/* One of the best, or not. */
static void keep_if_good(struct search *s, int index)
{
    double score = s->scores[index];
    int same = 0;
    if (score >= s->worst_kept)
        return;
    while (same < s->kept_count && !are_one(s, s->kept[same], index))
        same++;
    if (same < s->kept_count && s->scores[s->kept[same]] <= score)
        return;
    if (same < s->kept_count)
        memmove(&s->kept[same], &s->kept[same + 1], (size_t)(--s->kept_count - same) * sizeof *s->kept);
    int at = s->kept_count;
    if (s->kept_count < s->options->top)
        s->kept_count++;
    else
        at--;
    for (; at > 0 && s->scores[s->kept[at - 1]] > score; at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = index;
    if (s->kept_count == s->options->top)
        s->worst_kept = s->scores[s->kept[s->kept_count - 1]];
}

static void note_result(struct search *s, int index, const struct experiment *e, const struct measure_result *result)
{
    struct search_outcome *outcome = &s->result->outcomes[index];
    outcome->step_s = result->step_s[result->steps_done - 1];
    outcome->tokens_per_s = search_tokens_per_s(e, outcome->step_s);
    outcome->step = result->metrics.step;
    outcome->state = SEARCH_SIMULATED;
    s->has_result[outcome->paradigm] = true;
    if (outcome->tokens_per_s < s->options->floor_tokens_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
        return;
    }
    s->scores[index] = search_score(s->options->objective, e, outcome->step_s, outcome->peak_bytes);
    keep_if_good(s, index);
    s->best_tokens_per_s = fmax(s->best_tokens_per_s, outcome->tokens_per_s);
}

static void note_failure(struct search *s, dt_status status)
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
    struct search_progress progress = {s->result->count, s->next, s->simulated, s->best_tokens_per_s};
    if (s->options->progress)
        s->options->progress(s->options->context, &progress);
}

/* What its simulation gave. The lock is held. */
static void note(struct search *s, int index, const struct experiment *e, dt_status status, const struct measure_result *result)
{
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    outcome->peak_bytes = outcome->host_peak_bytes = 0;
    for (int i = 0; i < result->rank_count; i++) {
        outcome->peak_bytes = fmax(outcome->peak_bytes, (double)result->ranks[i].memory.device.peak_total_bytes);
        outcome->host_peak_bytes = fmax(outcome->host_peak_bytes, (double)result->ranks[i].memory.host.peak_total_bytes);
    }
    if (status == DT_OK)
        note_result(s, index, e, result);
    else if (status == DT_ERR_OOM)
        outcome->state = SEARCH_OUT_OF_MEMORY;
    else
        note_failure(s, status);
    if (status != DT_OK && status != DT_ERR_OOM)
        return;
    s->simulated += status == DT_OK;
    if (o->done)
        o->done(o->context, e, status, dt_error_message(), result);
    tell_progress(s);
}

/* What looking at it by less than its whole simulation gave; task->look is what tells more. The lock is held. */
static dt_status note_short_form(struct search *s, const struct task *task, const struct experiment *e, const struct short_form *form)
{
    int index = task->index;
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    s->looks[index] = (uint8_t)task->look;
    outcome->bound.bytes = fmax(outcome->bound.bytes, form->bytes);
    outcome->bound.step_s = fmax(outcome->bound.step_s, form->step_s);
    if (!form->fits) {
        outcome->peak_bytes = form->bytes;
        outcome->state = SEARCH_TOO_LARGE;
    } else if (search_tokens_per_s(e, outcome->bound.step_s) < o->floor_tokens_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
    } else {
        s->bound_scores[index] = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
        if (!task->opens)
            DT_TRY(dt_sim_heap_set(&s->sharpened, (uint32_t)index, s->bound_scores[index]));
    }
    tell_progress(s);
    return DT_OK;
}

/* A play costs by its passes, those of orders with halves several times; that few micro-batches fit by a recording of the model's blocks. A block's
 * recording takes as long as some twenty passes of a play. */
static bool plays_for_long(const struct experiment *e)
{
    const double passes_of_block = 20, recorded = 8; /* two ranks, two micro-batches for each stage, two steps */
    double passes = (double)e->strategy.stages * e->strategy.window * (e->strategy.order->halves ? 5 : 1);
    return passes > passes_of_block * recorded * e->model.layers;
}

/* First what is soonest told: whether few micro-batches fit, or the time in which the order is played. */
static dt_status play(struct search *s, const struct experiment *e, const struct bound *bound, struct short_form *out)
{
    *out = (struct short_form){.exists = true, .fits = true};
    if (plays_for_long(e))
        DT_TRY(short_forms_fit(s->shorts, e, out));
    return out->fits ? pipeline_played_s(e, &bound->passes, &out->step_s) : DT_OK;
}

/* By less than its whole simulation. task->look is then LOOK_WHOLE where nothing else is left to look at. The lock is held, but for what
 * takes long. */
static dt_status look_shortly(struct search *s, struct task *task, const struct experiment *e)
{
    struct bound bound = s->result->outcomes[task->index].bound;
    struct short_form form;
    bool plays = task->look == LOOK_PLAYED && e->strategy.stages > 1;
    pthread_mutex_unlock(&s->lock);
    dt_status status = plays ? play(s, e, &bound, &form) : short_forms_find(s->shorts, e, &bound, &form);
    pthread_mutex_lock(&s->lock);
    DT_TRY(status);
    task->look = plays ? LOOK_SHORT : LOOK_WHOLE;
    if (!form.exists)
        return DT_OK;
    status = note_short_form(s, task, e, &form);
    if (!task->opens || s->result->outcomes[task->index].state != SEARCH_NOT_NEEDED)
        task->index = -1; /* it waits for its turn, or is out */
    return status;
}

static void simulate_and_note(struct search *s, int index, const struct experiment *e)
{
    struct measure_result result;
    pthread_mutex_unlock(&s->lock);
    dt_status status = simulate(s, e, true, &result);
    pthread_mutex_lock(&s->lock);
    note(s, index, e, status, &result);
    measure_result_finish(&result);
}

/* What did not fit says what need not be tried. */
static void note_opening(struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    struct family *family = &s->first_round[s->families[index]];
    family->busy = false;
    family->opened = outcome->state == SEARCH_SIMULATED || outcome->state == SEARCH_TOO_SLOW;
    family->most_bytes = LESS * outcome->bound.bytes;
}

void search_do(struct search *s, struct task task, struct experiment *e)
{
    int index = task.index;
    dt_status status = DT_OK;
    s->result->outcomes[index].peak_bytes = 0; /* taken */
    space_experiment(s->space, space_candidate(s->space, index), e);
    if (task.look != LOOK_WHOLE)
        status = look_shortly(s, &task, e);
    if (status < 0)
        note_failure(s, status);
    else if (task.index >= 0)
        simulate_and_note(s, index, e);
    if (task.opens)
        note_opening(s, index);
}

void search_save(struct search *s, struct experiment *e)
{
    enum { TRIES = 12, OF_BEST = 4 };
    double most_bytes = s->result->capacity_bytes;
    for (int tries = 0; tries < TRIES && isnan(s->best_tokens_per_s) && s->failure == DT_OK; tries++) {
        int index = search_easiest(s, -1, most_bytes, tries >= OF_BEST);
        if (index < 0)
            continue;
        struct measure_result result;
        space_experiment(s->space, space_candidate(s->space, index), e);
        dt_status status = simulate(s, e, false, &result);
        note(s, index, e, status, &result);
        measure_result_finish(&result);
        most_bytes = LESS * s->result->outcomes[index].bound.bytes;
    }
}
