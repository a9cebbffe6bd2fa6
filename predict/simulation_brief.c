#include "predict/simulation.h"

#include <math.h>

/* If the pipeline is full, and the host stays ahead of its device or stays behind it, each further
 * micro-batch takes the same time. If three steps of few micro-batches show otherwise, since the
 * host's queue is still filling up, the step is simulated whole. */

enum { FEWEST = 4, WORTH_IT = 8 }; /* micro-batches of the shortest step; the whole step must have WORTH_IT times as many */
static const double ALIKE = 1e-6;  /* as a part of a step's time */

bool simulation_take_few(struct experiment *e, int few)
{
    int micro_batches = e->strategy.micro_batches;
    int64_t ranks_samples = (int64_t)e->batch_size * few, samples = experiment_replica_samples(e) * few;
    bool divides = ranks_samples % micro_batches == 0;
    if (micro_batches <= few || samples % micro_batches != 0)
        return false;
    e->replica_samples = e->replica_samples || !divides ? (int)(samples / micro_batches) : 0;
    e->batch_size = (int)((ranks_samples + micro_batches - 1) / micro_batches);
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

dt_status simulation_run_brief(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                               struct measure_result *result)
{
    int stages = e->strategy.stages, few = stages > FEWEST ? stages : FEWEST, left = e->strategy.micro_batches / few - 3;
    double step_s[3];
    struct experiment whole = *e;
    bool drains_once = stages == 1 || e->strategy.order->drains == ORDER_DRAINS_STEPS;
    bool brief = drains_once && left >= WORTH_IT - 3 && simulation_take_few(&whole, few);
    for (int i = 0; brief && i < 3; i++) {
        dt_status status = run_few(e, s, (i + 1) * few, hooks, result, &step_s[i]);
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
    result->step_s[result->steps_done - 1] += each * ((double)e->strategy.micro_batches / few - 3);
    return DT_OK;
}
