#include "schedules/search/search.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/sim/heap.h"
#include "schedules/config/parse.h"
#include "schedules/predict/simulation.h"
#include "schedules/search/short_form.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, TRIES_OF_PARADIGM = 16, FAMILIES = 4 * PARADIGM_COUNT };

/* How closely a candidate is looked at: each tells more than the one before, and takes longer. */
enum look {
    LOOK_PLAYED, /* a pipeline's order is played (pipeline_fill.h) */
    LOOK_SHORT,  /* a simulation of few micro-batches (short_form.h) */
    LOOK_WHOLE,  /* of all */
};

struct search {
    const struct space *space;
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct search_options *options;
    struct search_result *result;
    double *bound_scores, *scores; /* [count]; scores: NAN before the simulation */
    int *order;                    /* [count] by bound */
    uint8_t *families;             /* [count] of find_family */
    uint8_t *looks;                /* [count] enum look: which is next */
    struct short_forms *shorts;

    pthread_mutex_t lock;         /* of all below, and of the result */
    int opening;                  /* of the order: where the first round is */
    bool opened[FAMILIES];        /* one of the family is simulated, or about to be */
    int next;                     /* of the order */
    struct dt_sim_heap sharpened; /* candidates by better bounds than those of the order, that wait for their simulation */
    double worst_kept;            /* score of the last of the `top` best; INFINITY: fewer are known */
    double *kept;                 /* [top] their scores, ascending */
    int kept_count;
    int later[PARADIGM_COUNT], tries[PARADIGM_COUNT]; /* of the second round: where it is in the order */
    bool has_result[PARADIGM_COUNT];
    int simulated;
    double best_tokens_per_s;
    bool stopped;
    dt_status failure;
    char error[1024];
};

double search_score(enum search_objective objective, const struct experiment *e, double step_s, double bytes)
{
    double tokens = (double)experiment_global_batch(e) * e->model.block_size;
    switch (objective) {
    case SEARCH_MEMORY: return bytes;
    case SEARCH_COST: return e->world_size * step_s / tokens;
    default: return step_s / tokens;
    }
}

static double tokens_per_s(const struct experiment *e, double step_s)
{
    return (double)experiment_global_batch(e) * e->model.block_size / step_s;
}

/* Experiments whose bounds are alike in quality: those of a pipeline are farther from their steps than those of DDP. */
static int find_family(const struct experiment *e)
{
    return 4 * (int)e->paradigm + 2 * (experiment_stages(e) > 1) + (e->tensor.size > 1);
}

/* ---- bounds of all ---- */

static dt_status find_bounds(struct search *s, struct bounds *bounds, struct experiment *e)
{
    const struct search_options *o = s->options;
    s->result->capacity_bytes = bounds_capacity_bytes(bounds);
    for (int i = 0; i < s->result->count; i++) {
        struct search_outcome *outcome = &s->result->outcomes[i];
        if (o->stop && o->stop(o->context)) {
            s->stopped = true;
            return DT_OK;
        }
        space_experiment(s->space, space_candidate(s->space, i), e);
        outcome->paradigm = (uint8_t)e->paradigm;
        s->families[i] = (uint8_t)find_family(e);
        outcome->step_s = outcome->tokens_per_s = outcome->peak_bytes = outcome->host_peak_bytes = s->scores[i] = NAN;
        DT_TRY(bounds_find(bounds, e, &outcome->bound));
        s->bound_scores[i] = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
        if (o->all_simulated)
            continue;
        if (outcome->bound.bytes > s->result->capacity_bytes)
            outcome->state = SEARCH_TOO_LARGE;
        else if (o->objective == SEARCH_MEMORY && tokens_per_s(e, outcome->bound.step_s) < o->floor_tokens_per_s)
            outcome->state = SEARCH_TOO_SLOW;
    }
    return DT_OK;
}

struct ordered {
    double score;
    int index;
};

static int by_score(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->index - b->index;
}

