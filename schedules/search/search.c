#include "schedules/search/search.h"

#include "lib/base/clock.h"
#include "schedules/predict/simulation.h"
#include "schedules/search/recordings.h"
#include "schedules/search/search_parts.h"
#include "schedules/search/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Those of the lowest levels together by bound: where bounds are near what is simulated, the best are found soonest so. Then level by level. */
static dt_status order_candidates(struct search *s)
{
    int all, count = s->result->count, placed = 0, *by_bound = malloc(((size_t)count + 1) * sizeof *by_bound);
    dt_status status = by_bound ? sort_indices(s->bound_scores, count, by_bound, &all)
                                : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d candidates", count);
    for (int level = LEVEL_OF_FIRST; status == DT_OK && level < LEVELS; level++) {
        for (int i = 0; i < all; i++)
            if (s->levels[by_bound[i]] == level || (level == LEVEL_OF_FIRST && s->levels[by_bound[i]] < level))
                s->order[placed++] = by_bound[i];
        s->level_end[level] = placed;
    }
    free(by_bound);
    return status;
}

static dt_status prepare(struct search *s)
{
    DT_TRY(simulated_system_create_on(s->machine, s->base, &s->system));
    if (!s->recordings)
        DT_TRY(recordings_create(s->base, s->machine, &s->own_recordings));
    s->recordings = s->recordings ? s->recordings : s->own_recordings;
    DT_TRY(short_forms_create(s->machine, bounds_capacity_bytes(s->machine, s->system), search_is_stopped, s, &s->shorts));
    DT_TRY(search_find_bounds(s));
    for (int f = 0; f < FAMILIES; f++)
        s->first_round[f].most_bytes = s->result->capacity_bytes;
    return order_candidates(s);
}

/* ---- on all threads ---- */

static void *work(void *context)
{
    struct search *s = context;
    struct experiment *e = malloc(sizeof *e);
    struct task task;
    pthread_mutex_lock(&s->lock);
    for (task = search_next(s); e && task.index >= 0; task = search_next(s))
        search_do(s, task, e);
    if (!e)
        s->failure = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    pthread_mutex_unlock(&s->lock);
    free(e);
    return NULL;
}

/* Who stops a plan early has a few tenths of a second left for something to hold. */
static dt_status save(struct search *s)
{
    struct experiment *e = malloc(sizeof *e);
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    pthread_mutex_lock(&s->lock);
    search_save(s, e);
    pthread_mutex_unlock(&s->lock);
    free(e);
    return DT_OK;
}

/* ---- what is told of paradigms that do not fit ---- */

/* The exact bytes of its fullest GPU, and what it lacks where they suffice. */
static dt_status find_shortage(struct search *s, enum paradigm_kind paradigm, const struct experiment *e)
{
    const struct measure_hooks hooks = {.context = s, .stop_requested = search_is_stopped};
    struct simulated_system *system;
    struct measure_result result;
    double bytes = 0;
    DT_TRY(simulated_system_create_on(s->machine, e, &system));
    dt_status status = simulation_run_symmetric(e, system, &hooks, &result);
    for (int i = 0; i < result.rank_count; i++)
        bytes = fmax(bytes, (double)result.ranks[i].memory.device.peak_total_bytes);
    s->result->least_bytes[paradigm] = bytes;
    if (status == DT_ERR_OOM && bytes <= s->result->capacity_bytes)
        snprintf(s->result->short_of[paradigm], SEARCH_SHORT_BYTES, "%.*s", SEARCH_SHORT_BYTES - 1, dt_error_message());
    measure_result_finish(&result);
    simulated_system_destroy(system);
    s->stopped |= status == DT_ERR_INTERRUPTED;
    return status == DT_ERR_OOM || status == DT_ERR_INTERRUPTED ? DT_OK : status;
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
    return find_shortage(s, paradigm, e);
}

