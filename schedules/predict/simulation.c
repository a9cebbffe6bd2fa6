#include "schedules/predict/simulation.h"

#include "lib/sim/engine.h"
#include "lib/sim/transport.h"
#include "schedules/predict/simulation_ranks.h"
#include "schedules/predict/simulation_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status train_dry(const struct experiment *e, const struct simulated_system *system, int rank, struct simulated_role *role)
{
    DT_TRY(simulated_role_create(e, system, &system->device, rank, role));
    for (int step = 0; step < RECORDED_STEPS; step++)
        DT_TRY(trainer_step(role->trainer, step));
    return DT_OK;
}

dt_status simulation_predict_memory(const struct experiment *e, const struct simulated_system *system, int rank,
                                    struct dt_memory_usage *out)
{
    struct simulated_role role;
    struct experiment with_framework = *e;
    simulated_system_apply(system, &with_framework);
    dt_status status = train_dry(&with_framework, system, rank, &role);
    if (status == DT_OK)
        dt_memory_usage(role.device, out);
    simulated_role_finish(&role);
    return status;
}

/* ---- does it fit? ---- */

static dt_status check_memory(const struct experiment *e, const struct simulated_system *s, const struct measure_result *result)
{
    char need[DT_MEMORY_TEXT], has[DT_MEMORY_TEXT];
    uint64_t on_node = 0;
    double node_bytes = s->cluster.host.memory_gib * 0x1p30;
    bool limited = e->memory_limit_bytes && s->memory_bytes == e->memory_limit_bytes;
    for (int i = 0; i < result->rank_count; i++) {
        const struct dt_memory_usage *usage = &result->ranks[i].memory;
        if (!simulated_system_fits(s, usage->device.peak_total_bytes))
            return dt_fail(DT_ERR_OOM, "rank %d needs %s, and of %s %.4g GiB profile %s leaves %s", i,
                           dt_memory_text(usage->device.peak_total_bytes, need), limited ? "memory_limit_gib's" : "a GPU's",
                           limited ? e->memory_limit_gib : s->cluster.gpu.memory_gib, e->profile,
                           dt_memory_text((uint64_t)((double)s->memory_bytes / (1 + s->costs.profile.memory.fragmentation)), has));
        if (e->host_memory_limit_bytes && usage->host.peak_total_bytes > e->host_memory_limit_bytes)
            return dt_fail(DT_ERR_OOM, "rank %d needs %s of host memory and the host memory limit is %s", i,
                           dt_memory_text(usage->host.peak_total_bytes, need), dt_memory_text(e->host_memory_limit_bytes, has));
        on_node = i % s->placement.ranks_per_node == 0 ? usage->host.peak_total_bytes : on_node + usage->host.peak_total_bytes;
        if (node_bytes > 0 && (double)on_node > node_bytes)
            return dt_fail(DT_ERR_OOM, "the ranks of node %d need %s of host memory, and it has %s", i / s->placement.ranks_per_node,
                           dt_memory_text(on_node, need), dt_memory_text((uint64_t)node_bytes, has));
    }
    return DT_OK;
}

/* fsdp's units are freed while other streams still use them, and their memory cannot be used again until those are done: a host that runs
 * ahead keeps many of them waiting. Where the device is full of them the allocator gives memory back to the driver and asks for it again,
 * for each unit, which waits for the device. Source  PyTorch 1.11, c10/cuda/CUDACachingAllocator.cpp: recordStream, free_cached_blocks. */
static bool short_of_memory(const struct experiment *e, const struct simulated_system *s, const struct measure_result *result)
{
    const struct gpt_cost_profile *p = &s->costs.profile;
    double most = 0, whole = (double)dt_model_parameter_count(&e->model) * (double)dt_dtype_bytes(e->model.dtype);
    for (int i = 0; i < result->rank_count; i++)
        most = fmax(most, (double)result->ranks[i].memory.device.peak_total_bytes);
    return p->memory.full_at > 0 && e->paradigm == PARADIGM_FSDP &&
           most + p->memory.in_flight * whole > p->memory.full_at * s->cluster.gpu.memory_gib * 0x1p30;
}