/* indices [count], those with a score of NAN left out; *kept of them are sorted into `out`. */
static dt_status sort_indices(const double *scores, int count, int *out, int *kept)
{
    struct ordered *ordered = malloc(((size_t)count + 1) * sizeof *ordered);
    *kept = 0;
    if (!ordered)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d candidates", count);
    for (int i = 0; i < count; i++)
        if (!isnan(scores[i]))
            ordered[(*kept)++] = (struct ordered){scores[i], i};
    qsort(ordered, (size_t)*kept, sizeof *ordered, by_score);
    for (int i = 0; i < *kept; i++)
        out[i] = ordered[i].index;
    free(ordered);
    return DT_OK;
}

static dt_status prepare(struct search *s)
{
    struct bounds *bounds = NULL;
    struct experiment *e = malloc(sizeof *e);
    int all;
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    dt_status status = bounds_create(s->base, s->machine, &bounds);
    if (status == DT_OK)
        status = find_bounds(s, bounds, e);
    bounds_destroy(bounds);
    free(e);
    DT_TRY(status);
    return s->stopped ? DT_OK : sort_indices(s->bound_scores, s->result->count, s->order, &all);
}

/* ---- one candidate ---- */

static bool is_stopped(void *context)
{
    struct search *s = context;
    return s->options->stop && s->options->stop(s->options->context);
}

static dt_status simulate(struct search *s, const struct experiment *e, struct measure_result *result)
{
    struct measure_hooks hooks = {.context = s, .stop_requested = is_stopped};
    struct simulated_system *system;
    *result = (struct measure_result){0};
    DT_TRY(simulated_system_create_on(s->machine, e, &system));
    dt_status status = simulation_run_symmetric(e, system, &hooks, result);
    simulated_system_destroy(system);
    return status;
}

static void keep_score(struct search *s, double score)
{
    int at = s->kept_count;
    if (score >= s->worst_kept)
        return;
    if (s->kept_count < s->options->top)
        s->kept_count++;
    else
        at--;
    for (; at > 0 && s->kept[at - 1] > score; at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = score;
    if (s->kept_count == s->options->top)
        s->worst_kept = s->kept[s->kept_count - 1];
}

static void note_result(struct search *s, int index, const struct experiment *e, const struct measure_result *result)
{
    struct search_outcome *outcome = &s->result->outcomes[index];
    outcome->step_s = result->step_s[result->steps_done - 1];
    outcome->tokens_per_s = tokens_per_s(e, outcome->step_s);
    outcome->step = result->metrics.step;
    outcome->state = SEARCH_SIMULATED;
    s->has_result[outcome->paradigm] = true;
    if (s->options->objective == SEARCH_MEMORY && outcome->tokens_per_s < s->options->floor_tokens_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
        return;
    }
    s->scores[index] = search_score(s->options->objective, e, outcome->step_s, outcome->peak_bytes);
    keep_score(s, s->scores[index]);
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

/* What looking at it by less than its whole simulation gave; `next` is the look that tells more. The lock is held. */
static dt_status note_short_form(struct search *s, int index, const struct experiment *e, const struct short_form *form, enum look next)
{
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    s->looks[index] = (uint8_t)next;
    outcome->bound.bytes = fmax(outcome->bound.bytes, form->bytes);
    outcome->bound.step_s = fmax(outcome->bound.step_s, form->step_s);
    if (!form->fits) {
        outcome->peak_bytes = form->bytes;
        outcome->state = SEARCH_TOO_LARGE;
    } else if (o->objective == SEARCH_MEMORY && tokens_per_s(e, outcome->bound.step_s) < o->floor_tokens_per_s) {
        outcome->state = SEARCH_TOO_SLOW;
    } else {
        s->bound_scores[index] = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
        DT_TRY(dt_sim_heap_set(&s->sharpened, (uint32_t)index, s->bound_scores[index]));
    }
    tell_progress(s);
    return DT_OK;
}

/* ---- which is next ---- */

static bool is_open(const struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    return outcome->state == SEARCH_NOT_NEEDED && isnan(outcome->peak_bytes);
}

/* A candidate to do something about. */
struct task {
    int index; /* -1: nothing is left to do */
    enum look look;
};

#define NO_TASK ((struct task){-1, LOOK_WHOLE})

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
        if (s->result->outcomes[index].paradigm == paradigm && is_open(s, index)) {
            s->tries[paradigm]++;
            return (struct task){index, LOOK_SHORT};
        }
    }
    return NO_TASK;
}

