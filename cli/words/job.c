/* Settles the numbers of ranks and samples. Each framework gives some of them; the others
 * follow. */
#include "cli/words/words.h"

#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* ---- what is sharded ---- */

static const struct {
    const char *sharding;
    enum paradigm_kind paradigm;
} shardings[] = {
    {"none", PARADIGM_DDP},        {"optimizer", PARADIGM_ZERO1}, {"gradients", PARADIGM_ZERO2},
    {"parameters", PARADIGM_FSDP}, {"none", PARADIGM_PDP}, /* pdp is the study's name for ddp with a pipeline */
    {"none", PARADIGM_NONE},
};

enum { SHARDINGS = sizeof shardings / sizeof *shardings };

/* contexts: how many ranks share each sample. */
static void settle_paradigm(struct dt_translation *t, double data_ranks, double contexts)
{
    double shard = dt_json_number(t->ours, "job.shard", data_ranks);
    enum paradigm_kind paradigm = PARADIGM_DDP;
    for (int i = SHARDINGS - 1; i >= 0; i--) /* backwards: of rows with the same word the first one counts */
        if (dt_json_is(dt_json_at(t->ours, "job.sharding"), shardings[i].sharding))
            paradigm = shardings[i].paradigm;
    if (data_ranks * contexts == 1) {
        paradigm = PARADIGM_NONE;
    } else if (shard * contexts == 1) {
        paradigm = PARADIGM_DDP;
    } else if (shard < data_ranks && paradigm == PARADIGM_FSDP) {
        paradigm = PARADIGM_HSDP;
        dt_json_put_number(t->ours, "hsdp.shard_size", shard * contexts);
    } else if (shard < data_ranks) {
        dt_remark(t, DT_REMARK_CANNOT,
                  "shards are divided over %g of %g data-parallel ranks; dtbench does this only where parameters are sharded, too", shard,
                  data_ranks);
    }
    dt_json_put(t->ours, "paradigm", dt_json_text(paradigm_name(paradigm)));
}

static void prepare_paradigm(struct dt_translation *t, const struct experiment *e)
{
    const char *sharding = NULL;
    dt_json_drop(t->ours, "paradigm");
    for (int i = 0; i < SHARDINGS && !sharding; i++)
        sharding = shardings[i].paradigm == e->paradigm ? shardings[i].sharding : NULL;
    if (e->paradigm == PARADIGM_HSDP) {
        double shard = dt_json_number(t->ours, "hsdp.shard_size", 0);
        dt_json_drop(t->ours, "hsdp.shard_size");
        dt_json_put_number(t->ours, "job.shard", shard / e->context.size);
        if (shard == 0)
            dt_remark(t, DT_REMARK_CANNOT, "hsdp.shard_size: 0; a job needs the number");
        sharding = "parameters";
    }
    if (sharding)
        dt_json_put(t->ours, "job.sharding", dt_json_text(sharding));
    else
        dt_remark(t, DT_REMARK_CANNOT, "paradigm: %s; only dtbench trains so", paradigm_name(e->paradigm));
}

/* A number of the job, named `what`; 0: it is not said, or is no number from 1 on, which is
 * said. */
static double count_of(struct dt_translation *t, const char *key, const char *what)
{
    char quote[80];
    const struct cJSON *said = dt_json_at(t->ours, key);
    double count = dt_json_number(t->ours, key, 0);
    if (!said || count >= 1)
        return count;
    dt_json_quote(said, quote, sizeof quote);
    dt_remark(t, DT_REMARK_CANNOT, "%s: %s; a number from 1 on is expected", what, quote);
    return 0;
}

/* ---- how many GPUs ---- */

static double settle_world(struct dt_translation *t, int gpus, double ranks)
{
    double nodes = dt_json_number(t->ours, "job.nodes", 1), per_node = dt_json_number(t->ours, "job.gpus_per_node", 0);
    double data = dt_json_number(t->ours, "job.data", 0), world = dt_json_number(t->ours, "job.world", nodes * per_node);
    if (world == 0)
        world = data * ranks;
    if (gpus > 0)
        world = gpus;
    if (world == 0) {
        world = fmax(ranks, 8);
        dt_remark(t, DT_REMARK_CANNOT, "the file does not say how many GPUs: --gpus N; %g are assumed", world);
    }
    if (fmod(world, ranks) != 0)
        dt_remark(t, DT_REMARK_CANNOT, "%g GPUs are not a multiple of the %g that hold one copy of the model", world, ranks);
    dt_json_put_number(t->ours, "world_size", world);
    return world;
}

/* ---- how many samples ---- */