static dt_status record_short_of_memory(const struct experiment *e, const struct simulated_system *s, bool each,
                                        const struct measure_hooks *hooks, struct simulated_ranks *ranks)
{
    const struct gpt_cost_profile *p = &s->costs.profile;
    struct dt_sim_device device = s->device;
    device.gather_host_s_per_byte = 1e-9 * p->memory.reallocation_s_per_gb * pow(e->world_size, p->memory.reallocation_spread);
    simulated_ranks_finish(ranks);
    return simulated_ranks_record(e, s, &device, each, hooks->stop_requested, hooks->context, ranks);
}

/* ---- one step in virtual time ---- */

struct replay {
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct dt_sim_transport transport;
    struct dt_sim_engine *engine;
};

static void replay_finish(struct replay *replay)
{
    dt_sim_engine_destroy(replay->engine);
    dt_sim_links_destroy(replay->links);
    dt_sim_network_destroy(replay->network);
}

/* All ranks' programs of `step`, on the cluster. After a failure too, replay_finish. */
static dt_status replay_create(const struct simulated_system *s, const struct simulated_ranks *r, int step,
                               const struct dt_sim_collector *collector, struct replay *out)
{
    int group;
    *out = (struct replay){0};
    DT_TRY(dt_sim_network_create(&out->network));
    DT_TRY(dt_sim_links_create(&s->cluster, &s->placement, out->network, &out->links));
    out->transport = dt_sim_links_transport(out->links);
    DT_TRY(dt_sim_engine_create(r->world_size, out->network, &out->transport, collector, &out->engine));
    for (int g = 0; g < r->group_count; g++) /* numbered in order, as here */
        DT_TRY(dt_sim_engine_add_group(out->engine, r->groups[g].name, r->groups[g].ranks, r->groups[g].count, &group));
    for (int i = 0; i < r->world_size; i++)
        DT_TRY(dt_sim_engine_set_program(out->engine, i, r->roles[r->ranks[i].role].steps[step], r->ranks[i].groups));
    return DT_OK;
}

/* Each rank's events give its phases, through the trainer that recorded them. Nothing is computed, so no gradient is known. event_s: room
 * for the events of any role. */
static dt_status metrics_of_rank(const struct replay *replay, const struct simulated_ranks *r, int rank, double *event_s,
                                 struct dt_step_metrics *out)
{
    const struct simulated_role *role = &r->roles[r->ranks[rank].role];
    for (uint32_t event = 0; event < role->steps[RECORDED_STEPS - 1]->event_count; event++)
        event_s[event] = dt_sim_engine_event_s(replay->engine, rank, event);
    dt_sim_replayed(role->device, event_s);
    dt_step_metrics_init(out);
    return trainer_phases(role->trainer, out);
}

static dt_status collect_metrics(const struct replay *replay, const struct simulated_ranks *r, struct dt_step_metrics *out)
{
    uint32_t most = 0;
    for (int i = 0; i < r->role_count; i++)
        most = r->roles[i].steps[RECORDED_STEPS - 1]->event_count > most ? r->roles[i].steps[RECORDED_STEPS - 1]->event_count : most;
    double *event_s = malloc(((size_t)most + 1) * sizeof *event_s);
    struct dt_step_metrics *of_rank = malloc((size_t)r->world_size * sizeof *of_rank);
    dt_status status =
        event_s && of_rank ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %u events of %d ranks", most, r->world_size);
    for (int i = 0; i < r->world_size && status == DT_OK; i++)
        status = metrics_of_rank(replay, r, i, event_s, &of_rank[i]);
    if (status == DT_OK)
        dt_metrics_over_ranks(of_rank, sizeof *of_rank, r->world_size, out);
    free(of_rank);
    free(event_s);
    return status;
}

/* metrics: of the last recorded step; NULL: not asked for. */
static dt_status replay_collected(const struct simulated_system *s, const struct simulated_ranks *r, int step,
                                  const struct dt_sim_collector *collector, double *seconds, struct dt_step_metrics *metrics)
{
    struct replay replay;
    dt_status status = replay_create(s, r, step, collector, &replay);
    if (status < 0)
        goto done;
    status = dt_sim_engine_run(replay.engine);
    if (status < 0)
        goto done;
    *seconds = dt_sim_engine_end_s(replay.engine, -1);
    if (metrics)
        status = collect_metrics(&replay, r, metrics);
done:
    replay_finish(&replay);
    return status;
}

