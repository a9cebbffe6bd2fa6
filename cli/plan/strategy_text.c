#include "cli/plan/planner.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "predict/profile.h"
#include "schedules/config/parse.h"
#include "schedules/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ADD(text, ...) dt_append(text, STRATEGY_BYTES, "", __VA_ARGS__)

/* Add an order by its name in the papers, a file's by the file's name. */
static void add_order(char text[STRATEGY_BYTES], const char *name)
{
    const struct pipeline_order *order = pipeline_order_find(name);
    ADD(text, ", %s", order && order->title ? order->title : name);
}

/* Keys that have their own words in the text, have a column, or do not change the strategy; an
 * object's name with a dot stands for all of its keys. */
static bool is_said(const char *path)
{
    static const char said[] =
        "name device world_size paradigm gpus_per_node straddle_nodes batch_size micro_batches pipeline.stages pipeline.paradigms "
        "mesh.order pipeline.chunks pipeline.order hsdp.shard_size tensor.size context.size context.comm_type activation parameter_offload "
        "fsdp.unit fsdp.gather ddp.bucket_mib ddp.overlap_param_gather slow. cluster profile rates any_profile more_nodes network. "
        "loss_scaling model. optimizer. "
        "data. checkpoint. steps. timeout. seed memory_limit_gib host_memory_limit_gib";
    char object[96];
    snprintf(object, sizeof object, "%.*s.", (int)strcspn(path, "."), path);
    return dt_is_one_of(path, said) || dt_is_one_of(object, said);
}

/* Add every other key that differs from its default, so that new keys are never left out. */
static void add_others(char text[STRATEGY_BYTES], const struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    static const struct experiment zero;
    struct experiment defaults = zero;
    if (dt_config_defaults(table, &defaults) < 0)
        return;
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        char value[VALUE_BYTES], usual[VALUE_BYTES];
        if (is_said(field->path) || !experiment_depends_on(e, field))
            continue;
        experiment_value(e, field, value);
        experiment_value(&defaults, field, usual);
        if (strcmp(value, usual) != 0)
            ADD(text, ", %s %s", experiment_key_title(field->path), value);
    }
}

void strategy_describe(const struct experiment *e, char text[STRATEGY_BYTES])
{
    static const char *const activations[] = {[ACTIVATION_CHECKPOINT] = "checkpoint",
                                              [ACTIVATION_OFFLOAD] = "activations on the host",
                                              [ACTIVATION_SELECTIVE] = "selective recomputation",
                                              [ACTIVATION_CORE_ATTENTION] = "attention recomputed",
                                              [ACTIVATION_SELECTIVE_OP] = "every second product recomputed"};
    const struct paradigm *p = e->strategy.paradigm;
    struct mesh_shape mesh = e->strategy.mesh;
    int shards = mesh_group_size(&mesh, MESH_SHARD), replicas = mesh.size[MESH_REPLICA], stages = mesh.size[MESH_PIPELINE];
    snprintf(text, STRATEGY_BYTES, "%s", e->strategy.paradigm->title);
    if (p->axes & MESH_ON_SHARD && p->axes & MESH_ON_REPLICA)
        ADD(text, " %dx%d", shards, replicas);
    if (mesh.size[MESH_TENSOR] > 1)
        ADD(text, ", tensor %d", mesh.size[MESH_TENSOR]);
    if (mesh.size[MESH_CONTEXT] > 1)
        ADD(text, ", context %d by %s", mesh.size[MESH_CONTEXT], context_kind_name(e->context.comm_type));
    if (stages > 1) {
        ADD(text, ", %d stages", stages);
        if (mesh_count(&mesh, MESH_ON_DATA) > 1)
            ADD(text, " x %d", mesh_count(&mesh, MESH_ON_DATA));
        add_order(text, e->pipeline.order);
        if (e->mesh.order == MESH_TENSOR_DATA_PIPELINE)
            ADD(text, ", stages apart");
    }
    int micro_batches = e->micro_batches * (stages > 1 ? e->pipeline.chunks : 1);
    if (micro_batches > 1)
        ADD(text, ", %d micro-batches", micro_batches);
    if (activations[e->activation])
        ADD(text, ", %s", activations[e->activation]);
    if (e->parameter_offload)
        ADD(text, ", parameters on the host");
    if (p->reads & READS_UNITS && e->fsdp.unit == DT_UNIT_LINEAR)
        ADD(text, ", linear units");
    if (p->reads & READS_UNITS && e->fsdp.gather == GATHER_ONCE)
        ADD(text, ", gathered once a step");
    if (p->reads & READS_SHARES && e->ddp.overlap_param_gather)
        ADD(text, ", gathered by the next step");
    if (p->reads & READS_BUCKETS && e->ddp.bucket_mib != 25 && e->world_size > 1)
        ADD(text, ", buckets of %g MiB", e->ddp.bucket_mib);
    add_others(text, e);
}

/* ---- how far a prediction can be trusted ---- */

