/* Checks of several keys together: complete an experiment, and refuse impossible combinations. */
#include "lib/base/grow.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "schedules/config/data.h"
#include "schedules/config/families.h"
#include "schedules/config/model_from.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"
#include "schedules/config/split.h"
#include "schedules/plan/plan.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From this number of parameters on FSDP gathers each linear layer by itself, as the study does
 * from its 81B model on. */
#define FSDP_LINEAR_FROM 80e9

/* Limit of the forward passes of a step over the ranks of one pipeline. Larger plans take gigabytes
 * and minutes; 64 stages of 8 parts may still have 2048 micro-batches. */
enum { MOST_PASSES = 1 << 20 };

enum { PATH_OF_A_FILE = 128 }; /* the keys' cluster and profile are shorter */

enum { SIZES_BYTES = 256 };

static bool is_given(const bool *given, const char *path)
{
    return !given || given[dt_config_find(experiment_table(), path)];
}

static dt_status check_model(struct experiment *e, const char *where)
{
    return e->model.family->check_model(&e->model) == DT_OK ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: %s", where, dt_error_message());
}

/* "layers, heads and hidden" */
static const char *sizes_text(const struct dt_model_family *family, char text[SIZES_BYTES])
{
    size_t used = 0;
    for (int i = 0; i < family->sizes; i++) {
        const char *between = i == 0 ? "" : i + 1 == family->sizes ? " and " : ", ";
        used += (size_t)snprintf(text + used, SIZES_BYTES - used, "%s%s", between, family->keys[i].path + strlen("model."));
    }
    return text;
}

/* The family of a model without a preset: that of the first size that is given; without one, the
 * first family. */
static const struct dt_model_family *family_of_sizes(const bool *given)
{
    for (int f = 0; model_family(f); f++)
        for (int i = 0; i < model_family(f)->sizes; i++)
            if (is_given(given, model_family(f)->keys[i].path))
                return model_family(f);
    return model_family(0);
}

/* Find which of the family's keys are given; a key of another family is an error. */
static dt_status find_given(const struct dt_model *m, const bool *given, const char *where, bool own[DT_MODEL_KEYS_MAX])
{
    const struct dt_table *table = experiment_table();
    int k = 0;
    for (int i = 0; i < table->count; i++) {
        const struct dt_model_family *family = experiment_field_family(&table->fields[i]);
        if (family == m->family)
            own[k++] = !given || given[i];
        else if (family && given && given[i])
            return dt_fail(DT_ERR_INVALID, "%s: %s: a key of models of the family %s; this one is of the family %s", where,
                           table->fields[i].path, family->name, m->family->name);
    }
    return DT_OK;
}

/* Complete a model that a file describes: keys of the config take precedence over the file. */
static dt_status resolve_model_from(struct experiment *e, const bool *given, const char *where)
{
    struct dt_model described = {.family = NULL}, *m = &e->model;
    bool says[DT_MODEL_KEYS_MAX], own[DT_MODEL_KEYS_MAX];
    if (is_given(given, "model.preset"))
        return dt_fail(DT_ERR_INVALID, "%s: model: both a preset and from are given; each says the sizes itself", where);
    DT_TRY(model_read_from(e->model_from, e->directory, where, &described, says));
    const struct dt_model_family *family = described.family;
    model_set_family(m, family);
    DT_TRY(find_given(m, given, where, own));
    for (int i = 0; i < family->key_count; i++) {
        const struct dt_field *key = &family->keys[i];
        if (i < family->sizes && !own[i] && !says[i])
            return dt_fail(DT_ERR_INVALID, "%s: model.from: %s: does not say %s", where, e->model_from, key->path);
        if (says[i] && !own[i])
            memcpy(m->own + m->own_at + key->offset, described.own + described.own_at + key->offset, key->size);
    }
    m->preset[0] = 0;
    e->model_from = "";
    return DT_OK;
}

