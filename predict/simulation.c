#include "predict/simulation.h"
#include "predict/profile.h"

#include "lib/sim/transport.h"
#include "predict/server_use.h"
#include "predict/simulation_ranks.h"
#include "predict/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status train_dry(const struct experiment *e, const struct simulated_system *system, int rank, uint64_t most_bytes,
                           struct simulated_role *role)
{
    DT_TRY(simulated_role_create(e, system, &system->device, rank, most_bytes, role));
    for (int step = 0; step < RECORDED_STEPS; step++)
        DT_TRY(trainer_step(role->trainer, step));
    return DT_OK;
}

/* *out is also set if memory did not suffice. */
static dt_status predict_memory(const struct experiment *e, const struct simulated_system *system, int rank, uint64_t most_bytes,
                                struct dt_memory_usage *out, struct step_traffic *traffic)
{
    struct simulated_role role;
    struct experiment with_framework = *e;
    simulated_system_apply(system, &with_framework);
    dt_status status = train_dry(&with_framework, system, rank, most_bytes, &role);
    if (status == DT_OK || status == DT_ERR_OOM)
        dt_memory_usage(role.device, out);
    if (status == DT_OK && traffic)
        trainer_traffic(role.trainer, traffic);
    simulated_role_finish(&role);
    return status;
}

dt_status simulation_predict_memory(const struct experiment *e, const struct simulated_system *system, int rank,
                                    struct dt_memory_usage *out, struct step_traffic *traffic)
{
    return predict_memory(e, system, rank, 0, out, traffic);
}

dt_status simulation_fits(const struct experiment *e, const struct simulated_system *system, int rank, double most_bytes, bool *fits,
                          struct dt_memory_usage *out)
{
    dt_status status = predict_memory(e, system, rank, (uint64_t)most_bytes, out, NULL);
    *fits = status == DT_OK;
    return status == DT_ERR_OOM ? DT_OK : status;
}

/* ---- the work of one rank ---- */

static bool computes(const struct dt_sim_program *program, const struct dt_sim_op *op)
{
    bool is_work = op->kind == DT_SIM_WORK || op->kind == DT_SIM_SHARED_WORK;
    return is_work && strcmp(program->stream_names[op->stream], "compute") == 0;
}

/* The time of an event is that of the work issued before it, as if no wait took time: moments
 * [event_count]. */
static double add_up(const struct dt_sim_program *program, struct dt_sim_moment *moments)
{
    double seconds = 0;
    for (size_t i = 0; i < program->op_count; i++) {
        const struct dt_sim_op *op = &program->ops[i];
        if (computes(program, op))
            seconds += op->amount;
        if (op->kind == DT_SIM_RECORD)
            moments[op->target] = (struct dt_sim_moment){.at_s = seconds};
    }
    return seconds;
}

static dt_status measure_work(struct simulated_role *role, struct simulated_work *out)
{
    const struct dt_sim_program *program = role->steps[0];
    struct timeline_times times;
    DT_FREED struct dt_sim_moment *moments = calloc((size_t)program->event_count + 1, sizeof *moments);
    DT_TRY(dt_allocated(moments, "no host memory for %u events", program->event_count));
    out->compute_s = add_up(program, moments);
    dt_sim_replayed(role->device, moments);
    DT_TRY(timeline_collect(trainer_timeline(role->trainer), &times));
    out->forward_s = 1e-9 * (double)times.phase_ns[TIMELINE_FORWARD];
    return DT_OK;
}

static dt_status record_work(const struct experiment *e, const struct simulated_system *s, int rank, struct simulated_role *role,
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
    return measure_work(role, out);
}

dt_status simulated_work_record(const struct experiment *experiment, const struct simulated_system *system, int rank,
                                struct simulated_work *out)
{
    struct experiment with_framework = *experiment; /* outlives what points to it */
    DT_ENDED(simulated_role_finish) struct simulated_role role = {0};
    *out = (struct simulated_work){0};
    simulated_system_apply(system, &with_framework);
    return record_work(&with_framework, system, rank, &role, out);
}