/* Of twins the first one stays in the ranking: they have the same score, so that they are near each other there. */
static void drop_twins(struct search *s)
{
    struct search_result *r = s->result;
    int left = 0;
    for (int i = 0; i < r->ranked; i++) {
        int index = r->ranking[i], k = left;
        while (k > 0 && s->scores[r->ranking[k - 1]] == s->scores[index] && !search_are_twins(s, r->ranking[k - 1], index))
            k--;
        if (k == 0 || s->scores[r->ranking[k - 1]] != s->scores[index])
            r->ranking[left++] = index;
    }
    r->ranked = left;
}

/* The best of each kind to the beginning, in their order. */
static dt_status put_kinds_first(struct search *s)
{
    struct search_result *r = s->result;
    int *others = malloc(((size_t)r->ranked + 1) * sizeof *others), left = 0;
    if (!others)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d candidates", r->ranked);
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
    free(others);
    return DT_OK;
}

static bool is_best_proved(const struct search *s)
{
    const struct search_result *r = s->result;
    bool proved = r->ranked > 0 && s->bounded >= r->count;
    for (int i = 0; s->stopped && proved && i < r->count; i++)
        proved =
            r->outcomes[i].state != SEARCH_NOT_NEEDED || (isfinite(s->bound_scores[i]) && s->bound_scores[i] >= s->scores[r->ranking[0]]);
    return proved;
}

static dt_status conclude(struct search *s)
{
    struct search_result *r = s->result;
    struct experiment *e = malloc(sizeof *e);
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    dt_status status = DT_OK;
    for (int p = 0; paradigm_of((enum paradigm_kind)p) && status == DT_OK && !s->stopped && !s->options->only_best; p++)
        status = find_least_bytes(s, (enum paradigm_kind)p, e);
    free(e);
    DT_TRY(status);
    memset(r->states, 0, sizeof r->states);
    for (int i = 0; i < r->count; i++)
        r->states[r->outcomes[i].state]++;
    r->interrupted = s->stopped;
    DT_TRY(sort_indices(s->scores, r->count, r->ranking, &r->ranked));
    r->best_proved = is_best_proved(s);
    if (!s->options->all_simulated)
        drop_twins(s);
    if (s->options->diverse)
        return put_kinds_first(s);
    r->kinds = r->ranked;
    return DT_OK;
}

/* ---- all of it ---- */

static dt_status run(struct search *s)
{
    DT_TRY(prepare(s));
    threads_run(s->options->threads, work, s);
    if (s->stopped && isnan(s->best_tokens_per_s) && !s->options->only_best)
        DT_TRY(save(s));
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
                       .recordings = options->recordings,
                       .result = out,
                       .worst_kept = options->better_than > 0 ? options->better_than : INFINITY,
                       .best_tokens_per_s = NAN,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = (struct search_result){.count = (int)count};
    out->outcomes = calloc(count, sizeof *out->outcomes);
    out->ranking = calloc(count, sizeof *out->ranking);
    s.level = LEVEL_OF_FIRST;
    s.bound_scores = calloc(count, sizeof *s.bound_scores);
    s.scores = calloc(count, sizeof *s.scores);
    s.order = calloc(count, sizeof *s.order);
    s.families = calloc(count, sizeof *s.families);
    s.levels = calloc(count, sizeof *s.levels);
    s.looks = calloc(count, sizeof *s.looks);
    s.kept = calloc((size_t)options->top, sizeof *s.kept);
    dt_status status = DT_OK;
    if (!out->outcomes || !out->ranking || !s.bound_scores || !s.scores || !s.order || !s.families || !s.levels || !s.looks || !s.kept)
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %zu candidates", count);
    if (status == DT_OK)
        status = run(&s);
    free(s.bound_scores);
    free(s.scores);
    free(s.order);
    free(s.families);
    free(s.levels);
    free(s.looks);
    free(s.kept);
    short_forms_destroy(s.shorts);
    simulated_system_destroy(s.system);
    recordings_destroy(s.own_recordings);
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
