#include "lib/config/json.h"
#include "schedules/predict/symmetry.h"
#include "schedules/search/search_parts.h"
#include "schedules/search/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* AT_LEAST: candidates that get a bound however early a search is stopped, so that there is something to choose from. */
enum { AT_A_TIME = 32, AT_LEAST = 512 };

/* Experiments whose bounds are alike in quality: those of a pipeline are farther from their steps than those of DDP. */
static int find_family(const struct experiment *e)
{
    return 4 * (int)e->paradigm + 2 * (e->strategy.stages > 1) + (e->tensor.size > 1);
}

static uint64_t find_kind(const struct experiment *e)
{
    const struct mesh_shape *mesh = &e->strategy.mesh;
    const int paradigm = (int)e->paradigm;
    return dt_hash_fnv1a_more(dt_hash_fnv1a(&paradigm, sizeof paradigm), mesh->size, sizeof mesh->size);
}

/* What a simulation takes, by the passes of a micro-batch through a block, on each rank that is there (schedules/predict/symmetry.h). Those of
 * the first level take a tenth of a second. */
static int find_level(const struct search *s, const struct experiment *e)
{
    const double of_first = 2048;
    int level = 0;
    double passes = (double)symmetric_part_count(e, s->system) * e->strategy.micro_batches * e->model.layers / e->strategy.stages;
    for (double most = of_first; passes > most && level + 1 < LEVELS; most *= 4)
        level++;
    return level;
}

/* asked: whether anything but its paradigm is asked for, which is told of all. */
static dt_status find_bound(struct search *s, struct bounds *bounds, int index, bool asked, struct experiment *e)
{
    const struct search_options *o = s->options;
    struct search_outcome *outcome = &s->result->outcomes[index];
    space_experiment(s->space, space_candidate(s->space, index), e);
    outcome->paradigm = (uint8_t)e->paradigm;
    outcome->kind = find_kind(e);
    s->families[index] = (uint8_t)find_family(e);
    if (!asked || (o->wanted && !o->wanted(o->what, e)))
        return DT_OK;
    s->levels[index] = (uint8_t)find_level(s, e);
    DT_TRY(bounds_find(bounds, e, &outcome->bound));
    s->bound_scores[index] = search_score(o->objective, e, outcome->bound.step_s, outcome->bound.bytes);
    if (o->all_simulated)
        return DT_OK;
    if (outcome->bound.bytes > s->result->capacity_bytes)
        outcome->state = SEARCH_TOO_LARGE;
    else if (search_tokens_per_s(e, outcome->bound.step_s) < o->floor_tokens_per_s)
        outcome->state = SEARCH_TOO_SLOW;
    return DT_OK;
}

struct batch {
    int first, count;
    bool stopped;
};

/* The next few, counted in an order that jumps: who stops early has seen some of all kinds. */
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

static int greatest_divisor(int a, int b)
{
    return b == 0 ? a : greatest_divisor(b, a % b);
}

/* The step of a walk through `count` candidates that visits each one once. It is near the golden section of count, so that each visit is far
 * from all earlier ones. */
static int jump_of(int count)
{
    int jump = (int)(0.618 * count) + 1;
    while (greatest_divisor(jump, count) != 1)
        jump++;
    return jump;
}

static dt_status find_some(struct search *s, struct bounds *bounds, struct experiment *e)
{
    int all = s->result->count, jump = jump_of(all);
    for (struct batch batch = take_batch(s); batch.count > 0; batch = take_batch(s)) {
        bool asked = !batch.stopped || (batch.first < AT_LEAST && !s->options->only_best);
        for (int i = batch.first; i < batch.first + batch.count; i++)
            DT_TRY(find_bound(s, bounds, (int)((int64_t)i * jump % all), asked, e));
    }
    return DT_OK;
}

/* Each thread has bounds of its own, and all share the recordings. */
static void *work(void *context)
{
    struct search *s = context;
    struct bounds *bounds = NULL;
    struct experiment *e = malloc(sizeof *e);
    dt_status status =
        e ? bounds_create(s->base, s->machine, s->recordings, &bounds) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    if (status == DT_OK)
        status = find_some(s, bounds, e);
    pthread_mutex_lock(&s->lock);
    if (status < 0 && s->failure == DT_OK) {
        s->failure = status;
        snprintf(s->error, sizeof s->error, "%s", dt_error_message());
    }
    pthread_mutex_unlock(&s->lock);
    bounds_destroy(bounds);
    free(e);
    return NULL;
}

dt_status search_find_bounds(struct search *s)
{
    struct search_result *r = s->result;
    for (int i = 0; i < r->count; i++) {
        struct search_outcome *outcome = &r->outcomes[i];
        outcome->step_s = outcome->tokens_per_s = outcome->peak_bytes = outcome->host_peak_bytes = s->scores[i] = NAN;
        s->bound_scores[i] = INFINITY;
    }
    r->capacity_bytes = bounds_capacity_bytes(s->machine, s->system);
    threads_run(s->options->threads, work, s);
    return s->failure < 0 ? dt_fail(s->failure, "%s", s->error) : DT_OK;
}