/* The first round: the best bound of each family. Without it, what has loose bounds would come first for long, and a search that is stopped
 * early would know nothing of the rest. */
static struct task pick_opening(struct search *s)
{
    while (s->opening < s->result->count) {
        int index = s->order[s->opening++];
        if (s->opened[s->families[index]] || !is_open(s, index))
            continue;
        s->opened[s->families[index]] = true;
        return (struct task){index, LOOK_WHOLE};
    }
    return NO_TASK;
}

/* The first round, and then the lowest bound first, whether it is a sharpened one or not. The lock is held. */
static struct task pick(struct search *s)
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

/* By less than its whole simulation. task->look is then LOOK_WHOLE where nothing else is left to look at. The lock is held, but for what
 * takes long. */
static dt_status look_shortly(struct search *s, struct task *task, const struct experiment *e)
{
    struct bound bound = s->result->outcomes[task->index].bound;
    struct short_form form = {.exists = true, .fits = true};
    bool plays = task->look == LOOK_PLAYED && experiment_stages(e) > 1;
    pthread_mutex_unlock(&s->lock);
    dt_status status = plays ? pipeline_played_s(e, &bound.passes, &form.step_s) : short_forms_find(s->shorts, e, &bound, &form);
    pthread_mutex_lock(&s->lock);
    DT_TRY(status);
    task->look = plays ? LOOK_SHORT : LOOK_WHOLE;
    if (!form.exists)
        return DT_OK;
    status = note_short_form(s, task->index, e, &form, task->look);
    task->index = -1; /* it waits for its turn */
    return status;
}

/* The same. */
static void do_task(struct search *s, struct task task, struct experiment *e)
{
    dt_status status = DT_OK;
    s->result->outcomes[task.index].peak_bytes = 0; /* taken */
    space_experiment(s->space, space_candidate(s->space, task.index), e);
    if (task.look != LOOK_WHOLE)
        status = look_shortly(s, &task, e);
    if (status < 0)
        note_failure(s, status);
    if (status < 0 || task.index < 0)
        return;
    pthread_mutex_unlock(&s->lock);
    struct measure_result result;
    status = simulate(s, e, &result);
    pthread_mutex_lock(&s->lock);
    note(s, task.index, e, status, &result);
    measure_result_finish(&result);
}

static void *work(void *context)
{
    struct search *s = context;
    struct experiment *e = malloc(sizeof *e);
    struct task task;
    pthread_mutex_lock(&s->lock);
    for (task = pick(s); e && task.index >= 0; task = pick(s))
        do_task(s, task, e);
    if (!e)
        s->failure = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    pthread_mutex_unlock(&s->lock);
    free(e);
    return NULL;
}

