#include "predict/search/search.h"

#include "predict/simulation.h"

#include <math.h>

double search_score(enum search_objective objective, const struct experiment *e, double step_s, double bytes)
{
    double tokens = (double)experiment_global_batch(e) * dt_model_units(&e->model);
    switch (objective) {
    case SEARCH_MEMORY: return bytes;
    case SEARCH_COST:
    case SEARCH_ENERGY: return e->world_size * step_s / tokens;
    case SEARCH_TOKENS: break;
    }
    return step_s / tokens;
}

double search_units_per_s(const struct experiment *e, double step_s)
{
    return (double)experiment_global_batch(e) * dt_model_units(&e->model) / step_s;
}

double search_training_s(const struct experiment *e, const struct search_outcome *outcome, double units)
{
    struct dt_metrics times;
    double steps = units / (outcome->units_per_s * outcome->step_s);
    training_time_predict(e, &outcome->storage, steps, steps * outcome->step_s, &times);
    return times.training_s;
}

double search_floor_rate(const struct search_options *options, const struct experiment *e, const struct search_outcome *outcome)
{
    return options->floor_units > 0 ? options->floor_units / search_training_s(e, outcome, options->floor_units) : outcome->units_per_s;
}

dt_status search_simulate(const struct simulated_machine *machine, const struct experiment *e, const struct measure_hooks *hooks,
                          struct measure_result *out)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    *out = (struct measure_result){0};
    DT_TRY(simulated_system_create_on(machine, e, &system));
    return simulation_run_symmetric(e, system, hooks, out);
}
