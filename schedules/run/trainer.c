#include "schedules/run/trainer.h"
#include "lib/base/text.h"
#include "lib/model/stage.h"
#include "schedules/config/learning_rate.h"
#include "schedules/config/split.h"
#include "schedules/data_parallel/mode.h"
#include "schedules/data_parallel/norm.h"
#include "schedules/data_parallel/offload.h"
#include "schedules/plan/plan.h"
#include "schedules/run/batches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trainer {
    const struct experiment *experiment;
    struct trainer_options options;
    struct mesh mesh;
    struct dt_comm *copies;   /* tensor group: ranks with copies of the same parameters; NULL: none */
    struct dt_comm *together; /* ranks whose samples are computed together with this rank's; NULL: none */
    struct experiment_order order;
    size_t samples; /* of a step, over all ranks that work on the same samples */
    const struct dt_model_family *family;
    struct dt_kernels *kernels;
    struct tuning tuning;
    struct dt_stream *compute, *network, *tensor; /* tensor: collectives within layers; NULL if there are none */
    struct offload offload;                       /* with parameter_offload */
    struct timeline *timeline;
    struct dt_stage *stage;
    struct batches batches;     /* used if samples come from a file */
    struct gradient_norm *norm; /* used if updates wait for it; else NULL */
    struct data_parallel *dp;
    struct pipeline *pipeline;
    struct checkpoint_copy *copy;         /* for asynchronous saves; else NULL */
    int steps;                            /* number of steps queued by this trainer */
    struct dt_graph *graph;               /* a captured step */
    bool refused;                         /* the step could not be captured */
    char graph_text[256];                 /* for trainer_graph */
    char trial_doubt[272];                /* for trainer_trials */
    struct step_traffic counted, traffic; /* counted: since the beginning; traffic: by the last step that was not replayed */
    double loss;                          /* the host's copies of the loss and the overflows */
    uint64_t overflows;
    struct dt_norm_state settled;
};

/* The first step allocates memory that later ones reuse, and the second begins with what the first
 * has left: from the third on all steps are alike. */
enum { STEPS_BEFORE_GRAPH = 2 };

static dt_status wait_within_layer(void *context, const struct dt_event *event)
{
    return timeline_wait(context, event);
}

/* Find the layers of all virtual stages, first_layer [virtual stages + 1], and of this rank's parts
 * [layout->parts]. */
static dt_status find_parts(const struct trainer *t, const struct order_layout *layout, int *first_layer, struct dt_layers *parts)
{
    int stages = t->mesh.shape.size[MESH_PIPELINE], rank = t->mesh.at[MESH_PIPELINE];
    DT_TRY((t->options.partition ? t->options.partition : experiment_partition)(t->experiment, stages * layout->parts, first_layer));
    for (int i = 0; i < layout->parts; i++) {
        int v = virtual_stage_of(i, rank, stages, layout->folded);
        parts[i] = (struct dt_layers){first_layer[v], first_layer[v + 1], activation_again(t->experiment->strategy.activations[i])};
    }
    return DT_OK;
}

static dt_status create_stage(struct trainer *t, const struct dp_mode *mode)
{
    const struct experiment *e = t->experiment;
    struct order_layout layout;
    DT_TRY(pipeline_order_layout(t->order.row, &t->order.shape, &layout));
    int virtual_stages = t->order.shape.stages * layout.parts;
    DT_FREED int *first_layer = calloc((size_t)virtual_stages + 1, sizeof *first_layer);
    DT_FREED struct dt_layers *parts = calloc((size_t)layout.parts, sizeof *parts);
    DT_TRY(dt_allocated(first_layer && parts, "no host memory for %d stages", virtual_stages));
    DT_TRY(find_parts(t, &layout, first_layer, parts));
    struct dt_stage_options options = {
        .parts = parts,
        .part_count = layout.parts,
        .unit = mode->unit(e),
        .tensor = {.comm = t->mesh.comm[MESH_TENSOR],
                   .copies = t->copies,
                   .network = t->tensor,
                   .sequence_parallel = e->tensor.sequence_parallel,
                   .overlap = e->tensor.overlap && e->tensor.sequence_parallel,
                   .sums_in_turn = t->options.sums_in_turn,
                   .wait = wait_within_layer,
                   .context = t->timeline},
        .context = {t->mesh.comm[MESH_CONTEXT], e->context.comm_type, t->options.key_pieces},
        .together = t->together,
        .keep = e->keep_cheap,
        .separate_kernels = !e->fused_kernels,
        .seed = e->seed,
        .sum_loss = e->loss == LOSS_SUM,
    };
    return dt_stage_create(&e->model, &options, t->kernels, t->compute, &t->stage);
}

