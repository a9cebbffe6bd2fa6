#include "schedules/search/search.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "schedules/config/parse.h"
#include "schedules/predict/simulation.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, TRIES_OF_PARADIGM = 16 };

/* A candidate with few micro-batches, and what it needs. */
struct short_form {
    char hash[17];
    double bytes;
};

struct search {
    const struct space *space;
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct search_options *options;
    struct search_result *result;
    double *bound_scores, *scores; /* [count]; scores: NAN before the simulation */
    int *order;                    /* [count] by bound */

    pthread_mutex_t lock; /* of all below, and of the result */
    int next;             /* of the order */
    double worst_kept;    /* score of the last of the `top` best; INFINITY: fewer are known */
    double *kept;         /* [top] their scores, ascending */
    int kept_count;
    int later[PARADIGM_COUNT], tries[PARADIGM_COUNT]; /* of the second round: where it is in the order */
    bool has_result[PARADIGM_COUNT];
    struct short_form *shorts; /* [short_count] */
    int short_count;
    int done, simulated;
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

/* The same with as few micro-batches as show what a rank holds: one for each stage of a pipeline, or the two of which the second begins with
 * what the first has left. More never need less, since all that is held is held by them, too. False where there are no more. */
static bool shorten(struct experiment *e)
{
    struct mesh_shape mesh = experiment_mesh(e);
    int stages = mesh.size[MESH_PIPELINE], few = stages > 1 ? stages : 2;
    int micro_batches = e->micro_batches * (stages > 1 ? e->pipeline.chunks : 1);
    if (micro_batches <= few || e->batch_size * few % micro_batches != 0)
        return false;
    e->batch_size = e->batch_size * few / micro_batches;
    e->micro_batches = stages > 1 ? 1 : few;
    e->pipeline.chunks = stages > 1 ? few : e->pipeline.chunks;
    return true;
}

/* Of the first and the last stage, which have most micro-batches at a time, and the head. */
static dt_status record_ends(struct search *s, const struct experiment *e, double *out)
{
    struct simulated_system *system;
    int last = 0;
    *out = 0;
    while (experiment_rank_of_kind(e, last + 1) >= 0)
        last++;
    DT_TRY(simulated_system_create_on(s->machine, e, &system));
    dt_status status = DT_OK;
    for (int end = 0; end < (last > 0 ? 2 : 1) && status == DT_OK; end++) {
        struct dt_memory_usage usage;
        status = simulation_predict_memory(e, system, experiment_rank_of_kind(e, end ? last : 0), &usage);
        if (status == DT_OK)
            *out = fmax(*out, (double)usage.device.peak_total_bytes);
    }
    simulated_system_destroy(system);
    return status;
}

/* Bytes that a candidate with many micro-batches needs at least; 0 where only all of it tells. Candidates of the same shortened form share
 * one recording. Takes the lock for a moment. */
static dt_status least_bytes(struct search *s, const struct experiment *e, double *out)
{
    struct experiment few = *e;
    *out = 0;
    if (!shorten(&few))
        return DT_OK;
    DT_TRY(experiment_resolve(&few, NULL, "a shortened experiment"));
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->short_count && *out == 0; i++)
        if (strcmp(s->shorts[i].hash, few.hash) == 0)
            *out = s->shorts[i].bytes;
    pthread_mutex_unlock(&s->lock);
    if (*out > 0)
        return DT_OK;
    DT_TRY(record_ends(s, &few, out));
    pthread_mutex_lock(&s->lock);
    struct short_form *grown = realloc(s->shorts, ((size_t)s->short_count + 1) * sizeof *grown);
    if (grown) {
        s->shorts = grown;
        grown[s->short_count] = (struct short_form){.bytes = *out};
        memcpy(grown[s->short_count++].hash, few.hash, sizeof few.hash);
    }
    pthread_mutex_unlock(&s->lock);
    return DT_OK;
}

static bool is_stopped(void *context)
{
    struct search *s = context;
    return s->options->stop && s->options->stop(s->options->context);
}