static dt_status resolve_model(struct experiment *e, const bool *given, const char *where)
{
    if (given && is_given(given, "model.from"))
        return resolve_model_from(e, given, where);
    e->model_from = "";
    struct dt_model *m = &e->model;
    const struct dt_model_family *family = given || !m->family ? NULL : m->family;
    const struct dt_model_preset *preset = NULL;
    const char *present = NULL, *missing = NULL;
    bool own[DT_MODEL_KEYS_MAX];
    char sizes[SIZES_BYTES];
    if (given ? is_given(given, "model.preset") : m->preset[0] != 0) {
        preset = model_find_preset(m->preset, &family);
        if (!preset)
            return dt_fail(DT_ERR_INVALID, "%s: model.preset: \"%s\" is not known", where, m->preset);
    } else if (!family) {
        family = family_of_sizes(given);
    }
    model_set_family(m, family);
    DT_TRY(find_given(m, given, where, own));
    for (int i = 0; i < family->sizes; i++)
        *(own[i] ? &present : &missing) = family->keys[i].path;
    if (preset && given && present)
        return dt_fail(DT_ERR_INVALID, "%s: model: both a preset and %s are given; a preset says the sizes itself", where, present);
    if (!preset && !present)
        return dt_fail(DT_ERR_INVALID, "%s: model: needs a preset (\"GPTSmall\", say), or %s", where, sizes_text(family, sizes));
    if (!preset && missing)
        return dt_fail(DT_ERR_INVALID, "%s: %s: missing; expected %s, or a preset", where, missing, sizes_text(family, sizes));
    if (preset)
        model_take_preset(m, preset, own);
    else
        m->preset[0] = 0;
    return DT_OK;
}

/* Reducing in fp32 loses nothing, and reducing fp32 gradients in 16 bits saves half of the bytes;
 * from one 16-bit type to the other nothing is gained. */
static dt_status check_reduction(const struct experiment *e, const char *where)
{
    enum dt_dtype own = experiment_gradient_dtype(e), sent = experiment_reduce_dtype(e);
    if (own == sent || own == DT_FP32 || sent == DT_FP32)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: reduce_dtype: %s, and model.dtype is %s, which has as many bytes; use \"model\" or \"fp32\"", where,
                   dt_dtype_name(sent), dt_dtype_name(own));
}

dt_status experiment_check_dtype(const struct experiment *e, const struct dt_device_kind *kind, const char *where)
{
    const struct dt_model *m = &e->model;
    if (!kind || kind->index != DT_DEVICE_CPU || !(m->family->cpu_lacks >> m->dtype & 1))
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: model.dtype: %s, in which no model of the family %s computes on cpu; use \"fp32\" or \"bf16\"",
                   where, dt_dtype_name(m->dtype), m->family->name);
}

/* Products in FP8 can be predicted, but not computed. */
static dt_status check_fp8(const struct experiment *e, const char *where)
{
    const char *name = dt_fp8_recipe(e->model.fp8)->name;
    if (!e->model.fp8 && e->model.fp8_gather)
        return dt_fail(DT_ERR_INVALID, "%s: fp8.gather: nothing is in FP8 with fp8.recipe \"none\"; use \"tensorwise\"", where);
    if (!e->model.fp8)
        return DT_OK;
    if (!experiment_is_simulated(e))
        return dt_fail(DT_ERR_INVALID, "%s: fp8.recipe: only device \"sim\" knows products in FP8, and device is \"%s\"; use \"none\"",
                       where, e->device);
    if (!e->model.family->fp8)
        return dt_fail(DT_ERR_INVALID, "%s: fp8.recipe: %s; models of the family %s have no such layers; use \"none\"", where, name,
                       e->model.family->name);
    if (dt_dtype_bytes(e->model.dtype) != 2)
        return dt_fail(DT_ERR_INVALID,
                       "%s: fp8.recipe: %s; operands are cast from 16 bits, and model.dtype is %s; use \"bf16\" or \"fp16\"", where, name,
                       dt_dtype_name(e->model.dtype));
    if (e->model.fp8_gather && (!dt_fp8_recipe(e->model.fp8)->of_tensors || e->parameter_offload))
        return dt_fail(DT_ERR_INVALID, "%s: fp8.gather: goes with fp8.recipe delayed, current or tensorwise, and without parameter_offload",
                       where);
    return DT_OK;
}