/* Neighbours in the tensor group hold copies of what is too small to be divided. */
static dt_status create_copies_comm(struct trainer *t)
{
    struct dt_comm *group = t->mesh.comm[MESH_TENSOR];
    int copies = group ? t->family->tensor_copies(&t->experiment->model, dt_comm_size(group)) : 1;
    if (copies == 1)
        return DT_OK;
    int first = dt_comm_rank(group) / copies * copies;
    DT_FREED int *ranks = calloc((size_t)copies, sizeof *ranks);
    char name[32];
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", copies));
    for (int i = 0; i < copies; i++)
        ranks[i] = first + i;
    snprintf(name, sizeof name, "%d copies", copies);
    return dt_comm_subset(group, ranks, copies, name, &t->copies);
}

/* A communicator of those ranks with the same layers whose samples of a micro-batch are computed
 * together: neighbours on the data axes. */
static dt_status create_together_comm(struct trainer *t)
{
    const struct mesh_shape *shape = &t->mesh.shape;
    int64_t samples = (int64_t)t->samples / t->experiment->strategy.micro_batches;
    int count = t->family->sample_ranks ? (int)t->family->sample_ranks(&t->experiment->model, samples) : 1,
        rank = dt_comm_rank(t->mesh.world);
    if (count == 1)
        return DT_OK;
    int first = mesh_index(shape, MESH_ON_DATA, rank) / count * count;
    DT_FREED int *ranks = calloc((size_t)count, sizeof *ranks);
    char name[32];
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", count));
    for (int other = 0; other < dt_comm_size(t->mesh.world); other++) {
        int place = mesh_index(shape, MESH_ON_DATA, other) - first;
        if (place >= 0 && place < count && mesh_index(shape, ~MESH_ON_DATA, other) == mesh_index(shape, ~MESH_ON_DATA, rank))
            ranks[place] = other;
    }
    snprintf(name, sizeof name, "samples of %d ranks", count);
    return dt_comm_subset(t->mesh.world, ranks, count, name, &t->together);
}

/* A kernel whose trial went wrong on one rank is used on none, since all ranks must round alike. */
static dt_status agree_on_trials(struct trainer *t, const struct dt_device *device, struct dt_comm *world)
{
    struct dt_trials *own = &t->kernels->trials, *all;
    if (t->experiment->warpgroup_kernels != DT_WARPGROUPS_AUTO || !dt_device_kind_of(device)->gpus)
        return DT_OK;
    DT_TRY(dt_host_collect(world, own, sizeof *own, &all));
    for (int i = 0; i < dt_comm_size(world); i++) {
        own->in_use &= all[i].in_use;
        if (*all[i].doubt && !*t->trial_doubt)
            snprintf(t->trial_doubt, sizeof t->trial_doubt, "rank %d: %s", i, all[i].doubt);
    }
    free(all);
    return DT_OK;
}

/* Make kernels, communicators, streams and the stage: everything but the data-parallel mode and the
 * pipeline. */