static void settle_batch(struct dt_translation *t, int micro_batch, double data_ranks, double ranks, double stages)
{
    double micro = micro_batch > 0 ? micro_batch : count_of(t, "job.micro_batch", "samples of a GPU at a time");
    double parts = count_of(t, "job.parts", "gradient accumulation"), global = count_of(t, "job.global_batch", "samples of a step");
    bool all_said = micro > 0 && parts > 0 && global > 0;
    if (micro == 0 && global > 0 && parts > 0)
        micro = global / (parts * data_ranks);
    bool said = dt_json_at(t->ours, "job.micro_batch");
    micro = micro == 0 && said ? 1 : micro;
    if (micro == 0) {
        micro = 1;
        dt_remark(t, DT_REMARK_CANNOT, "the file does not say how many samples a GPU computes at a time: --micro-batch N; 1 is assumed");
    }
    double window = dt_json_number(t->ours, "job.window", 0);
    if (global == 0)
        global = micro * data_ranks * fmax(parts, 1) * fmax(window, 1);
    double passes = global / data_ranks / micro;
    if (passes != floor(passes) || passes < 1) {
        passes = fmax(1, round(passes));
        dt_remark(t, DT_REMARK_CANNOT, "a step's %g samples are not a multiple of %g at a time on %g data-parallel ranks; %g are assumed",
                  global, micro, data_ranks, passes * micro * data_ranks);
    } else if (all_said && passes != parts * fmax(window, 1)) {
        dt_remark(t, DT_REMARK_ASSUMED, "a step's %g samples are %g passes of %g on %g data-parallel ranks, not %g", global, passes, micro,
                  data_ranks, parts * fmax(window, 1));
    }
    dt_json_put_number(t->ours, "batch_size", passes * micro / ranks);
    parts = stages == 1 ? passes : window > 0 ? passes / window : fmax(parts, 1);
    dt_json_put_number(t->ours, "micro_batches", parts);
    if (stages > 1)
        dt_json_put_number(t->ours, "pipeline.chunks", passes / parts);
    else
        dt_json_drop(t->ours, "pipeline");
}

bool job_reduces_each(const struct dt_translation *t, const char *words)
{
    return words && dt_is_one_of(dt_json_text_at(t->ours, "job.sharding"), words);
}

/* Of a step that is one part the last is each. */
static void settle_reduction(struct dt_translation *t)
{
    double parts = dt_json_number(t->ours, "micro_batches", 1);
    if (parts <= 1)
        dt_json_put(t->ours, "gradient_reduction", dt_json_text("last"));
    else if (dt_json_is(dt_json_at(t->ours, "gradient_reduction"), "each"))
        dt_remark(t, DT_REMARK_ASSUMED, "gradient_reduction: each; gradients are reduced there after each of the step's %g parts", parts);
}

/* ---- numbers ---- */

/* All frameworks update fp32 copies of 16-bit parameters, and fp32 parameters in place, unless
 * their settings say otherwise. */
static void settle_numbers(struct dt_translation *t)
{
    const struct cJSON *dtype = dt_json_at(t->ours, "model.dtype");
    if (!dt_json_at(t->ours, "optimizer.master_weights"))
        dt_json_put(t->ours, "optimizer.master_weights", dt_json_truth(!dt_json_is(dtype, "fp32")));
    if (!dt_json_is(dtype, "fp16"))
        dt_json_drop(t->ours, "loss_scaling");
    if (!dt_json_is(dt_json_at(t->ours, "loss_scaling"), "dynamic"))
        dt_json_drop(t->ours, "dynamic_loss_scale");
}

void job_say_copies(struct dt_translation *t)
{
    const char *dtype = cJSON_GetStringValue(dt_json_at(t->ours, "model.dtype"));
    if (dtype && strcmp(dtype, "fp32") != 0 && !dt_json_at(t->ours, "optimizer.master_weights"))
        dt_remark(t, DT_REMARK_ASSUMED, "shards of the parameters are fp32 there, and in %s here with an fp32 copy in the optimizer",
                  dtype);
}

void job_scale_dynamically(struct dt_translation *t, double initial)
{
    dt_json_put(t->ours, "loss_scaling", dt_json_text("dynamic"));
    dt_json_put_number(t->ours, "dynamic_loss_scale.initial", dt_json_number(t->ours, "dynamic_loss_scale.initial", initial));
    dt_json_put_number(t->ours, "dynamic_loss_scale.window", dt_json_number(t->ours, "dynamic_loss_scale.window", 1000));
}