/* The size of everything that a rank allocates must fit its type: the largest tensors stay far
 * below 2^63 bytes. */
static dt_status check_sizes(const struct experiment *e, const char *where)
{
    const char *keys;
    double samples = e->batch_size * mesh_count(&e->strategy.mesh, MESH_ON_MODEL);
    double largest = dt_largest_tensor(&e->model, samples, &keys);
    if (largest * 16 < 0x1p62)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: batch_size: together with %s it makes tensors of %.3g elements; no machine can hold them", where,
                   keys, largest);
}

static dt_status resolve_batch(struct experiment *e, const bool *given, const char *where)
{
    const struct dt_table *table = experiment_table();
    int batch = e->global_batch, world = e->world_size > e->context.size ? e->world_size / e->context.size : 1;
    double of_rank = (double)batch / world, most = table->fields[dt_config_find(table, "batch_size")].max;
    if (!given || !is_given(given, "global_batch")) {
        e->global_batch = given ? 0 : batch;
        return DT_OK;
    }
    if (is_given(given, "batch_size"))
        return dt_fail(DT_ERR_INVALID, "%s: global_batch: batch_size is given, too; it is what world_size %d makes of global_batch", where,
                       world);
    if (of_rank > most)
        return dt_fail(DT_ERR_INVALID, "%s: global_batch: %.10g samples of each of %d ranks; a rank has at most %g", where, of_rank, world,
                       most);
    e->batch_size = of_rank;
    return DT_OK;
}

/* Whether dtbench has written the config, as in records: it then has keys of paradigms that exclude
 * each other. In the first versions `pipeline` was pdp's only; later ones write
 * pipeline.paradigms. */
static bool is_written_out(const bool *given)
{
    return is_given(given, "hsdp.shard_size") && is_given(given, "parameter_server.servers");
}

/* Unless chunks are given, the list of first blocks says how many parts each rank has. */
static void count_parts(struct experiment *e, const bool *given)
{
    const struct pipeline_order *order = pipeline_order_find(e->pipeline.order);
    uint16_t points[SPLIT_MOST_POINTS];
    int parts = split_points(e->pipeline.split, points) + 1, of_rank = parts / e->pipeline.stages;
    bool chosen = order && !order->emit_all && order->parts == 0;
    if (chosen && !is_given(given, "pipeline.virtual_stages") && parts % e->pipeline.stages == 0 && of_rank > 1 &&
        of_rank <= ORDER_MOST_PARTS)
        e->pipeline.virtual_stages = of_rank;
}

/* After this it is known whether the experiment has a pipeline. */
static void resolve_pipeline(struct experiment *e, const bool *given)
{
    if (!is_given(given, "pipeline.paradigms")) {
        bool meant = is_given(given, "pipeline.stages") && !is_written_out(given);
        e->pipeline.paradigms = meant ? PIPELINE_OF_ALL : PIPELINE_OF_PDP;
    }
    if (e->paradigm == PARADIGM_PDP || e->pipeline.stages == 1) /* it makes no difference */
        e->pipeline.paradigms = PIPELINE_OF_PDP;
    count_parts(e, given);
}

static dt_status check_passes(const struct experiment *e, const char *where)
{
    const struct strategy *s = &e->strategy;
    int64_t parts = (int64_t)s->stages * (s->parts ? s->parts : 1), micro_batches = (int64_t)e->pipeline.chunks * e->micro_batches;
    if (parts * micro_batches <= MOST_PASSES)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID,
                   "%s: pipeline.chunks: %" PRId64 " micro-batches through %" PRId64
                   " parts of a pipeline are too many passes to plan; at most %d are planned, %" PRId64 " micro-batches here",
                   where, micro_batches, parts, MOST_PASSES, MOST_PASSES / parts);
}