static dt_status create_stage_and_streams(struct trainer *t, const struct dp_mode *mode, const struct mesh_shape *shape, unsigned axes,
                                          struct dt_device *device, struct dt_comm *world)
{
    const struct experiment *e = t->experiment;
    DT_TRY(dt_kernels_create(t->family->kernels, &e->model, device, &t->kernels));
    DT_TRY(agree_on_trials(t, device, world));
    DT_TRY(tuning_init(&t->tuning, e, device, world, t->kernels));
    DT_TRY(mesh_init(&t->mesh, shape, axes, world));
    DT_TRY(create_copies_comm(t));
    DT_TRY(create_together_comm(t));
    DT_TRY(dt_stream_create(device, "compute", &t->compute));
    DT_TRY(dt_stream_create(device, "network", &t->network));
    if (t->mesh.comm[MESH_TENSOR] || t->mesh.comm[MESH_CONTEXT] || t->together)
        DT_TRY(dt_stream_create(device, "tensor", &t->tensor));
    if (e->parameter_offload)
        DT_TRY(offload_init(&t->offload, device));
    DT_TRY(timeline_create(device, t->compute, &t->timeline));
    DT_TRY(create_stage(t, mode));
    return batches_init(&t->batches, e, world, &t->mesh.shape, t->samples, t->stage, t->compute);
}

static struct checkpoint_rank checkpoint_rank_of(struct trainer *t)
{
    return (struct checkpoint_rank){t->experiment, t->mesh.world, t->stage, t->dp, t->compute, t->norm ? &t->settled : NULL};
}

static dt_status create_copy(struct trainer *t)
{
    const struct experiment *e = t->experiment;
    struct checkpoint_rank rank = checkpoint_rank_of(t);
    return e->checkpoint.asynchronous && *e->checkpoint.path ? checkpoint_copy_create(&rank, &t->copy) : DT_OK;
}

static dt_status create_mode_and_pipeline(struct trainer *t, const struct dp_mode *mode, struct dt_device *device)
{
    const struct experiment *e = t->experiment;
    enum dt_dtype gradients = experiment_gradient_dtype(e), reduce_dtype = experiment_reduce_dtype(e);
    bool wide = t->options.wide_reduction && dt_dtype_bytes(gradients) < sizeof(float);
    const struct order_shape *order = &t->order.shape;
    t->settled = norm_before_steps(e);
    if (norm_is_needed(e))
        DT_TRY(norm_create(e, t->stage, t->mesh.world, t->compute, &t->norm));
    struct dp_setup dp = {
        .experiment = e,
        .stage = t->stage,
        .device = device,
        .shards = t->mesh.comm[MESH_SHARD],
        .replicas = t->mesh.comm[MESH_REPLICA],
        .tensor = t->mesh.comm[MESH_TENSOR],
        .contexts = t->mesh.comm[MESH_CONTEXT],
        .compute = t->compute,
        .network = t->network,
        .timeline = t->timeline,
        .offload = e->parameter_offload ? &t->offload : NULL,
        .norm = t->norm,
        .micro_batches = order->micro_batches,
        .reduce_every = e->gradient_reduction == REDUCTION_EACH ? order->window : order->micro_batches,
        .gradient_dtype = gradients,
        .gradient_bytes = fmax(t->options.gradient_bytes, (double)dt_dtype_bytes(gradients)),
        .reduce_dtype = wide ? DT_FP32 : reduce_dtype,
        .converts = reduce_dtype != gradients,
    };
    DT_TRY(mode->create(mode, &dp, &t->dp));
    t->dp->rules.whole_gradients = gradients != e->model.dtype;
    DT_TRY(create_copy(t));
    struct pipeline_setup pipeline = {
        .experiment = e,
        .stage = t->stage,
        .dp = t->dp,
        .device = device,
        .compute = t->compute,
        .network = t->network,
        .timeline = t->timeline,
        .copied = t->copy ? checkpoint_copied(t->copy) : NULL,
        .gather = t->options.divides_messages && t->mesh.comm[MESH_TENSOR] && !e->tensor.sequence_parallel ? t->tensor : NULL,
        .mesh = &t->mesh,
        .samples = t->samples,
        .order = &t->order,
        .activation = t->options.activation,
        .extra = t->options.extra,
        .memory_at = t->options.memory_at,
        .repetitions = t->options.repetitions,
    };
    return pipeline_create(&pipeline, &t->pipeline);
}