/* The measured runs with which a profile was compared, on one kind of cluster. */
struct validation {
    const char *profile, *gpu; /* names in their files */
    unsigned modes;            /* the modes of the measured paradigms, a bit each */
    uint64_t least_parameters, most_parameters;
    int most_gpus;
    int block_size;
    const char *attention; /* the word in configs */
    enum dt_dtype dtype;
    enum optimizer_kind optimizer;
};

/* From results/study/measured.csv. The profile has the errors of its predictions. */
static const struct validation validations[] = {
    {.profile = "PyTorch 1.11 eager, A100",
     .gpu = "NVIDIA A100-SXM4-40GB",
     .modes = 1U << PARADIGM_DDP | 1U << PARADIGM_PDP | 1U << PARADIGM_FSDP,
     .least_parameters = 162052608,
     .most_parameters = 175000000000,
     .most_gpus = 128,
     .block_size = 256,
     .attention = "unfused",
     .dtype = DT_FP16,
     .optimizer = OPTIMIZER_SGD},
};

#define NEVER_MEASURED 0.3

static const struct validation *find(const struct simulated_machine *m)
{
    for (size_t i = 0; i < sizeof validations / sizeof *validations; i++)
        if (strcmp(validations[i].profile, m->profile.name) == 0)
            return &validations[i];
    return NULL;
}

struct confidence confidence_of(const struct experiment *e, const struct simulated_machine *m)
{
    const struct validation *v = find(m);
    if (m->profile.error.median == 0)
        return (struct confidence){.error = NEVER_MEASURED, .eight = NAN, .unseen = NAN};
    bool measured = !v || v->modes & 1U << e->paradigm;
    return (struct confidence){.measured = measured,
                               .error = measured ? m->profile.error.median : m->profile.error.most,
                               .eight = measured ? profile_eight(&m->profile) : NAN,
                               .unseen = measured && m->profile.error.unseen > 0 ? m->profile.error.unseen : NAN,
                               .source = m->profile.error.of};
}

double planner_noise(const struct planner *p, const struct experiment *a, const struct experiment *b)
{
    return p->options.objective == SEARCH_MEMORY ? 0 : fmax(confidence_of(a, &p->machine).error, confidence_of(b, &p->machine).error);
}

/* Each function checks one property; false: no doubt. */
static bool doubts_gpu(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "GPU: the profile was measured on %s, but the cluster has %s", v->gpu, m->cluster.gpu.name);
    return strcmp(v->gpu, m->cluster.gpu.name) != 0;
}

static bool doubts_network(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                           size_t bytes)
{
    snprintf(text, bytes, "network: runs over several nodes were measured on 100 Gbit/s Ethernet with plain sockets, not on cluster %s",
             m->cluster.name);
    return e->world_size > m->cluster.gpus_per_node && strcmp(m->cluster.name, "gcp_a2") != 0;
}

static bool doubts_model(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                         size_t bytes)
{
    uint64_t parameters = dt_model_parameter_count(&e->model);
    snprintf(text, bytes, "model: %.3g parameters; measured models have %.3g to %.3g", (double)parameters, (double)v->least_parameters,
             (double)v->most_parameters);
    return (double)parameters < 0.95 * (double)v->least_parameters || (double)parameters > 1.05 * (double)v->most_parameters;
}

static bool doubts_gpus(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "GPUs: %d; at most %d were measured", e->world_size, v->most_gpus);
    return e->world_size > v->most_gpus;
}

static bool doubts_workload(const struct experiment *e, const struct simulated_machine *m, const struct validation *v, char *text,
                            size_t bytes)
{
    const struct dt_table *table = experiment_table();
    char what[160] = "", attention[VALUE_BYTES];
    experiment_value(e, &table->fields[dt_config_find(table, "model.attention")], attention);
    if (strcmp(attention, v->attention) != 0)
        dt_append(what, sizeof what, ", ", "%s attention", v->attention);
    if (dt_model_units(&e->model) != v->block_size)
        dt_append(what, sizeof what, ", ", "%d tokens a sample", v->block_size);
    if (e->optimizer.name != v->optimizer)
        dt_append(what, sizeof what, ", ", "SGD");
    if (e->model.dtype != v->dtype)
        dt_append(what, sizeof what, ", ", "%s", dt_dtype_name(v->dtype));
    snprintf(text, bytes, "workload: measured with %s", *what ? what : "the same");
    return *what;
}

bool confidence_next_doubt(const struct experiment *e, const struct simulated_machine *m, int *at, char *text, size_t text_bytes)
{
    static bool (*const doubts[])(const struct experiment *, const struct simulated_machine *, const struct validation *, char *,
                                  size_t) = {doubts_gpu, doubts_network, doubts_model, doubts_gpus, doubts_workload};
    const struct validation *v = find(m);
    if (!v && m->profile.error.median == 0 && (*at)++ == 0) {
        snprintf(text, text_bytes, "profile \"%s\" was never compared with measurements%s", m->profile.name,
                 m->profile.measured.count > 0 ? "; scripts/check_calibration --calibration DIR does that" : "");
        return true;
    }
    for (; v && *at < (int)(sizeof doubts / sizeof *doubts);)
        if (doubts[(*at)++](e, m, v, text, text_bytes))
            return true;
    return false;
}