/* Each part of each stage needs a layer. */
static dt_status check_layers(const struct experiment *e, const char *where)
{
    const struct strategy *s = &e->strategy;
    if (s->has_order_file && s->split_points)
        return DT_OK;
    int stages = s->stages, parts = s->parts ? s->parts : 1;
    if (!s->has_order_file)
        DT_TRY(experiment_check_activation(e, parts, where));
    int *first_layer = malloc(((size_t)stages * (size_t)parts + 1) * sizeof *first_layer);
    DT_TRY(dt_allocated(first_layer, "%s: out of memory", where));
    dt_status status = experiment_partition(e, stages * parts, first_layer);
    free(first_layer);
    if (status != DT_ERR_INVALID)
        return status;
    if (s->split_points)
        return dt_fail(DT_ERR_INVALID, "%s: %s", where, dt_error_message());
    if (parts == 1)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %s", where, dt_error_message());
    return dt_fail(DT_ERR_INVALID, "%s: pipeline.order: %s divides each of %d stages into %d parts: %s", where, s->order->name, stages,
                   parts, dt_error_message());
}

static dt_status check_pipeline(const struct experiment *e, const char *where)
{
    int64_t samples = experiment_replica_samples(e);
    if ((int64_t)e->pipeline.chunks * e->micro_batches > samples)
        return dt_fail(DT_ERR_INVALID,
                       "%s: pipeline.chunks: %d chunks (times micro_batches %d) of the pipeline's %" PRId64
                       " samples (%sstages * batch_size); at most one each",
                       where, e->pipeline.chunks, e->micro_batches, samples, e->tensor.size > 1 ? "tensor.size * " : "");
    DT_TRY(check_passes(e, where));
    return e->passes_only ? DT_OK : check_layers(e, where);
}

static dt_status check_tensor_group(const struct experiment *e, const char *where)
{
    if (e->tensor.size > 1 && !e->model.family->check_tensor_group)
        return dt_fail(DT_ERR_INVALID, "%s: tensor.size: layers of the family %s are not divided; 1 is all that goes", where,
                       e->model.family->name);
    if (e->tensor.size > 1 && e->model.family->check_tensor_group(&e->model, e->tensor.size, e->tensor.sequence_parallel) < 0)
        return dt_fail(DT_ERR_INVALID, "%s: tensor.size: %s", where, dt_error_message());
    if (e->tensor.overlap && e->tensor.size > 1 && !experiment_is_simulated(e))
        return dt_fail(DT_ERR_INVALID, "%s: tensor.overlap: only device \"sim\" knows it, and device is \"%s\"; use false", where,
                       e->device);
    if (e->tensor.overlap && e->tensor.size > 1 && !e->tensor.sequence_parallel)
        return dt_fail(DT_ERR_INVALID, "%s: tensor.overlap: it is of tensor.sequence_parallel, which is false; use false, or both", where);
    if (e->gpus_per_node > 0 && !e->straddle_nodes && e->gpus_per_node < e->tensor.size)
        return dt_fail(DT_ERR_INVALID,
                       "%s: tensor.size: %d ranks that share each layer would straddle nodes of gpus_per_node %d; use at most that, or "
                       "allow it with \"straddle_nodes\": true",
                       where, e->tensor.size, e->gpus_per_node);
    return DT_OK;
}

/* Check the ranks that share the positions of each sample. */
static dt_status check_context_group(const struct experiment *e, const char *where)
{
    const struct dt_model_family *family = e->model.family;
    int ranks = e->context.size;
    if (ranks == 1)
        return DT_OK;
    if (!family->check_context_group)
        return dt_fail(DT_ERR_INVALID, "%s: context.size: samples of the family %s have no positions to share; 1 is all that goes", where,
                       family->name);
    if (e->strategy.paradigm->of_the_past)
        return dt_fail(DT_ERR_INVALID, "%s: context.size: paradigm \"%s\" divides no samples over %d ranks; use \"ddp\"", where,
                       e->strategy.paradigm->name, ranks);
    if (family->check_context_group(&e->model, ranks, e->context.comm_type, e->tensor.size,
                                    e->tensor.size > 1 && e->tensor.sequence_parallel) == DT_OK)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: context.size: %s", where, dt_error_message());
}