/* In a graph NCCL's operations between nodes run on the host; what that costs is not measured yet.
 * A pipeline's receives are kernels that wait for other branches of the graph, and CUDA does not
 * guarantee that two branches run concurrently. So both must be requested explicitly. */
const char *trainer_no_graph(const struct experiment *e)
{
    if (!e->graph)
        return "off";
    if (experiment_staleness(e) > 0)
        return "off: updates of several steps are under way, with parameter_server.staleness";
    if (e->several_nodes && !e->graph_across_nodes)
        return "off: the ranks are on several nodes, and graph_across_nodes is false";
    if (e->strategy.stages > 1 && !e->graph_in_pipelines)
        return "off: no GPU has shown yet that a pipeline's receives run at once in a graph, and graph_in_pipelines is false";
    return NULL;
}

static void count_traffic_of(const struct dt_comm *comm, int group, struct step_traffic *out)
{
    for (int kind = 0; comm && kind < DT_COMM_RECV; kind++)
        out->bytes[group][kind] = dt_comm_bytes(comm, (enum dt_comm_kind)kind);
    out->ranks[group] = comm ? dt_comm_size(comm) : 1;
}

static void count_traffic(const struct trainer *t, struct step_traffic *out)
{
    *out = (struct step_traffic){0};
    for (int axis = 0; axis < MESH_AXES; axis++)
        count_traffic_of(t->mesh.comm[axis], axis, out);
    count_traffic_of(t->copies, TRAFFIC_COPIES, out);
    count_traffic_of(t->together, TRAFFIC_TOGETHER, out);
    out->ranks[MESH_PIPELINE] = 2;
    if (t->norm)
        count_traffic_of(t->mesh.world, TRAFFIC_WORLD, out);
    out->bytes[MESH_PIPELINE][DT_COMM_SEND] = pipeline_sent_bytes(t->pipeline);
    out->bytes[MESH_PIPELINE][DT_COMM_ALL_REDUCE] += pipeline_summed_bytes(t->pipeline);
}

dt_status trainer_create(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                         const struct trainer_options *options, struct trainer **out)
{
    DT_DESTROYED(trainer_destroy) struct trainer *t = calloc(1, sizeof *t);
    *out = NULL;
    DT_TRY(dt_allocated(t, "no host memory for a trainer"));
    t->experiment = experiment;
    if (options)
        t->options = *options;
    t->family = experiment->model.family;
    const char *none = trainer_no_graph(experiment);
    if (dt_device_captures(device))
        snprintf(t->graph_text, sizeof t->graph_text, "%s", none ? none : "a step is captured from the third on");

    /* A single replica that is divided over all ranks has nothing to average, and holds the
     * gradients of one group at a time. */
    const struct dp_mode *mode = experiment->strategy.mode;
    struct mesh_shape shape = experiment->strategy.mesh;
    bool alone = mode->alone && mesh_count(&shape, MESH_ON_MODEL) > 1 && mesh_count(&shape, ~MESH_ON_MODEL) == 1;
    unsigned axes = (alone ? 0 : experiment->strategy.paradigm->axes & MESH_ON_DATA) | (shape.size[MESH_TENSOR] > 1 ? MESH_ON_TENSOR : 0) |
                    (shape.size[MESH_CONTEXT] > 1 ? MESH_ON_CONTEXT : 0);
    mode = alone ? mode->alone : mode;
    t->samples = (size_t)experiment_replica_samples(experiment);

    DT_TRY(experiment_order_init(&t->order, experiment));
    DT_TRY(create_stage_and_streams(t, mode, &shape, axes, device, world));
    DT_TRY(create_mode_and_pipeline(t, mode, device));
    count_traffic(t, &t->counted);
    *out = DT_PASSED_ON(t);
    return DT_OK;
}