/* *large: it was not simulated, since it needs at least so many bytes. */
static dt_status simulate(struct search *s, const struct experiment *e, double *large, struct measure_result *result)
{
    struct measure_hooks hooks = {.context = s, .stop_requested = is_stopped};
    struct simulated_system *system;
    *result = (struct measure_result){0};
    DT_TRY(least_bytes(s, e, large));
    if (*large > s->result->capacity_bytes)
        return DT_OK;
    *large = 0;
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

/* The lock is held. */
static void note(struct search *s, int index, const struct experiment *e, dt_status status, double large,
                 const struct measure_result *result)
{
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    double device = 0, host = 0;
    for (int i = 0; i < result->rank_count; i++) {
        device = fmax(device, (double)result->ranks[i].memory.device.peak_total_bytes);
        host = fmax(host, (double)result->ranks[i].memory.host.peak_total_bytes);
    }
    outcome->peak_bytes = fmax(device, large);
    outcome->host_peak_bytes = host;
    if (status == DT_OK && large > 0) {
        outcome->state = SEARCH_TOO_LARGE;
        s->done++;
        return;
    }
    if (status == DT_OK) {
        note_result(s, index, e, result);
    } else if (status == DT_ERR_OOM) {
        outcome->state = SEARCH_OUT_OF_MEMORY;
    } else if (status == DT_ERR_INTERRUPTED) {
        s->stopped = true;
        return;
    } else {
        outcome->state = SEARCH_FAILED;
        s->failure = s->failure < 0 ? s->failure : status;
        snprintf(s->error, sizeof s->error, "%s", dt_error_message());
    }
    s->done++;
    if (o->done)
        o->done(o->context, e, status, dt_error_message(), result);
    s->simulated += status == DT_OK;
    struct search_progress progress = {s->result->count, s->done, s->simulated, s->best_tokens_per_s};
    if (o->progress)
        o->progress(o->context, &progress);
}

/* ---- which is next ---- */

static bool is_open(const struct search *s, int index)
{
    const struct search_outcome *outcome = &s->result->outcomes[index];
    return outcome->state == SEARCH_NOT_NEEDED && isnan(outcome->peak_bytes);
}

/* A paradigm that has no result yet: its next candidate by bound, a few times. -1: there is none. */
static int pick_for_paradigm(struct search *s, enum paradigm_kind paradigm)
{
    while (!s->has_result[paradigm] && s->tries[paradigm] < TRIES_OF_PARADIGM && s->later[paradigm] < s->result->count) {
        int index = s->order[s->later[paradigm]++];
        if (s->result->outcomes[index].paradigm == paradigm && is_open(s, index)) {
            s->tries[paradigm]++;
            return index;
        }
    }
    return -1;
}

/* -1: nothing is left to do. The lock is held. */
static int pick(struct search *s)
{
    if (s->stopped || s->failure < 0)
        return -1;
    while (s->next < s->result->count) {
        int index = s->order[s->next];
        if (!s->options->all_simulated && s->bound_scores[index] > s->worst_kept)
            break;
        s->next++;
        if (is_open(s, index))
            return index;
        s->done++;
    }
    for (int p = 0; p < PARADIGM_COUNT && !s->options->only_best; p++) {
        int index = pick_for_paradigm(s, (enum paradigm_kind)p);
        if (index >= 0)
            return index;
    }
    return -1;
}

static void *work(void *context)
{
    struct search *s = context;
    struct experiment *e = malloc(sizeof *e);
    pthread_mutex_lock(&s->lock);
    for (int index; e && (index = pick(s)) >= 0;) {
        struct measure_result result;
        s->result->outcomes[index].peak_bytes = 0; /* taken */
        pthread_mutex_unlock(&s->lock);
        space_experiment(s->space, space_candidate(s->space, index), e);
        double large = 0;
        dt_status status = simulate(s, e, &large, &result);
        pthread_mutex_lock(&s->lock);
        note(s, index, e, status, large, &result);
        measure_result_finish(&result);
    }
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
    s.kept = calloc((size_t)options->top, sizeof *s.kept);
    dt_status status = DT_OK;
    if (!out->outcomes || !out->ranking || !s.bound_scores || !s.scores || !s.order || !s.kept)
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %zu candidates", count);
    for (size_t i = 0; status == DT_OK && i < count; i++)
        s.scores[i] = NAN;
    if (status == DT_OK)
        status = run(&s);
    free(s.bound_scores);
    free(s.scores);
    free(s.order);
    free(s.kept);
    free(s.shorts);
    out->seconds = dt_clock_s() - begun_s;
    return status;
}

void search_result_finish(struct search_result *result)
{
    free(result->outcomes);
    free(result->ranking);
    *result = (struct search_result){0};
}