static dt_status check_checkpoints(const struct experiment *e, const char *where)
{
    if (!*e->checkpoint.path && strcmp(e->checkpoint.from, "auto") == 0)
        return dt_fail(DT_ERR_INVALID, "%s: checkpoint.from: auto goes on with what is in checkpoint.path, which is not given", where);
    return DT_OK;
}

/* Keys that say how a run saves make no sense unless it saves. given: as in experiment_resolve. */
static dt_status check_saving(const struct experiment *e, const bool *given, const char *where)
{
    const char *key = e->checkpoint.save_every > 0 && is_given(given, "checkpoint.save_every")   ? "save_every"
                      : e->checkpoint.asynchronous && is_given(given, "checkpoint.asynchronous") ? "asynchronous"
                                                                                                 : NULL;
    if (*e->checkpoint.path || !given || !key)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: checkpoint.%s: nothing is saved without checkpoint.path; give it a folder", where, key);
}

static dt_status check_micro_batches(const struct experiment *e, const char *where)
{
    if (!e->model.family->check_micro_batches ||
        e->model.family->check_micro_batches(&e->model, experiment_replica_samples(e), e->strategy.micro_batches,
                                             mesh_count(&e->strategy.mesh, MESH_ON_DATA)) == DT_OK)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: %s", where, dt_error_message());
}

/* The ranks of a replica, those of its pipeline and tensor groups, have whole samples together. */
static dt_status check_samples(const struct experiment *e, const char *where)
{
    int ranks = mesh_count(&e->strategy.mesh, MESH_ON_MODEL), replicas = e->world_size / e->context.size / ranks;
    double samples = e->batch_size * ranks, whole = fmax(1, floor(samples));
    if (samples >= 1 && fabs(samples - round(samples)) < 1e-6)
        return DT_OK;
    if (e->global_batch > 0)
        return dt_fail(DT_ERR_INVALID, "%s: global_batch: %d samples cannot be divided among %d replicas of the model; use %.10g or %.10g",
                       where, e->global_batch, replicas, whole * replicas, (whole + 1) * replicas);
    if (ranks == 1)
        return dt_fail(DT_ERR_INVALID, "%s: batch_size: %g samples of each rank are no whole number; use %g or %g", where, samples, whole,
                       whole + 1);
    return dt_fail(DT_ERR_INVALID,
                   "%s: batch_size: %g samples of each rank are %g on the %d ranks that share a copy of the model; use %g or %g", where,
                   e->batch_size, samples, ranks, whole / ranks, (whole + 1) / ranks);
}

static dt_status check_division(const struct experiment *e, const char *where)
{
    DT_TRY(experiment_check_mesh(e, where));
    DT_TRY(check_tensor_group(e, where));
    DT_TRY(check_context_group(e, where));
    struct dt_failures failures = {0};
    DT_TRY(check_samples(e, where));
    int64_t samples = experiment_replica_samples(e);
    if (e->micro_batches > samples && !e->strategy.has_pipeline)
        dt_failures_add(&failures, dt_fail(DT_ERR_INVALID, "%s: micro_batches: %d is more than %sbatch_size %" PRId64, where,
                                           e->micro_batches, e->tensor.size > 1 ? "tensor.size * " : "", samples));
    if (e->strategy.again & ~e->model.family->again)
        dt_failures_add(&failures, dt_fail(DT_ERR_INVALID,
                                           "%s: activation: models of the family %s compute no single operations again; "
                                           "use keep, checkpoint or offload",
                                           where, e->model.family->name));
    if (e->strategy.has_pipeline)
        dt_failures_add(&failures, check_pipeline(e, where));
    dt_failures_add(&failures, check_micro_batches(e, where));
    if (e->strategy.paradigm->check)
        dt_failures_add(&failures, e->strategy.paradigm->check(e, where));
    DT_TRY(dt_failures_end(&failures));
    /* Random tokens and masks are keyed by a 32-bit sample number. */
    uint64_t steps = (uint64_t)e->steps.warmup + (uint64_t)e->steps.timed;
    if ((double)steps * (double)experiment_global_batch(e) >= 0x1p32)
        return dt_fail(DT_ERR_INVALID, "%s: steps: %" PRIu64 " steps of %" PRIu64 " samples; a run has less than 2^32 samples", where,
                       steps, experiment_global_batch(e));
    return DT_OK;
}