/* ---- whether it fits ---- */

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

/* fsdp's units are freed while other streams still use them, and their memory cannot be reused
 * until those streams are done: if the host runs ahead, many freed units are waiting. If they fill
 * the device, the allocator returns memory to the driver and asks for it again, for each unit; both
 * wait for the device. Source PyTorch 1.11, c10/cuda/CUDACachingAllocator.cpp: recordStream,
 * free_cached_blocks. */
static bool short_of_memory(const struct experiment *e, const struct simulated_system *s, const struct measure_result *result)
{
    const struct dt_profile *p = &s->costs.profile;
    double most = simulated_peak_bytes(result),
           whole = (double)dt_model_parameter_count(&e->model) * (double)dt_dtype_bytes(e->model.dtype);
    return p->memory.full_at > 0 && e->paradigm == PARADIGM_FSDP &&
           most + p->memory.in_flight * whole > p->memory.full_at * s->cluster.gpu.memory_gib * 0x1p30;
}

/* Ranks of a node take turns, since the driver has one lock; and in the next collective all nodes
 * wait for each node, except for what overlaps. Source NVIDIA/open-gpu-kernel-modules,
 * src/nvidia/src/kernel/rmapi/rmapi.c: rmapiLockAcquire. */
static double reallocation_s_per_byte(const struct experiment *e, const struct simulated_system *s)
{
    const struct dt_profile *p = &s->costs.profile;
    int on_node = s->placement.ranks_per_node < e->world_size ? s->placement.ranks_per_node : e->world_size;
    double other_nodes = (double)e->world_size / on_node - 1;
    return 1e-9 * p->memory.reallocation_s_per_gb * on_node * (1 + p->memory.reallocation_spread * other_nodes);
}

static dt_status record_short_of_memory(const struct experiment *e, const struct simulated_system *s, bool each,
                                        const struct measure_hooks *hooks, struct simulated_ranks *ranks)
{
    struct dt_sim_device device = s->device;
    const struct symmetric_part *part = ranks->part;
    device.gather_host_s_per_byte = reallocation_s_per_byte(e, s);
    simulated_ranks_finish(ranks);
    return simulated_ranks_record(e, s, &device, part, each, hooks->stop_requested, hooks->context, ranks);
}

/* ---- one step in virtual time ---- */

struct replay {
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct dt_sim_engine *engine; /* numbers ranks within the part */
};

/* The engine gets the communicator's ranks that are in the part, and for the others those that
 * represent them. */
static dt_status add_group(const struct simulated_ranks *r, const struct simulated_group *group, struct dt_sim_engine *engine)
{
    int number, count = 0;
    DT_FREED int *places = malloc((size_t)group->count * sizeof *places);
    DT_FREED bool *seen = calloc((size_t)r->count, sizeof *seen);
    DT_TRY(dt_allocated(places && seen, "no host memory for a communicator of %d ranks", group->count));
    for (int i = 0; i < group->count; i++) {
        int place = r->part->stand_in[group->ranks[i]];
        if (!seen[place])
            places[count++] = place;
        seen[place] = true;
    }
    DT_TRY(dt_sim_engine_add_group(engine, group->name, places, count, &number)); /* it numbers them in order, as here */
    dt_sim_engine_set_members(engine, number, group->ranks, group->count);
    return DT_OK;
}

static dt_status slow_link(const struct experiment *e, const struct replay *replay, int rank)
{
    dt_status status = DT_OK;
    char error[256];
    if (e->slow.by > 0 && (e->slow.part == SLOW_LINK || e->slow.part == SLOW_CARD))
        status = dt_sim_links_slow(replay->links, replay->network, rank, e->slow.part == SLOW_CARD, 1 - e->slow.by);
    if (status == DT_OK)
        return DT_OK;
    snprintf(error, sizeof error, "%s", dt_error_message());
    return dt_fail(status, "slow.part: %s", error);
}