/* The same; trace: a file, NULL for none. */
static dt_status replay_step(const struct simulated_system *s, const struct simulated_ranks *r, int step, const char *trace,
                             double *seconds, struct dt_step_metrics *metrics)
{
    struct simulation_trace *writer = NULL;
    struct dt_sim_collector collector = {0};
    if (trace)
        DT_TRY(simulation_trace_open(trace, s, r->world_size, &writer, &collector));
    dt_status status = replay_collected(s, r, step, &collector, seconds, metrics);
    dt_status written = simulation_trace_close(writer);
    return status < 0 ? status : written;
}

/* ---- the whole run ---- */

static dt_status allocate_result(const struct experiment *e, struct measure_result *result)
{
    *result = (struct measure_result){
        .step_s = calloc((size_t)e->steps.timed + 1, sizeof(double)),
        .losses = calloc((size_t)e->steps.warmup + (size_t)e->steps.timed + 1, sizeof(double)),
        .rank_count = e->world_size,
        .ranks = calloc((size_t)e->world_size, sizeof *result->ranks),
    };
    dt_metrics_init(&result->metrics);
    bool complete = result->step_s && result->losses && result->ranks;
    return complete ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the results of %d ranks", e->world_size);
}

/* Steps before the last recorded one are as long as theirs, all later ones as long as that. Nothing is computed, so no loss is known. */
static void fill_steps(const struct experiment *e, const double seconds[RECORDED_STEPS], const struct measure_hooks *hooks,
                       struct measure_result *result)
{
    for (int i = 0; i < e->steps.warmup + e->steps.timed; i++) {
        double step_s = seconds[i < RECORDED_STEPS ? i : RECORDED_STEPS - 1];
        result->losses[result->losses_done++] = NAN;
        if (i >= e->steps.warmup)
            result->step_s[result->steps_done++] = step_s;
        if (hooks->step_done)
            hooks->step_done(hooks->context, i - e->steps.warmup, step_s, NAN);
    }
}

static dt_status replay_steps(const struct experiment *e, const struct simulated_system *s, const struct simulated_ranks *r,
                              const struct measure_hooks *hooks, struct measure_result *result)
{
    double seconds[RECORDED_STEPS];
    bool alike = true;
    for (int i = 0; i < r->role_count; i++)
        alike &= r->roles[i].alike;
    DT_TRY(replay_step(s, r, RECORDED_STEPS - 1, hooks->trace, &seconds[RECORDED_STEPS - 1], &result->metrics.step));
    if (s->costs.profile.host.runs_ahead) { /* two steps were recorded together, the second beginning before the first is over */
        DT_TRY(replay_step(s, r, 0, NULL, &seconds[0], NULL));
        seconds[1] -= seconds[0];
        fill_steps(e, seconds, hooks, result);
        return DT_OK;
    }
    for (int step = 0; step < RECORDED_STEPS - 1; step++) {
        seconds[step] = seconds[RECORDED_STEPS - 1];
        if (!alike)
            DT_TRY(replay_step(s, r, step, NULL, &seconds[step], NULL));
    }
    fill_steps(e, seconds, hooks, result);
    return DT_OK;
}

static dt_status predict(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                         struct simulated_ranks *ranks, struct measure_result *result)
{
    bool each = hooks->trace != NULL;
    DT_TRY(allocate_result(e, result));
    DT_TRY(simulated_ranks_record(e, s, &s->device, each, hooks->stop_requested, hooks->context, ranks));
    for (int i = 0; i < e->world_size; i++)
        result->ranks[i].memory = ranks->roles[ranks->ranks[i].role].memory;
    DT_TRY(check_memory(e, s, result));
    if (short_of_memory(e, s, result))
        DT_TRY(record_short_of_memory(e, s, each, hooks, ranks));
    if (hooks->ready)
        hooks->ready(hooks->context, 0);
    return replay_steps(e, s, ranks, hooks, result);
}

dt_status simulation_run(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                         struct measure_result *result)
{
    static const struct measure_hooks no_hooks = {0};
    struct simulated_ranks ranks = {0};
    struct experiment with_framework = *e;
    simulated_system_apply(s, &with_framework);
    dt_status status = predict(&with_framework, s, hooks ? hooks : &no_hooks, &ranks, result);
    simulated_ranks_finish(&ranks);
    return status;
}
