#include "lib/base/clock.h"
#include "lib/base/divisor.h"
#include "lib/base/machine.h"
#include "lib/config/json.h"
#include "predict/search/search.h"
#include "predict/search/search_parts.h"
#include "predict/symmetry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int threads_of(const struct search *s)
{
    return s->options->threads > 0 ? s->options->threads : dt_machine_processors();
}

/* ---- bounds ---- */

/* AT_LEAST: candidates that get a bound however early a search is stopped, so that there is a
 * choice. */
enum { AT_A_TIME = 32, AT_LEAST = 512 };

static uint64_t find_kind(const struct experiment *e)
{
    const struct mesh_shape *mesh = &e->strategy.mesh;
    const int paradigm = (int)e->paradigm;
    return dt_hash_fnv1a_more(dt_hash_fnv1a(&paradigm, sizeof paradigm), mesh->size, sizeof mesh->size);
}

/* The effort of a simulation, estimated from its number of passes of a micro-batch through a block,
 * over all simulated ranks (predict/symmetry.h). Simulations of the first level take a tenth of a
 * second. */
static int find_level(const struct search *s, const struct experiment *e)
{
    const double of_first = 2048;
    int level = 0;
    double passes =
        (double)symmetric_part_count(e, s->system) * e->strategy.micro_batches * dt_model_blocks(&e->model) / e->strategy.stages;
    for (double most = of_first; passes > most && level + 1 < LEVELS; most *= 4)
        level++;
    return level;
}

/* asked false: find only the candidate's paradigm and kind, not its bound. */
static dt_status find_bound(struct search *s, struct bounds *bounds, int index, bool asked)
{
    struct experiment experiment, *e = &experiment;
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    space_experiment(s->space, index, e);
    outcome->paradigm = (uint8_t)e->paradigm;
    outcome->kind = find_kind(e);
    /* Bounds of a family are about equally close to the simulated time: a pipeline's are less close
     * than DDP's. */
    s->all[index].family = (uint8_t)(4 * (int)e->paradigm + 2 * (e->strategy.stages > 1) + (e->tensor.size > 1));
    if (!asked || (o->wanted && !o->wanted(o->what, e)))
        return DT_OK;
    s->all[index].level = (uint8_t)find_level(s, e);
    DT_TRY(bounds_find(bounds, e, &outcome->bound));
    s->all[index].bound_score = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
    if (o->all_simulated)
        return DT_OK;
    if (outcome->bound.bytes > s->result->capacity_bytes)
        outcome->state = SEARCH_TOO_LARGE;
    else if (search_units_per_s(e, outcome->bound.step_s) < o->floor_units_per_s)
        outcome->state = SEARCH_TOO_SLOW;
    return DT_OK;
}

struct batch {
    int first, count;
    bool stopped;
};

/* Take the next few candidates, in an order that jumps, so that a search that stops early has seen
 * candidates of all kinds. */
static struct batch take_batch(struct search *s)
{
    pthread_mutex_lock(&s->lock);
    int left = s->failure < 0 ? 0 : s->result->count - s->bounded;
    s->stopped = s->stopped || search_is_stopped(s);
    struct batch batch = {s->bounded, left < AT_A_TIME ? left : AT_A_TIME, s->stopped};
    s->bounded += batch.count;
    pthread_mutex_unlock(&s->lock);
    return batch;
}

/* The step of a walk through `count` candidates that visits each one once. It is near the golden
 * section of count, so that each visit is far from all earlier ones. */
static int jump_of(int count)
{
    int jump = (int)(0.618 * count) + 1;
    while (dt_common_divisor(jump, count) != 1)
        jump++;
    return jump;
}

static dt_status find_some(struct search *s, struct bounds *bounds)
{
    int all = s->result->count, jump = jump_of(all);
    for (struct batch batch = take_batch(s); batch.count > 0; batch = take_batch(s)) {
        bool asked = !batch.stopped || (batch.first < AT_LEAST && !s->options->only_best);
        for (int i = batch.first; i < batch.first + batch.count; i++)
            DT_TRY(find_bound(s, bounds, (int)((int64_t)i * jump % all), asked));
    }
    return DT_OK;
}

/* Each thread has its own bounds, and all share the recordings. */
static void *find_bounds_of_some(void *context)
{
    struct search *s = context;
    struct bounds *bounds = NULL;
    dt_status status = bounds_create(s->base, s->machine, s->options->recordings, &bounds);
    DT_THEN(status, find_some(s, bounds));
    pthread_mutex_lock(&s->lock);
    if (status < 0)
        search_note_failure(s, status);
    pthread_mutex_unlock(&s->lock);
    bounds_destroy(bounds);
    return NULL;
}