/* Load all ranks' programs of `step` on the cluster. Call replay_finish also after a failure. */
static dt_status replay_create(const struct experiment *e, const struct simulated_system *s, const struct simulated_ranks *r, int step,
                               const struct dt_sim_collector *collector, struct replay *out)
{
    *out = (struct replay){.network = NULL};
    DT_TRY(dt_sim_network_create(&out->network));
    DT_TRY(dt_sim_links_create(&s->cluster, &s->placement, out->network, &out->links));
    DT_TRY(slow_link(e, out, r->part->slow_rank));
    if (r->part->count < r->part->world_size)
        DT_TRY(dt_sim_links_stand_in(out->links, r->part->ranks, r->part->count, r->part->stand_in));
    const struct dt_sim_transport transport = dt_sim_links_transport(out->links);
    DT_TRY(dt_sim_engine_create(r->count, out->network, &transport, collector, &out->engine));
    dt_sim_engine_set_world(out->engine, r->part->ranks);
    for (int g = 0; g < r->group_count; g++)
        DT_TRY(add_group(r, &r->groups[g], out->engine));
    for (int i = 0; i < r->count; i++)
        DT_TRY(dt_sim_engine_set_program(out->engine, i, r->roles[r->ranks[i].role].steps[step], r->ranks[i].groups));
    return DT_OK;
}

/* A rank's times in the step, through the trainer that recorded it. */
struct rank_times {
    struct step_times times;
    struct step_messages sent, received;
};

/* A step in virtual time: from begin_s to end_s on the replay's clock. */
struct interval {
    double begin_s, end_s;
};

/* moments: room for the events of any role. A rank ends at its last mark: later work of its host
 * takes no time. */
static dt_status times_of_rank(const struct replay *replay, const struct simulated_ranks *r, int place, const struct interval *step,
                               struct dt_sim_moment *moments, struct rank_times *out)
{
    const struct simulated_role *role = &r->roles[r->ranks[place].role];
    for (uint32_t event = 0; event < role->steps[RECORDED_STEPS - 1]->event_count; event++)
        moments[event] = (struct dt_sim_moment){dt_sim_engine_event_s(replay->engine, place, event),
                                                dt_sim_engine_event_idle(replay->engine, place, event)};
    dt_sim_replayed(role->device, moments);
    DT_TRY(timeline_collect(trainer_timeline(role->trainer), &out->times.timeline));
    double all_s = (double)out->times.timeline.all_ns * 1e-9, rest_s = fmax(step->end_s - step->begin_s - all_s, 0);
    out->times.own_s = all_s + fmin(fmax(dt_sim_event_s(timeline_begin(trainer_timeline(role->trainer))) - step->begin_s, 0), rest_s);
    if (trainer_messages_limit(role->trainer) == 0)
        return DT_OK;
    DT_TRY(trainer_messages(role->trainer, true, &out->sent));
    return trainer_messages(role->trainer, false, &out->received);
}

/* Nothing is computed on sim, so the norm of the gradients is unknown. */
static void divide_step(const struct simulated_ranks *r, int place, const struct interval *step, struct rank_times *all,
                        struct dt_step_metrics *out)
{
    const struct trainer *trainer = r->roles[r->ranks[place].role].trainer;
    const int *stand_in = r->part->stand_in;
    int from[2];
    trainer_neighbours(trainer, r->part->ranks[place], from);
    struct step_messages sent[2] = {all[stand_in[from[0]]].sent, all[stand_in[from[1]]].sent};
    all[place].times.bubble_ns = step_bubble_ns(&all[place].received, sent, 2);
    struct step_traffic traffic;
    dt_step_metrics_init(out);
    trainer_traffic(trainer, &traffic);
    step_traffic_measure(&traffic, out);
    step_times_divide(&all[place].times, step->end_s - step->begin_s, trainer_end(trainer), out);
}

