#include "schedules/predict/simulated_work.h"

#include "schedules/predict/simulation_ranks.h"

#include <string.h>

static double busy_s(const struct dt_sim_program *program, const char *stream)
{
    double seconds = 0;
    for (size_t i = 0; i < program->op_count; i++) {
        const struct dt_sim_op *op = &program->ops[i];
        bool works = op->kind == DT_SIM_WORK || op->kind == DT_SIM_SHARED_WORK;
        if (works && strcmp(program->stream_names[op->stream], stream) == 0)
            seconds += op->amount;
    }
    return seconds;
}

static dt_status record(const struct experiment *e, const struct simulated_system *s, int rank, struct simulated_role *role,
                        struct simulated_work *out)
{
    DT_TRY(simulated_role_create(e, s, &s->device, rank, role));
    DT_TRY(dt_sim_record_start(role->device, true));
    dt_status status = trainer_step(role->trainer, 0);
    dt_status finished = dt_sim_record_finish(role->device, &role->steps[0]);
    DT_TRY(status);
    DT_TRY(finished);
    out->compute_s = busy_s(role->steps[0], "compute");
    for (size_t i = 0; i < role->steps[0]->op_count; i++)
        out->host_s += role->steps[0]->ops[i].host_s;
    dt_memory_usage(role->device, &out->memory);
    return DT_OK;
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