/* Find the bounds of all candidates on all threads; a search that is stopped has found some of all
 * kinds. Errors: as bounds_find. */
static dt_status find_bounds(struct search *s)
{
    struct search_result *r = s->result;
    for (int i = 0; i < r->count; i++) {
        struct search_outcome *outcome = &r->outcomes[i];
        outcome->step_s = outcome->units_per_s = outcome->peak_bytes = outcome->host_peak_bytes = s->all[i].score = NAN;
        s->all[i].bound_score = INFINITY;
    }
    r->capacity_bytes = bounds_capacity_bytes(s->machine, s->system);
    dt_threads_run(threads_of(s), find_bounds_of_some, s);
    return s->failure < 0 ? dt_fail(s->failure, "%s", s->error) : DT_OK;
}

/* ---- the order of candidates ---- */

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

/* Sort the candidates by their bounds, or by their scores without those that have none (NAN), into
 * `out` [*kept]. */
static dt_status sort_candidates(const struct search *s, bool by_bound, int *out, int *kept)
{
    int count = s->result->count;
    DT_FREED struct ordered *ordered = malloc(((size_t)count + 1) * sizeof *ordered);
    *kept = 0;
    DT_TRY(dt_allocated(ordered, "no host memory for %d candidates", count));
    for (int i = 0; i < count; i++) {
        double score = by_bound ? s->all[i].bound_score : s->all[i].score;
        if (!isnan(score))
            ordered[(*kept)++] = (struct ordered){score, i};
    }
    qsort(ordered, (size_t)*kept, sizeof *ordered, by_score);
    for (int i = 0; i < *kept; i++)
        out[i] = ordered[i].index;
    return DT_OK;
}

/* The lowest levels are sorted together by bound: if bounds are close to the simulated times, the
 * best are then found soonest. Then level by level. */
static dt_status order_candidates(struct search *s)
{
    int all, count = s->result->count, placed = 0;
    DT_FREED int *by_bound = malloc(((size_t)count + 1) * sizeof *by_bound);
    dt_status status =
        by_bound ? sort_candidates(s, true, by_bound, &all) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d candidates", count);
    for (int level = LEVEL_OF_FIRST; status == DT_OK && level < LEVELS; level++) {
        for (int i = 0; i < all; i++)
            if (s->all[by_bound[i]].level == level || (level == LEVEL_OF_FIRST && s->all[by_bound[i]].level < level))
                s->order[placed++] = by_bound[i];
        s->level_end[level] = placed;
    }
    return status;
}

static dt_status prepare(struct search *s)
{
    DT_TRY(simulated_system_create_on(s->machine, s->base, &s->system));
    DT_TRY(short_forms_create(s->machine, bounds_capacity_bytes(s->machine, s->system), &s->shorts));
    DT_TRY(find_bounds(s));
    for (int f = 0; f < FAMILIES; f++)
        s->first_round[f].most_bytes = s->result->capacity_bytes;
    return order_candidates(s);
}

/* ---- on all threads ---- */

