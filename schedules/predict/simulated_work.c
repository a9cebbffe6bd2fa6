#include "schedules/predict/simulated_work.h"

#include "schedules/predict/simulation_ranks.h"

#include <stdlib.h>
#include <string.h>

static bool works(const struct dt_sim_program *program, const struct dt_sim_op *op, const char *stream)
{
    bool is_work = op->kind == DT_SIM_WORK || op->kind == DT_SIM_SHARED_WORK;
    return is_work && strcmp(program->stream_names[op->stream], stream) == 0;
}

/* An event's moment is the work that was issued before it, as if nothing were ever waited for: moments [event_count]. */
static double add_up(const struct dt_sim_program *program, struct dt_sim_moment *moments)
{
    double seconds = 0;
    for (size_t i = 0; i < program->op_count; i++) {
        const struct dt_sim_op *op = &program->ops[i];
        if (works(program, op, "compute"))
            seconds += op->amount;
        if (op->kind == DT_SIM_RECORD)
            moments[op->target] = (struct dt_sim_moment){.at_s = seconds};
    }
    return seconds;
}

static dt_status measure(struct simulated_role *role, struct simulated_work *out)
{
    const struct dt_sim_program *program = role->steps[0];
    struct timeline_times times;
    struct dt_sim_moment *moments = calloc((size_t)program->event_count + 1, sizeof *moments);
    if (!moments)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %u events", program->event_count);
    out->compute_s = add_up(program, moments);
    dt_sim_replayed(role->device, moments);
    dt_status status = trainer_times(role->trainer, &times);
    out->forward_s = status == DT_OK ? 1e-9 * (double)times.phase_ns[TIMELINE_FORWARD] : 0;
    free(moments);
    return status;
}

static dt_status record(const struct experiment *e, const struct simulated_system *s, int rank, struct simulated_role *role,
                        struct simulated_work *out)
{
    DT_TRY(simulated_role_create(e, s, &s->device, rank, 0, role));
    DT_TRY(dt_sim_record_start(role->device, true));
    dt_status status = trainer_step(role->trainer, 0);
    dt_status finished = dt_sim_record_finish(role->device, &role->steps[0]);
    DT_TRY(status);
    DT_TRY(finished);
    for (size_t i = 0; i < role->steps[0]->op_count; i++)
        out->host_s += role->steps[0]->ops[i].host_s;
    dt_memory_usage(role->device, &out->memory);
    return measure(role, out);
}

dt_status simulated_work_record(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                struct simulated_work *out)
{
    struct simulated_role role;
    struct experiment with_framework = *experiment;
    *out = (struct simulated_work){0};
    simulated_system_apply(system, &with_framework);
    dt_status status = record(&with_framework, system, rank, &role, out);
    simulated_role_finish(&role);
    return status;
}