void trainer_destroy(struct trainer *t)
{
    if (!t)
        return;
    streams_synchronize((struct dt_stream *[]){t->compute, t->network, t->tensor}, 3);
    offload_synchronize(&t->offload);
    dt_graph_destroy(t->graph);
    checkpoint_copy_destroy(t->copy, t->compute);
    pipeline_destroy(t->pipeline);
    if (t->dp)
        t->dp->mode->destroy(t->dp);
    norm_destroy(t->norm, t->compute);
    batches_finish(&t->batches, t->compute);
    dt_stage_destroy(t->stage, t->compute);
    timeline_destroy(t->timeline);
    offload_finish(&t->offload);
    dt_stream_destroy(t->tensor);
    dt_stream_destroy(t->network);
    dt_stream_destroy(t->compute);
    dt_comm_destroy(t->together);
    dt_comm_destroy(t->copies);
    mesh_finish(&t->mesh);
    experiment_order_finish(&t->order);
    dt_kernels_destroy(t->kernels);
    tuning_finish(&t->tuning);
    free(t);
}

const char *trainer_graph(const struct trainer *t)
{
    return t->graph_text;
}

const char *trainer_products(const struct trainer *t)
{
    return t->family->products ? t->family->products(t->kernels) : "";
}

const char *trainer_trials(const struct trainer *t, char *used, size_t bytes)
{
    const struct dt_trials *trials = &t->kernels->trials;
    *used = 0;
    for (int i = 0; trials->names && trials->names[i]; i++)
        if (trials->in_use >> i & 1)
            dt_append(used, bytes, ", ", "%s", trials->names[i]);
    return t->trial_doubt;
}

dt_status trainer_tuning(struct trainer *t, struct tuning_facts *out)
{
    DT_TRY(tuning_count(&t->tuning, t->mesh.world, t->kernels));
    *out = t->tuning.facts;
    return DT_OK;
}

dt_status trainer_list_products(struct trainer *t, struct dt_tuning *tuning)
{
    return t->family->tuner->list(tuning, t->kernels, &t->experiment->model);
}

/* Go on without a graph. The record says why. */
static void refuse_graph(struct trainer *t)
{
    t->refused = true;
    snprintf(t->graph_text, sizeof t->graph_text, "%s", dt_error_message());
}

/* Queue a step, and capture it as a graph if possible. If not, the step is queued all the same. */
static dt_status capture_step(struct trainer *t, int step)
{
    char error[1024];
    if (dt_graph_begin(t->compute) < 0) {
        refuse_graph(t);
        return pipeline_step(t->pipeline, step + 1);
    }
    dt_status status = pipeline_step(t->pipeline, step + 1);
    if (status < 0) { /* an action of a half-queued step cannot be undone */
        snprintf(error, sizeof error, "%s", dt_error_message());
        dt_graph_end(t->compute, NULL);
        return dt_fail(status, "%.900s (while the step was captured as a graph; with \"graph\": false it is not)", error);
    }
    status = dt_graph_end(t->compute, &t->graph);
    if (status == DT_OK) {
        snprintf(t->graph_text, sizeof t->graph_text, "replayed");
        return DT_OK;
    }
    refuse_graph(t);
    return status == DT_ERR_INVALID ? DT_OK : pipeline_step(t->pipeline, step + 1);
}

/* Queue everything that is the same in each step. */
static dt_status queue_step(struct trainer *t, int step, bool by_graph)
{
    if (!by_graph || trainer_no_graph(t->experiment) || t->refused || t->steps < STEPS_BEFORE_GRAPH ||
        !dt_device_captures(dt_stream_device(t->compute)))
        return pipeline_step(t->pipeline, step + 1);
    return t->graph ? dt_graph_launch(t->graph, t->compute) : capture_step(t, step);
}