static void prepare_numbers(struct dt_translation *t, const struct experiment *e)
{
    bool copies = e->model.dtype != DT_FP32, dynamic = e->model.dtype == DT_FP16 && experiment_scales_dynamically(e);
    dt_json_put_number(t->ours, "optimizer.clip_norm", e->optimizer.clip_norm); /* the framework's default differs */
    dt_json_put(t->ours, "optimizer.master_weights", copies && !e->optimizer.master_weights ? dt_json_truth(false) : NULL);
    if (!copies)
        dt_json_drop(t->ours, "gradient_dtype"); /* fp32 is the default for fp32 parameters */
    if (!copies && e->optimizer.master_weights) {
        dt_json_drop(t->ours, "optimizer.master_weights");
        dt_remark(t, DT_REMARK_ASSUMED,
                  "optimizer.master_weights: the framework keeps no copy of fp32 parameters: 4 bytes a parameter fewer");
    }
    if (e->model.dtype != DT_FP16 || dynamic)
        dt_json_drop(t->ours, "loss_scaling");
    if (dynamic) {
        dt_json_put_number(t->ours, "dynamic_loss_scale.initial", dt_json_number(t->ours, "dynamic_loss_scale.initial", 65536));
        dt_json_put_number(t->ours, "dynamic_loss_scale.window", dt_json_number(t->ours, "dynamic_loss_scale.window", 2000));
    } else {
        dt_json_drop(t->ours, "dynamic_loss_scale");
    }
    if (dynamic &&
        (dt_json_number(t->ours, "dynamic_loss_scale.growth", 2) != 2 || dt_json_number(t->ours, "dynamic_loss_scale.backoff", 0.5) != 0.5))
        dt_remark(t, DT_REMARK_ALIKE, "dynamic_loss_scale: the framework doubles and halves the scale");
    dt_json_drop(t->ours, "dynamic_loss_scale.growth dynamic_loss_scale.backoff");
}

void job_settle(struct dt_translation *t, const struct import_options *options)
{
    double stages = fmax(1, count_of(t, "pipeline.stages", "ranks of a pipeline"));
    double ranks = stages * fmax(1, count_of(t, "tensor.size", "ranks of a tensor group"));
    double contexts = fmax(1, count_of(t, "context.size", "ranks of a context group")), copy = ranks * contexts;
    double data_ranks = fmax(1, floor(settle_world(t, options->gpus, copy) / copy));
    if (contexts == 1)
        dt_json_drop(t->ours, "context");
    settle_numbers(t);
    settle_paradigm(t, data_ranks, contexts);
    settle_batch(t, options->micro_batch, data_ranks, ranks, stages);
    settle_reduction(t);
    dt_json_drop(t->ours, "job");
}

/* Whether the ranks are placed as the frameworks place them: axes of one rank have no place. */
static bool is_placed_alike(const struct experiment *e)
{
    struct experiment theirs = *e;
    theirs.mesh.order = MESH_TENSOR_DATA_PIPELINE;
    experiment_settle(&theirs);
    const struct mesh_shape *mesh = &e->strategy.mesh, *other = &theirs.strategy.mesh;
    for (int axis = 0; axis < MESH_AXES; axis++)
        if (mesh->size[axis] > 1 && mesh_span(mesh, (enum mesh_axis)axis) != mesh_span(other, (enum mesh_axis)axis))
            return false;
    return true;
}

void job_prepare(struct dt_translation *t, const struct experiment *e)
{
    const struct strategy *s = &e->strategy;
    int ranks = s->stages * e->tensor.size, of_replica = (int)experiment_replica_samples(e),
        data_ranks = e->world_size / ranks / e->context.size;
    int per_node = e->gpus_per_node ? e->gpus_per_node : e->world_size % 8 == 0 ? 8 : e->world_size;
    dt_json_drop(t->ours, "world_size batch_size micro_batches pipeline.chunks");
    if (is_placed_alike(e))
        dt_json_drop(t->ours, "mesh");
    prepare_numbers(t, e);
    prepare_paradigm(t, e);
    if (of_replica % s->micro_batches != 0)
        dt_remark(t, DT_REMARK_CANNOT, "%d samples in %d micro-batches; other frameworks need micro-batches of equal size", of_replica,
                  s->micro_batches);
    dt_json_put_number(t->ours, "job.micro_batch", of_replica / s->micro_batches);
    dt_json_put_number(t->ours, "job.parts", e->micro_batches);
    dt_json_put_number(t->ours, "job.global_batch", (double)experiment_global_batch(e));
    dt_json_put_number(t->ours, "job.data", data_ranks);
    dt_json_put_number(t->ours, "job.world", e->world_size);
    dt_json_put_number(t->ours, "job.gpus_per_node", per_node);
    dt_json_put_number(t->ours, "job.nodes", e->world_size / per_node);
}
