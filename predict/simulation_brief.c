#include "predict/simulation.h"

#include <math.h>

/* If the pipeline is full, and the host stays ahead of its device or stays behind it, each further
 * micro-batch takes the same time. If three steps of few micro-batches show otherwise, since the
 * host's queue is still filling up, the step is simulated whole. */

/* Micro-batches of the shortest step, how many more the next has, and those of the shortest coarse
 * one. */
enum { FEWEST = 4, MORE = 2, FEWEST_OF_ALL = 2 };
static const double ALIKE = 1e-7; /* as a part of a step's time */

bool simulation_take_few(struct experiment *e, int few)
{
    int micro_batches = e->strategy.micro_batches;
    if (micro_batches <= few || experiment_replica_samples(e) * few % micro_batches != 0)
        return false;
    e->batch_size = e->batch_size * few / micro_batches;
    e->micro_batches = e->strategy.stages > 1 ? 1 : few;
    e->pipeline.chunks = e->strategy.stages > 1 ? few : e->pipeline.chunks;
    experiment_settle(e);
    return true;
}

/* Simulate a step of few micro-batches. */
static dt_status run_few(const struct experiment *e, const struct simulated_system *s, int few, const struct measure_hooks *hooks,
                         struct measure_result *result, double *step_s)
{
    struct experiment brief = *e;
    simulation_take_few(&brief, few);
    dt_status status = simulation_run_symmetric(&brief, s, hooks, result);
    if (status == DT_OK)
        *step_s = result->step_s[result->steps_done - 1];
    return status;
}

static bool is_interleaved(const struct experiment *e)
{
    return e->strategy.stages > 1 && e->strategy.parts > 1;
}

/* Whether it fills and drains once, whatever the number of its micro-batches. */
static bool drains_once(const struct experiment *e)
{
    return e->strategy.stages == 1 || e->strategy.order->drains == ORDER_DRAINS_STEPS;
}

/* Several parts on a rank take micro-batches in groups of as many as there are stages. */
static int more_of(const struct experiment *e, int more)
{
    return is_interleaved(e) ? e->strategy.stages : more;
}

dt_status simulation_run_brief(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                               struct measure_result *result)
{
    int stages = e->strategy.stages, least = is_interleaved(e) ? stages : 1, more = more_of(e, MORE);
    int few = stages > FEWEST ? stages : (FEWEST + least - 1) / least * least, micro_batches = e->strategy.micro_batches;
    double step_s[3];
    struct experiment whole = *e;
    bool brief = drains_once(e) && micro_batches > 3 * (few + more) && simulation_take_few(&whole, few);
    for (int i = 0; brief && i < 3; i++) {
        dt_status status = run_few(e, s, few + i * more, hooks, result, &step_s[i]);
        if (status < 0)
            return status;
        if (i < 2)
            measure_result_finish(result);
    }
    if (!brief)
        return simulation_run_symmetric(e, s, hooks, result);
    double each = step_s[2] - step_s[1];
    if (fabs(each - (step_s[1] - step_s[0])) > ALIKE * step_s[2]) {
        measure_result_finish(result);
        return simulation_run_symmetric(e, s, hooks, result);
    }
    result->step_s[result->steps_done - 1] += each * ((double)(micro_batches - few) / more - 2);
    return DT_OK;
}

dt_status simulation_run_coarse(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                                struct measure_result *result)
{
    bool needs_stages = s->costs.profile.schedule.fewest_chunks && e->strategy.stages > FEWEST_OF_ALL;
    int few = more_of(e, needs_stages ? e->strategy.stages - 1 : FEWEST_OF_ALL), more = more_of(e, 1);
    int micro_batches = e->strategy.micro_batches;
    double shorter_s = 0, longer_s = 0;
    struct experiment whole = *e;
    if (!drains_once(e) || micro_batches <= 2 * few + more || !simulation_take_few(&whole, few))
        return simulation_run_symmetric(e, s, hooks, result);
    dt_status status = run_few(e, s, few, hooks, result, &shorter_s);
    if (status < 0)
        return status;
    measure_result_finish(result);
    DT_TRY(run_few(e, s, few + more, hooks, result, &longer_s));
    result->step_s[result->steps_done - 1] += (longer_s - shorter_s) * ((double)(micro_batches - few) / more - 1);
    return DT_OK;
}