static dt_status collect_metrics(const struct replay *replay, const struct simulated_ranks *r, const struct interval *step,
                                 double *compute_s, struct dt_step_metrics *out)
{
    uint32_t most = 0;
    for (int i = 0; i < r->role_count; i++)
        most = r->roles[i].steps[RECORDED_STEPS - 1]->event_count > most ? r->roles[i].steps[RECORDED_STEPS - 1]->event_count : most;
    int world_size = r->part->world_size;
    DT_FREED struct dt_sim_moment *moments = malloc(((size_t)most + 1) * sizeof *moments);
    DT_FREED struct rank_times *times = calloc((size_t)r->count, sizeof *times);
    DT_FREED struct dt_step_metrics *of_place = malloc((size_t)r->count * sizeof *of_place);
    DT_FREED struct dt_step_metrics *of_rank = malloc((size_t)world_size * sizeof *of_rank);
    bool all = moments && times && of_place && of_rank;
    dt_status status = dt_allocated(all, "no host memory for %u events of %d ranks", most, world_size);
    for (int i = 0; i < r->count && status == DT_OK; i++)
        status = times_of_rank(replay, r, i, step, moments, &times[i]);
    for (int i = 0; i < r->count && status == DT_OK; i++)
        divide_step(r, i, step, times, &of_place[i]);
    for (int i = 0; i < world_size && status == DT_OK; i++)
        of_rank[i] = of_place[r->part->stand_in[i]];
    for (int i = 0; i < world_size && status == DT_OK; i++)
        compute_s[i] = of_rank[i].forward_s + of_rank[i].backward_s + of_rank[i].optimizer_s;
    if (status == DT_OK)
        dt_metrics_over_ranks(of_rank, sizeof *of_rank, world_size, out);
    for (int i = 0; times && i < r->count; i++) {
        free(times[i].sent.all);
        free(times[i].received.all);
    }
    return status;
}

/* What a replay is to find: the program's whole time, and, if metrics is not NULL (for the last
 * recorded step), the metrics of its time after before_s. */
struct question {
    const struct measure_hooks *hooks; /* they may stop it */
    double before_s, *seconds;
    struct dt_step_metrics *metrics;
    double *compute_s;          /* [world size] with metrics: each rank's time of computation */
    struct server_use *servers; /* NULL: not requested */
};

static void replay_finish(struct replay *replay)
{
    dt_sim_engine_destroy(replay->engine);
    dt_sim_links_destroy(replay->links);
    dt_sim_network_destroy(replay->network);
}

static dt_status replay_collected(const struct experiment *e, const struct simulated_system *s, const struct simulated_ranks *r, int step,
                                  const struct dt_sim_collector *collector, const struct question *question)
{
    DT_ENDED(replay_finish) struct replay replay = {0};
    DT_TRY(replay_create(e, s, r, step, collector, &replay));
    dt_sim_engine_set_stop(replay.engine, question->hooks->stop_requested, question->hooks->context);
    DT_TRY(dt_sim_engine_run(replay.engine));
    *question->seconds = dt_sim_engine_end_s(replay.engine, -1);
    struct interval interval = {question->before_s, *question->seconds};
    return question->metrics ? collect_metrics(&replay, r, &interval, question->compute_s, question->metrics) : DT_OK;
}

/* Replay a step; wish NULL: no trace. */
static dt_status replay_step(const struct experiment *e, const struct simulated_system *s, const struct simulated_ranks *r, int step,
                             const struct dt_trace_wish *wish, const struct question *question)
{
    struct simulation_trace *writer = NULL;
    struct dt_sim_collector collector = {0};
    if (wish && wish->path)
        DT_TRY(simulation_trace_open(wish, s, r->part->world_size, &writer, &collector));
    if (question->servers)
        collector = server_use_collector(question->servers, &collector);
    dt_status status = replay_collected(e, s, r, step, &collector, question);
    dt_status written = simulation_trace_close(writer);
    return status < 0 ? status : written;
}

/* ---- the whole prediction ---- */