/* A profile that a cluster file names may be in the same folder as that file: `name` then includes
 * the folder. */
static dt_status set_profile(struct experiment *e, const char *name)
{
    const char *slash = strrchr(e->cluster, '/');
    char beside[PATH_OF_A_FILE], path[1024];
    int length = snprintf(beside, sizeof beside, "%.*s%s", slash ? (int)(slash + 1 - e->cluster) : 0, e->cluster, name);
    bool found = length < PATH_OF_A_FILE && dt_find_data_file(beside, e->directory, path, sizeof path) == DT_OK;
    return dt_intern_into(&e->profile, found ? beside : name);
}

/* Use the profile that the cluster file names. A cluster file that cannot be read is reported where
 * it is needed. */
static dt_status read_profile_of_cluster(struct experiment *e)
{
    char path[1024];
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    DT_TRY(dt_find_data_file(e->cluster, e->directory, path, sizeof path));
    DT_TRY(dt_json_read(path, path, &object));
    const struct cJSON *named = cJSON_GetObjectItemCaseSensitive(object, "profile");
    bool usable = cJSON_IsString(named) && *named->valuestring && strlen(named->valuestring) < PATH_OF_A_FILE;
    return usable ? set_profile(e, named->valuestring) : DT_OK;
}

static dt_status complete_name(const char *folder, const char **name)
{
    char file[640]; /* the key has at most 127 characters of UTF-8 */
    dt_data_file_name(folder, *name, file, sizeof file);
    return **name ? dt_intern_into(name, file) : DT_OK;
}

/* Defaults on sim: a common machine, and the software that the machine's file names. */
static dt_status resolve_simulated(struct experiment *e, struct experiment_resolver *last)
{
    if (!experiment_is_simulated(e))
        return DT_OK;
    DT_TRY(complete_name("clusters", &e->cluster));
    DT_TRY(complete_name("profiles", &e->profile));
    if (!*e->cluster)
        DT_TRY(dt_intern_into(&e->cluster, "clusters/dgx_a100.json"));
    if (*e->profile)
        return DT_OK;
    if (last->cluster == e->cluster)
        e->profile = last->profile;
    else
        (void)read_profile_of_cluster(e);
    if (!*e->profile)
        DT_TRY(dt_intern_into(&e->profile, "profiles/pytorch_1.11_a100.json"));
    last->cluster = e->cluster;
    last->profile = e->profile;
    return DT_OK;
}

/* Only simulated networks can be changed. */
static dt_status check_network(const struct experiment *e, const char *where)
{
    bool rate = e->network.gbit_per_s > 0, latency = e->network.latency_us >= 0;
    if (experiment_is_simulated(e) || (!rate && !latency))
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: network.%s: only device \"sim\" has a network that a config can choose, and device is \"%s\"",
                   where, rate ? "gbit_per_s" : "latency_us", e->device);
}

/* Only simulated hardware can be slowed down. */
static dt_status check_slow(const struct experiment *e, const char *where)
{
    if (e->slow.by <= 0)
        return DT_OK;
    if (!experiment_is_simulated(e))
        return dt_fail(DT_ERR_INVALID, "%s: slow.by: only device \"sim\" has hardware that a config can slow down, and device is \"%s\"",
                       where, e->device);
    if (e->slow.rank >= e->world_size)
        return dt_fail(DT_ERR_INVALID, "%s: slow.rank: %d, and world_size is %d: ranks count from 0", where, e->slow.rank, e->world_size);
    return DT_OK;
}