static dt_status run_step(struct trainer *t, int step, bool by_graph)
{
    const struct experiment *e = t->experiment;
    uint64_t first_sample = batches_first(e, &t->mesh.shape, dt_comm_rank(t->mesh.world), t->samples, step);
    DT_TRY(batches_take(&t->batches, step));
    if (t->copy)
        checkpoint_copy_begin_step(t->copy);
    t->kernels->rate = (float)experiment_rate_factor(e, step);
    DT_TRY(dt_kernels_begin_step(t->kernels, t->compute, (uint32_t)first_sample, step + 1));
    DT_TRY(queue_step(t, step, by_graph));
    t->steps++;
    /* Communicators count nothing in a replayed step. */
    struct step_traffic now;
    count_traffic(t, &now);
    for (int group = 0; group < TRAFFIC_GROUPS && step_traffic_all(&now) > step_traffic_all(&t->counted); group++) {
        t->traffic.ranks[group] = now.ranks[group];
        for (int kind = 0; kind < DT_COMM_KINDS; kind++)
            t->traffic.bytes[group][kind] = now.bytes[group][kind] - t->counted.bytes[group][kind];
    }
    t->counted = now;
    DT_TRY(dt_kernels_overflows(t->kernels, t->compute, &t->overflows));
    if (t->norm)
        DT_TRY(dt_kernels_norm(t->kernels, t->compute, &t->settled));
    return t->stage->last ? dt_copy_to_host(t->compute, &t->loss, t->stage->loss.data, sizeof t->loss) : DT_OK;
}

/* On a simulated device there is nothing to wait for. */
static bool is_simulated(const struct trainer *t)
{
    return dt_device_kind_of(dt_stream_device(t->compute))->simulated;
}

dt_status trainer_save(struct trainer *t, const struct checkpoint_folder *folder, int steps, bool beside, uint64_t *bytes)
{
    struct checkpoint_rank rank = checkpoint_rank_of(t);
    *bytes = 0;
    if (is_simulated(t))
        return DT_OK;
    if (t->copy)
        DT_TRY(checkpoint_copy_wait(t->copy, rank.world));
    return beside && t->copy ? checkpoint_save_beside(folder, &rank, t->copy, steps, bytes) : checkpoint_save(folder, &rank, steps, bytes);
}

dt_status trainer_load(struct trainer *t, const char *path, int *steps)
{
    struct checkpoint_rank rank = checkpoint_rank_of(t);
    *steps = 0;
    if (is_simulated(t))
        return DT_OK;
    DT_TRY(checkpoint_load(path, &rank, steps));
    return t->norm ? dt_kernels_set_norm(t->kernels, t->compute, &t->settled) : DT_OK;
}

dt_status trainer_checkpoint_size(struct trainer *t, struct checkpoint_size *out)
{
    struct checkpoint_rank rank = checkpoint_rank_of(t);
    return checkpoint_size_of(&rank, out);
}

dt_status trainer_step(struct trainer *t, int step)
{
    return run_step(t, step, true);
}

/* Collect phases, then the work of all streams, in one list. */
static dt_status collect_spans(struct trainer *t, struct dt_spans_recorded *out)
{
    struct dt_span *all = NULL, *phases = NULL;
    struct dt_spans_recorded work;
    int count = 0;
    DT_TRY(timeline_spans(t->timeline, &phases, &count));
    dt_status status = dt_spans_collect(dt_stream_device(t->compute), &work);
    if (status == DT_OK)
        all = realloc(phases, (size_t)(count + work.count + 1) * sizeof *all);
    if (all) {
        memcpy(all + count, work.all, (size_t)work.count * sizeof *all);
        *out = (struct dt_spans_recorded){all, count + work.count, work.zero_ns, work.zero_error_ns};
    } else {
        free(phases);
    }
    free(work.all);
    DT_TRY(status);
    return dt_allocated(all, "no host memory for %d spans", count + work.count);
}

static dt_status run_traced_step(struct trainer *t, int step, struct dt_spans_recorded *out)
{
    DT_TRY(dt_spans_start(t->compute));
    dt_status status = run_step(t, step, false);
    dt_status finished = trainer_synchronize(t); /* after a failed step, too: its marks are still in the streams */
    DT_TRY(status);
    DT_TRY(finished);
    return collect_spans(t, out);
}