static dt_status allocate_result(const struct experiment *e, struct measure_result *result)
{
    *result = (struct measure_result){
        .step_s = calloc((size_t)e->steps.timed + 1, sizeof(double)),
        .losses = calloc((size_t)e->steps.warmup + (size_t)e->steps.timed + 1, sizeof(double)),
        .rank_count = e->world_size,
        .ranks = calloc((size_t)e->world_size, sizeof *result->ranks),
        .compute_s = calloc((size_t)e->world_size, sizeof(double)),
    };
    dt_metrics_init(&result->metrics);
    bool complete = result->step_s && result->losses && result->ranks && result->compute_s;
    return dt_allocated(complete, "no host memory for the results of %d ranks", e->world_size);
}

/* Steps before the last recorded one have their own times, all later ones the last one's. Nothing
 * is computed, so losses are unknown. */
static void fill_steps(const struct experiment *e, const double seconds[RECORDED_STEPS], double step_error,
                       const struct measure_hooks *hooks, struct measure_result *result)
{
    const struct storage_times *storage = &result->storage;
    struct dt_metrics *m = &result->metrics;
    double all_s = 0;
    m->reading_s = 0;
    for (int i = 0; i < e->steps.warmup + e->steps.timed; i++) {
        double own_s = seconds[i < RECORDED_STEPS ? i : RECORDED_STEPS - 1], wait_s = storage_wait_s(storage, own_s),
               step_s = own_s + wait_s;
        m->step.data_s = wait_s;
        m->reading_s += wait_s;
        all_s += step_s;
        result->losses[result->losses_done++] = NAN;
        if (i >= e->steps.warmup)
            result->step_s[result->steps_done++] = step_s;
        if (hooks->step_done)
            hooks->step_done(hooks->context, i, step_s, NAN);
    }
    m->step_error = step_error;
    training_time_predict(e, storage, e->steps.warmup + e->steps.timed, all_s, m);
}

/* Ranks that represent others save what these save; but only one of equal copies is saved. */
static dt_status find_storage(const struct experiment *e, const struct simulated_system *s, const struct symmetric_part *part,
                              struct simulated_ranks *ranks, struct measure_result *result)
{
    DT_FREED struct checkpoint_size *sizes = calloc((size_t)e->world_size, sizeof *sizes);
    DT_TRY(dt_allocated(sizes, "no host memory for what %d ranks save", e->world_size));
    bool copies = e->strategy.mode->ranks != DP_RANKS_DIFFER;
    for (int i = 0; i < e->world_size; i++) {
        DT_TRY(trainer_checkpoint_size(ranks->roles[ranks->ranks[part->stand_in[i]].role].trainer, &sizes[i]));
        if (copies && mesh_index(&part->mesh, mesh_group(&part->mesh, MESH_REPLICA), i) > 0)
            sizes[i].saved = 0;
    }
    storage_times_find(e, &s->cluster, s->placement.ranks_per_node, sizes, &result->storage);
    return DT_OK;
}

/* Free the program of the first step, which is not replayed again. */
static void forget_first_step(struct simulated_ranks *r)
{
    for (int i = 0; i < r->role_count; i++) {
        dt_sim_program_destroy(r->roles[i].steps[0]);
        r->roles[i].steps[0] = NULL;
    }
}

/* Replay the last recorded step, and measure its servers. */
static dt_status replay_last(const struct experiment *e, const struct simulated_system *s, const struct simulated_ranks *r, int step,
                             const struct measure_hooks *hooks, struct question *question)
{
    if (e->strategy.servers == 0)
        return replay_step(e, s, r, step, &hooks->trace, question);
    DT_FREED struct server_use_of_rank *of_ranks = calloc((size_t)r->count, sizeof *of_ranks);
    DT_TRY(dt_allocated(of_ranks, "no host memory for %d ranks", r->count));
    struct server_use use = {.from_s = question->before_s, .ranks = of_ranks, .count = r->count};
    question->servers = &use;
    DT_TRY(replay_step(e, s, r, step, &hooks->trace, question));
    struct server_use_of_rank most = server_use_most(&use);
    question->metrics->server_link_busy = most.link_s / (*question->seconds - question->before_s);
    question->metrics->server_update_busy = most.update_s / (*question->seconds - question->before_s);
    return DT_OK;
}