static void *work(void *context)
{
    struct search *s = context;
    pthread_mutex_lock(&s->lock);
    for (struct task task = search_next(s); task.index >= 0; task = search_next(s))
        search_do(s, task);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- reports on paradigms that do not fit ---- */

/* For a paradigm without a result: simulate the candidate with the smallest bound of memory, for the
 * exact bytes of its fullest GPU, and if these fit, which other memory is too small. */
static dt_status find_shortage(struct search *s, enum paradigm_kind paradigm)
{
    const struct measure_hooks hooks = {.context = s, .stop_requested = search_is_stopped};
    struct search_result *r = s->result;
    struct measure_result result;
    struct experiment e;
    int least = -1;
    for (int i = 0; i < r->count; i++)
        if (r->outcomes[i].paradigm == paradigm && (least < 0 || r->outcomes[i].bound.bytes < r->outcomes[least].bound.bytes))
            least = i;
    if (least < 0 || s->has_result[paradigm])
        return DT_OK;
    space_experiment(s->space, least, &e);
    dt_status status = search_simulate(s->machine, &e, &hooks, &result);
    r->least_bytes[paradigm] = simulated_peak_bytes(&result);
    if (status == DT_ERR_OOM && r->least_bytes[paradigm] <= r->capacity_bytes)
        snprintf(r->short_of[paradigm], SEARCH_SHORT_BYTES, "%.*s", SEARCH_SHORT_BYTES - 1, dt_error_message());
    measure_result_finish(&result);
    s->stopped |= status == DT_ERR_INTERRUPTED;
    return status == DT_ERR_OOM || status == DT_ERR_INTERRUPTED ? DT_OK : status;
}

/* Keep only the first of several twins in the ranking. Twins have equal scores, so they are close
 * to each other. */
static void drop_twins(struct search *s)
{
    struct search_result *r = s->result;
    int left = 0;
    for (int i = 0; i < r->ranked; i++) {
        int index = r->ranking[i], k = left;
        while (k > 0 && s->all[r->ranking[k - 1]].score == s->all[index].score && !search_are_twins(s, r->ranking[k - 1], index))
            k--;
        if (k == 0 || s->all[r->ranking[k - 1]].score != s->all[index].score)
            r->ranking[left++] = index;
    }
    r->ranked = left;
}

/* Move the best candidate of each kind to the beginning, and keep the order otherwise. */
static dt_status put_kinds_first(struct search *s)
{
    struct search_result *r = s->result;
    int left = 0;
    DT_FREED int *others = malloc(((size_t)r->ranked + 1) * sizeof *others);
    DT_TRY(dt_allocated(others, "no host memory for %d candidates", r->ranked));
    for (int i = 0; i < r->ranked; i++) {
        int k = 0, index = r->ranking[i];
        while (k < r->kinds && r->outcomes[r->ranking[k]].kind != r->outcomes[index].kind)
            k++;
        if (k < r->kinds)
            others[left++] = index;
        else
            r->ranking[r->kinds++] = index;
    }
    memcpy(r->ranking + r->kinds, others, (size_t)left * sizeof *others);
    return DT_OK;
}

static bool is_best_proved(const struct search *s)
{
    const struct search_result *r = s->result;
    bool proved = r->ranked > 0 && s->bounded >= r->count;
    for (int i = 0; s->stopped && proved && i < r->count; i++)
        proved = r->outcomes[i].state != SEARCH_NOT_NEEDED ||
                 (isfinite(s->all[i].bound_score) && s->all[i].bound_score >= s->all[r->ranking[0]].score);
    return proved;
}

static dt_status conclude(struct search *s)
{
    struct search_result *r = s->result;
    for (int p = 0; paradigm_of((enum paradigm_kind)p) && !s->stopped && !s->options->only_best; p++)
        DT_TRY(find_shortage(s, (enum paradigm_kind)p));
    memset(r->states, 0, sizeof r->states);
    for (int i = 0; i < r->count; i++)
        r->states[r->outcomes[i].state]++;
    r->interrupted = s->stopped;
    DT_TRY(sort_candidates(s, false, r->ranking, &r->ranked));
    r->best_proved = is_best_proved(s);
    if (!s->options->all_simulated)
        drop_twins(s);
    if (s->options->diverse)
        return put_kinds_first(s);
    r->kinds = r->ranked;
    return DT_OK;
}

/* ---- the whole search ---- */

static dt_status run(struct search *s)
{
    DT_TRY(prepare(s));
    dt_threads_run(threads_of(s), work, s);
    if (s->stopped && isnan(s->best_units_per_s) && !s->options->only_best)
        search_save(s); /* after an early stop, some tenths of a second are spent to find at least one result */
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
                       .worst_kept = options->better_than > 0 ? options->better_than : INFINITY,
                       .best_units_per_s = NAN,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = (struct search_result){.count = (int)count};
    out->outcomes = calloc(count, sizeof *out->outcomes);
    out->ranking = calloc(count, sizeof *out->ranking);
    s.level = LEVEL_OF_FIRST;
    s.all = calloc(count, sizeof *s.all);
    s.order = calloc(count, sizeof *s.order);
    s.kept = calloc((size_t)options->top, sizeof *s.kept);
    dt_status status = out->outcomes && out->ranking && s.all && s.order && s.kept
                           ? run(&s)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %zu candidates", count);
    free(s.all);
    free(s.order);
    free(s.kept);
    short_forms_destroy(s.shorts);
    simulated_system_destroy(s.system);
    dt_heap_finish(&s.sharpened);
    out->seconds = dt_clock_s() - begun_s;
    return status;
}

void search_result_finish(struct search_result *result)
{
    free(result->outcomes);
    free(result->ranking);
    *result = (struct search_result){0};
}