static void work_on_all_threads(struct search *s)
{
    pthread_t threads[MOST_THREADS];
    int started = 0, wanted = s->options->threads > 0 ? s->options->threads : dt_machine_processors();
    for (; started + 1 < wanted && started < MOST_THREADS; started++)
        if (pthread_create(&threads[started], NULL, work, s) != 0)
            break;
    work(s); /* this thread too, so that there is always one */
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* ---- what is told of paradigms that do not fit ---- */

static dt_status exact_bytes(const struct search *s, const struct experiment *e, double *out)
{
    struct simulated_system *system;
    *out = 0;
    DT_TRY(simulated_system_create_on(s->machine, e, &system));
    dt_status status = DT_OK;
    for (int kind = 0, rank; status == DT_OK && (rank = experiment_rank_of_kind(e, kind)) >= 0; kind++) {
        struct dt_memory_usage usage;
        status = simulation_predict_memory(e, system, rank, &usage);
        if (status == DT_OK)
            *out = fmax(*out, (double)usage.device.peak_total_bytes);
    }
    simulated_system_destroy(system);
    return status;
}

/* Of a paradigm without a result: the candidate with the least bound. */
static dt_status find_least_bytes(struct search *s, enum paradigm_kind paradigm, struct experiment *e)
{
    int least = -1;
    for (int i = 0; i < s->result->count; i++) {
        const struct search_outcome *outcome = &s->result->outcomes[i];
        if (outcome->paradigm == paradigm && (least < 0 || outcome->bound.bytes < s->result->outcomes[least].bound.bytes))
            least = i;
    }
    if (least < 0 || s->has_result[paradigm])
        return DT_OK;
    space_experiment(s->space, space_candidate(s->space, least), e);
    return exact_bytes(s, e, &s->result->least_bytes[paradigm]);
}

static dt_status conclude(struct search *s)
{
    struct search_result *r = s->result;
    struct experiment *e = malloc(sizeof *e);
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    dt_status status = DT_OK;
    for (int p = 0; p < PARADIGM_COUNT && status == DT_OK && !s->stopped && !s->options->only_best; p++)
        status = find_least_bytes(s, (enum paradigm_kind)p, e);
    free(e);
    DT_TRY(status);
    memset(r->states, 0, sizeof r->states);
    for (int i = 0; i < r->count; i++)
        r->states[r->outcomes[i].state]++;
    r->interrupted = s->stopped;
    return sort_indices(s->scores, r->count, r->ranking, &r->ranked);
}

/* ---- all of it ---- */

static dt_status run(struct search *s)
{
    DT_TRY(prepare(s));
    DT_TRY(short_forms_create(s->machine, s->result->capacity_bytes, is_stopped, s, &s->shorts));
    if (!s->stopped)
        work_on_all_threads(s);
    if (s->failure < 0)
        return dt_fail(s->failure, "%s", s->error);
    return conclude(s);
}

dt_status search_run(const struct space *space, const struct experiment *base, const struct simulated_machine *machine,
                     const struct search_options *options, struct search_result *out)
{
    double begun_s = dt_clock_s();
    size_t count = (size_t)space_count(space);
    struct search s = {.space = space,
                       .base = base,
                       .machine = machine,
                       .options = options,
                       .result = out,
                       .worst_kept = INFINITY,
                       .best_tokens_per_s = NAN,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = (struct search_result){.count = (int)count};
    out->outcomes = calloc(count, sizeof *out->outcomes);
    out->ranking = calloc(count, sizeof *out->ranking);
    s.bound_scores = calloc(count, sizeof *s.bound_scores);
    s.scores = calloc(count, sizeof *s.scores);
    s.order = calloc(count, sizeof *s.order);
    s.families = calloc(count, sizeof *s.families);
    s.looks = calloc(count, sizeof *s.looks);
    s.kept = calloc((size_t)options->top, sizeof *s.kept);
    dt_status status = DT_OK;
    if (!out->outcomes || !out->ranking || !s.bound_scores || !s.scores || !s.order || !s.families || !s.looks || !s.kept)
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %zu candidates", count);
    for (size_t i = 0; status == DT_OK && i < count; i++)
        s.scores[i] = NAN;
    if (status == DT_OK)
        status = run(&s);
    free(s.bound_scores);
    free(s.scores);
    free(s.order);
    free(s.families);
    free(s.looks);
    free(s.kept);
    short_forms_destroy(s.shorts);
    dt_sim_heap_finish(&s.sharpened);
    out->seconds = dt_clock_s() - begun_s;
    return status;
}

void search_result_finish(struct search_result *result)
{
    free(result->outcomes);
    free(result->ranking);
    *result = (struct search_result){0};
}