static dt_status replay_steps(const struct experiment *e, const struct simulated_system *s, struct simulated_ranks *r,
                              const struct measure_hooks *hooks, struct measure_result *result)
{
    double seconds[RECORDED_STEPS] = {0}, before_s = 0;
    int last = RECORDED_STEPS - 1;
    bool alike = true, ahead = s->costs.profile.host.runs_ahead || experiment_staleness(e) > 0;
    for (int i = 0; i < r->role_count; i++)
        alike &= r->roles[i].alike;
    if (ahead) { /* two steps were recorded together; the second begins before the first has ended */
        DT_TRY(replay_step(e, s, r, 0, NULL, &(struct question){.hooks = hooks, .seconds = &seconds[0]}));
        forget_first_step(r); /* it is a third of the recorded memory */
        before_s = seconds[0];
    }
    struct question question = {hooks, before_s, &seconds[last], &result->metrics.step, result->compute_s, NULL};
    DT_TRY(replay_last(e, s, r, last, hooks, &question));
    seconds[last] -= before_s;
    for (int step = 0; step < last && !ahead; step++) {
        seconds[step] = seconds[last];
        if (!alike)
            DT_TRY(replay_step(e, s, r, step, NULL, &(struct question){.hooks = hooks, .seconds = &seconds[step]}));
    }
    fill_steps(e, seconds, profile_eight(&s->costs.profile), hooks, result);
    return DT_OK;
}

static dt_status predict(const struct experiment *e, const struct simulated_system *s, const struct symmetric_part *part,
                         const struct measure_hooks *hooks, struct simulated_ranks *ranks, struct measure_result *result)
{
    bool each = hooks->trace.path != NULL;
    DT_TRY(allocate_result(e, result));
    DT_TRY(simulated_ranks_record(e, s, &s->device, part, each, hooks->stop_requested, hooks->context, ranks));
    for (int i = 0; i < e->world_size; i++)
        result->ranks[i].memory = ranks->roles[ranks->ranks[part->stand_in[i]].role].memory;
    DT_TRY(check_memory(e, s, result));
    if (short_of_memory(e, s, result))
        DT_TRY(record_short_of_memory(e, s, each, hooks, ranks));
    if (*e->checkpoint.path || *e->checkpoint.from || experiment_reads_data(e))
        DT_TRY(find_storage(e, s, part, ranks, result));
    if (hooks->ready)
        hooks->ready(hooks->context, 0);
    return replay_steps(e, s, ranks, hooks, result);
}

static dt_status run_part(const struct experiment *e, const struct simulated_system *s, bool all, const struct measure_hooks *hooks,
                          struct measure_result *result)
{
    static const struct measure_hooks no_hooks = {0};
    struct experiment with_framework = *e; /* outlives what points to it */
    DT_ENDED(symmetric_part_finish) struct symmetric_part part = {0};
    DT_ENDED(simulated_ranks_finish) struct simulated_ranks ranks = {0};
    simulated_system_apply(s, &with_framework);
    *result = (struct measure_result){0};
    DT_TRY(simulated_system_check_stages(s, e));
    DT_TRY(all ? symmetric_part_all(&with_framework, &part) : symmetric_part_find(&with_framework, s, &part));
    return predict(&with_framework, s, &part, hooks ? hooks : &no_hooks, &ranks, result);
}

dt_status simulation_run(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                         struct measure_result *result)
{
    return run_part(e, s, true, hooks, result);
}

dt_status simulation_run_symmetric(const struct experiment *e, const struct simulated_system *s, const struct measure_hooks *hooks,
                                   struct measure_result *result)
{
    return run_part(e, s, false, hooks, result);
}