dt_status trainer_traced_step(struct trainer *t, int step, struct dt_spans_recorded *out)
{
    *out = (struct dt_spans_recorded){0};
    DT_TRY(trainer_synchronize(t));
    if (t->family->trace_kernels)
        DT_TRY(t->family->trace_kernels(t->kernels, true));
    dt_status status = run_traced_step(t, step, out);
    dt_spans_forget(dt_stream_device(t->compute));
    if (t->family->trace_kernels)
        t->family->trace_kernels(t->kernels, false);
    return status;
}

struct dt_stream *trainer_network(const struct trainer *t)
{
    return t->network;
}

dt_status trainer_synchronize(struct trainer *t)
{
    /* The network first: if a peer is gone, its failure is the cause, and that of the compute
     * stream the effect. */
    DT_TRY(dt_stream_synchronize(t->network));
    DT_TRY(t->tensor ? dt_stream_synchronize(t->tensor) : DT_OK);
    DT_TRY(offload_synchronize(&t->offload));
    return pipeline_synchronize(t->pipeline);
}

bool trainer_updates_late(const struct trainer *t)
{
    return t->dp->updates_late;
}

dt_status trainer_synchronize_step(struct trainer *t)
{
    return dt_stream_synchronize(t->compute);
}

uint64_t trainer_late_overflows(const struct trainer *t, int step)
{
    return t->dp->updates_late ? t->dp->late_overflows[step % DP_LATE_STEPS] : 0;
}

void trainer_traffic(const struct trainer *t, struct step_traffic *out)
{
    *out = t->traffic;
}

const struct plan *trainer_plan(const struct trainer *t)
{
    return pipeline_plan(t->pipeline);
}

const struct dt_stage *trainer_stage(const struct trainer *t)
{
    return t->stage;
}

struct trainer_result trainer_result(const struct trainer *t)
{
    return (struct trainer_result){
        .data_s = t->batches.waited_s,
        .has_loss = t->stage->last,
        .loss = t->stage->last ? t->loss : 0,
        .overflows = t->dp->repeats_updates ? 0 : t->overflows,
        .has_norm = t->norm,
        .norm = t->settled,
    };
}

const struct timeline *trainer_timeline(const struct trainer *t)
{
    return t->timeline;
}

dt_status trainer_messages(const struct trainer *t, bool sent, struct step_messages *out)
{
    DT_TRY(timeline_messages(t->timeline, sent, &out->all, &out->count));
    step_messages_sort(out);
    return DT_OK;
}

int trainer_messages_limit(const struct trainer *t)
{
    const struct plan *plan = pipeline_plan(t->pipeline);
    return t->mesh.shape.size[MESH_PIPELINE] > 1 ? 2 * plan->parts * plan->micro_batches : 0;
}

void trainer_neighbours(const struct trainer *t, int rank, int ranks[2])
{
    int stages = t->mesh.shape.size[MESH_PIPELINE], stage = mesh_coordinate(&t->mesh.shape, MESH_PIPELINE, rank);
    ranks[0] = mesh_moved(&t->mesh.shape, MESH_PIPELINE, rank, (stage + stages - 1) % stages);
    ranks[1] = mesh_moved(&t->mesh.shape, MESH_PIPELINE, rank, (stage + 1) % stages);
}

int trainer_stages(const struct trainer *t)
{
    return t->mesh.shape.size[MESH_PIPELINE];
}

void trainer_pipeline(const struct trainer *t, int *ranks)
{
    for (int stage = 0; stage < trainer_stages(t); stage++)
        ranks[stage] = mesh_moved(&t->mesh.shape, MESH_PIPELINE, dt_comm_rank(t->mesh.world), stage);
}

enum step_end trainer_end(const struct trainer *t)
{
    if (t->dp->updates_late)
        return STEP_ENDS_ALONE;
    if (t->mesh.shape.size[MESH_PIPELINE] > 1)
        return STEP_ENDS_WITH_STAGES;
    return dt_comm_size(t->mesh.world) > 1 ? STEP_ENDS_WITH_RANKS : STEP_ENDS_ALONE;
}