/* Refuse late updates together with what needs all of a step's updates at its end. */
static dt_status check_late_updates(const struct experiment *e, const char *where)
{
    const char *key = e->optimizer.clip_norm > 0         ? "optimizer.clip_norm: 0"
                      : experiment_scales_dynamically(e) ? "loss_scaling: a number"
                      : e->parameter_offload             ? "parameter_offload: false"
                      : *e->checkpoint.path              ? "checkpoint.path: none"
                      : *e->checkpoint.from              ? "checkpoint.from: none"
                                                         : NULL;
    if (experiment_staleness(e) == 0 || !key)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: parameter_server.staleness: %d steps' updates are under way when a step ends; it goes with %s",
                   where, e->parameter_server.staleness, key);
}

/* With units of single layers, no other layer is in memory. */
static dt_status check_units(const struct experiment *e, const char *where)
{
    if (!strategy_reads_blocks(&e->strategy) || e->fsdp.unit != DT_UNIT_LINEAR || !(e->strategy.paradigm->reads & READS_UNITS))
        return DT_OK;
    return dt_fail(DT_ERR_INVALID,
                   "%s: fsdp.unit: linear, and activation selective_op computes products of other layers of a block again; "
                   "use \"block\", or another activation",
                   where);
}

dt_status experiment_check(struct experiment *e, const char *where)
{
    experiment_settle(e);
    DT_TRY(check_network(e, where));
    DT_TRY(check_slow(e, where));
    DT_TRY(experiment_check_dtype(e, e->strategy.device, where));
    DT_TRY(check_reduction(e, where));
    DT_TRY(check_fp8(e, where));
    DT_TRY(check_units(e, where));
    DT_TRY(check_checkpoints(e, where));
    DT_TRY(check_division(e, where));
    return check_sizes(e, where);
}

dt_status experiment_resolve_next(struct experiment *e, const bool *given, const char *where, struct experiment_resolver *last)
{
    last->impossible = false;
    DT_TRY(resolve_model(e, given, where));
    resolve_pipeline(e, given);
    DT_TRY(resolve_batch(e, given, where));
    if (e->tensor.size == 1)
        e->tensor.sequence_parallel = true; /* it makes no difference */
    dt_status status = check_model(e, where);
    DT_THEN(status, experiment_resolve_data(e, is_given(given, "steps.timed"), where));
    DT_THEN(status, experiment_check(e, where));
    DT_THEN(status, check_saving(e, given, where));
    last->impossible = status == DT_ERR_INVALID;
    DT_TRY(status);
    if (!is_given(given, "optimizer.learning_rate"))
        e->optimizer.learning_rate = experiment_is_adam(e) ? 0.001 : 0.01;
    if (!is_given(given, "optimizer.master_weights"))
        e->optimizer.master_weights = experiment_is_adam(e);
    if (!is_given(given, "optimizer.weight_decay"))
        e->optimizer.weight_decay = e->optimizer.name == OPTIMIZER_ADAMW ? 0.01 : 0;
    if (!is_given(given, "timeout.init_s") && !experiment_is_simulated(e) && e->timeout.init_s < e->world_size)
        e->timeout.init_s = e->world_size;
    if (!is_given(given, "loss_scaling"))
        e->loss_scaling = e->model.dtype == DT_FP16 && e->loss == LOSS_CROSS_ENTROPY ? 65536 : 1;
    DT_TRY(check_late_updates(e, where));
    bool block = (double)dt_model_parameter_count(&e->model) < FSDP_LINEAR_FROM || strategy_reads_blocks(&e->strategy);
    if (e->fsdp.unit != DT_UNIT_BLOCK && e->fsdp.unit != DT_UNIT_LINEAR) /* only the keys' table knows "auto" */
        e->fsdp.unit = block ? DT_UNIT_BLOCK : DT_UNIT_LINEAR;
    e->memory_limit_bytes = (uint64_t)ceil(e->memory_limit_gib * 0x1p30); /* round up, so that a limit below one byte remains a limit */
    e->host_memory_limit_bytes = (uint64_t)ceil(e->host_memory_limit_gib * 0x1p30);
    DT_TRY(resolve_simulated(e, last));
    return experiment_set_hash(e);
}

dt_status experiment_resolve(struct experiment *e, const char *where)
{
    return experiment_resolve_next(e, NULL, where, &(struct experiment_resolver){0});
}
