#include "predict/search/search.h"

#include "predict/simulation.h"
#include "schedules/config/parse.h"
#include "schedules/data_parallel/mode.h"
#include "schedules/plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Facts about a short form; step_s: 0: it was not simulated. */
struct known {
    bool fits;
    double bytes, step_s;
};

struct short_forms {
    const struct simulated_machine *machine;
    double capacity_bytes;
    bool (*stop)(void *context);
    void *context;
    struct once *known; /* of struct known */
};

dt_status short_forms_create(const struct simulated_machine *machine, double capacity_bytes, bool (*stop)(void *context), void *context,
                             struct short_forms **out)
{
    struct short_forms *f = calloc(1, sizeof *f);
    *out = f;
    DT_TRY(dt_allocated(f, "no host memory for short forms"));
    *f = (struct short_forms){.machine = machine, .capacity_bytes = capacity_bytes, .stop = stop, .context = context};
    return once_create(sizeof(struct known), &f->known);
}

void short_forms_destroy(struct short_forms *f)
{
    if (f)
        once_destroy(f->known);
    free(f);
}

/* ---- making a short form ---- */

/* Reduce the experiment to few micro-batches: two, of which the second begins with what the first
 * has left; for a pipeline `of_stage` per stage. *left: micro-batches that the shorter experiment
 * lacks. False if it would lack none. */
static bool shorten(struct experiment *e, int of_stage, int *left)
{
    int stages = e->strategy.stages, few = stages > 1 ? of_stage * stages : 2;
    int micro_batches = e->strategy.micro_batches;
    *left = 0;
    if (fmod(e->batch_size * few, micro_batches) != 0 || !simulation_take_few(e, few))
        return false;
    *left = micro_batches - few;
    return true;
}

/* Whether the short form gives the time, too. The order must fill and drain once, so that each
 * further micro-batch takes the same time. And it must be worth it: a pipeline's short form is at
 * least an eighth of the longest experiment. */
static bool tells_time(const struct experiment *few, int left)
{
    int stages = few->strategy.stages;
    return stages == 1 || (few->strategy.order->drains == ORDER_DRAINS_STEPS && left >= 3 * stages);
}

/* Record the last and the first stage, which have the head and what a framework does after it, and
 * most micro-batches at a time. */
static dt_status record_ends(const struct short_forms *f, const struct experiment *e, struct known *out)
{
    struct simulated_system *system;
    int last = 0;
    while (experiment_rank_of_kind(e, last + 1) >= 0)
        last++;
    out->fits = true;
    DT_TRY(simulated_system_create_on(f->machine, e, &system));
    dt_status status = DT_OK;
    for (int end = last > 0 ? 1 : 0; end >= 0 && out->fits && status == DT_OK; end--) {
        struct dt_memory_usage usage;
        status = simulation_fits(e, system, experiment_rank_of_kind(e, end ? last : 0), f->capacity_bytes, &out->fits, &usage);
        out->bytes = fmax(out->bytes, out->fits ? (double)usage.device.peak_total_bytes : f->capacity_bytes);
    }
    simulated_system_destroy(system);
    return status;
}

static dt_status simulate(const struct short_forms *f, const struct experiment *e, struct known *out)
{
    const struct measure_hooks hooks = {.context = f->context, .stop_requested = f->stop};
    struct measure_result result;
    dt_status status = search_simulate(f->machine, e, &hooks, &result);
    out->bytes = search_peak_bytes(&result);
    if (status == DT_OK)
        out->step_s = result.step_s[result.steps_done - 1];
    out->fits = status == DT_OK;
    measure_result_finish(&result);
    return status == DT_ERR_OOM ? DT_OK : status;
}

struct question {
    const struct short_forms *forms;
    const struct experiment *experiment;
    bool time;
};

static dt_status make(void *context, void *value)
{
    const struct question *q = context;
    return (q->time ? simulate : record_ends)(q->forms, q->experiment, value);
}

/* `e` is a shortened experiment; this function resolves it. */
static dt_status find_known(struct short_forms *f, struct experiment *e, bool time, struct known *out)
{
    char key[sizeof e->hash + 1];
    DT_TRY(experiment_resolve(e, NULL, "a shortened experiment"));
    int bytes = snprintf(key, sizeof key, "%s%s", e->hash, time ? "t" : "");
    return once_find(f->known, key, (size_t)bytes, make, &(struct question){f, e, time}, out);
}

static dt_status find_memory(struct short_forms *f, struct experiment *shortened, struct short_form *out)
{
    struct known known;
    DT_TRY(find_known(f, shortened, false, &known));
    *out = (struct short_form){.exists = true, .fits = known.fits, .bytes = known.bytes};
    return DT_OK;
}

/* A pipeline's ranks are close to their peak with two micro-batches per stage, other ranks with the
 * second micro-batch. Simulating only the first and the last rank is faster than simulating all. */
dt_status short_forms_fit(struct short_forms *f, const struct experiment *e, struct short_form *out)
{
    struct experiment few = *e;
    int left;
    shorten(&few, 2, &left);
    return find_memory(f, &few, out);
}

/* Memory of a pipeline's first and last rank with all micro-batches: orders and frameworks may keep
 * something of each. */
static dt_status find_memory_of_all(struct short_forms *f, const struct experiment *e, struct short_form *out)
{
    struct experiment few = *e, all = *e;
    int left;
    return e->strategy.stages > 1 && shorten(&few, 2, &left) ? find_memory(f, &all, out) : DT_OK;
}

dt_status short_forms_find(struct short_forms *f, const struct experiment *e, const struct bound *bound, struct short_form *out)
{
    struct experiment few = *e;
    struct known known;
    int left;
    DT_TRY(short_forms_fit(f, e, out));
    if (out->fits)
        DT_TRY(find_memory_of_all(f, e, out));
    if (!out->fits || !shorten(&few, 1, &left) || !tells_time(&few, left))
        return DT_OK;
    DT_TRY(find_known(f, &few, true, &known));
    out->exists = true;
    out->fits = known.fits;
    out->bytes = fmax(out->bytes, known.bytes);
    if (known.step_s > 0)
        out->step_s = fmax(out->step_s, known.step_s + left * bound->micro_batch_s);
    return DT_OK;
}
