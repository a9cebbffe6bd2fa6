#include "cli/predict/predict.h"

#include "cli/text/text.h"
#include "lib/base/grow.h"
#include "lib/base/machine.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "predict/simulation.h"
#include "schedules/checkpoint/checkpoint.h"
#include "schedules/config/order.h"
#include "schedules/config/parse.h"
#include "schedules/config/split.h"
#include "schedules/plan/plan.h"
#include "schedules/run/device_choice.h"
#include "schedules/run/memory_fit.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Add a note. Without memory the note is left out. */
static void note(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct check *check, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *copy = check->note_count < CHECK_NOTES ? strdup(text) : NULL;
    if (copy)
        check->notes[check->note_count++] = copy;
}

/* Note, as no error, that the config's device is not on this machine. */
static void note_device(const struct experiment *e, struct check *check)
{
    const struct dt_device_kind *kind;
    char advice[256];
    if (!experiment_is_simulated(e) && device_choose(e, &kind) < 0) {
        note(check, "cannot run here: %.400s", dt_error_message());
    } else if (device_choice_skips_gpu(e, advice, sizeof advice)) {
        note(check, "would run on the cpu although there is a GPU: %.400s", advice);
    } else if (!experiment_is_simulated(e) && !kind->gpus && !dt_cpu_dtype_native(e->model.family, e->model.dtype, advice, sizeof advice)) {
        note(check, "%s is not native on this machine's cpu: %s", dt_dtype_name(e->model.dtype), advice);
    }
}

/* The memory of the smallest GPU that the ranks would use on this machine; 0: there is none. */
static uint64_t smallest_gpu(const struct experiment *e, struct dt_device_info *out)
{
    struct dt_device_info info;
    *out = (struct dt_device_info){.memory_bytes = 0};
    for (int i = 0; i < e->world_size && dt_device_look("cuda", i, &info); i++)
        if (i == 0 || info.memory_bytes < out->memory_bytes)
            *out = info;
    return out->memory_bytes;
}

/* Note what takes most of the memory that is not there, and which keys make it less. */
static void note_remedy(const struct experiment *e, struct check *check)
{
    const uint64_t *peak = check->usage.device.peak_bytes;
    const struct strategy *s = &e->strategy;
    bool activations = peak[DT_ACTIVATIONS] > peak[DT_PARAMETERS] + peak[DT_GRADIENTS] + peak[DT_OPTIMIZER];
    const struct {
        bool helps;
        const char *words;
    } remedies[] = {{activations && e->activation == ACTIVATION_KEEP && s->policies == 0, "activation checkpoint, "},
                    {activations && e->batch_size > s->micro_batches, "more micro_batches, "},
                    {activations && e->batch_size > 1, "a smaller batch_size, "},
                    {!activations && s->mode->holds.parameters == DP_ALL && e->world_size > 1, "paradigm fsdp, "},
                    {!activations && !e->parameter_offload, "parameter_offload, "},
                    {true, "more ranks that share the model"}};
    char keys[256] = "";
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].helps)
            strcat(keys, remedies[i].words);
    note(check, "%s take most of the memory. Less of it is needed with: %s. dtbench plan searches for what fits",
         activations ? "activations" : "parameters, gradients and optimizer state", keys);
}

static void note_memory(const struct experiment *e, struct check *check)
{
    char need[DT_MEMORY_TEXT], memory[DT_MEMORY_TEXT];
    const struct dt_device_kind *kind;
    struct dt_device_info gpu;
    const struct dt_memory_usage *usage = &check->usage;
    uint64_t both = usage->device.peak_total_bytes + usage->host.peak_total_bytes, has;
    if (e->host_memory_limit_bytes && usage->host.peak_total_bytes > e->host_memory_limit_bytes) {
        check->fits = false; /* check then ends with exit code 5 */
        note(check, "will run out of host memory: rank %d needs %s of it, and host_memory_limit_gib is %.3g", check->host_rank,
             dt_memory_text(usage->host.peak_total_bytes, need), e->host_memory_limit_gib);
    }
    bool host_fits = check->fits;
    if (e->memory_limit_bytes && usage->device.peak_total_bytes > e->memory_limit_bytes) {
        check->fits = false;
        note(check, "will run out of memory: rank %d needs %s, and memory_limit_gib is %.3g", check->rank,
             dt_memory_text(usage->device.peak_total_bytes, need), e->memory_limit_gib);
    } else if (device_choose(e, &kind) < 0) {
        return;
    } else if (kind->gpus && usage->device.peak_total_bytes > smallest_gpu(e, &gpu)) {
        check->fits = false;
        note(check, "will run out of memory: rank %d needs %s, and a GPU here (%.100s) has %s, CUDA's own share included", check->rank,
             dt_memory_text(usage->device.peak_total_bytes, need), gpu.name, dt_memory_text(gpu.memory_bytes, memory));
    } else if (!kind->gpus && !kind->simulated && (double)both * e->world_size > (double)(has = dt_machine_memory_bytes())) {
        check->fits = false;
        note(check, "all %d ranks on this machine may not fit: up to %s each, and it has %s", e->world_size, dt_memory_text(both, need),
             dt_memory_text(has, memory));
    }
    if (host_fits && !check->fits)
        note_remedy(e, check);
}

/* ---- the pipeline's order ---- */

static dt_status ask_source(const struct experiment_order *order, struct check_pipeline *out)
{
    const struct pipeline_order *row = order->row;
    const struct order_shape *shape = &order->shape;
    double passes = shape->micro_batches * (shape->times.forward + shape->times.backward_input + shape->times.backward_weight);
    for (int rank = 0; rank < shape->stages; rank++)
        out->kept[rank] = row->kept(row, shape, rank);
    out->bubble = row->bubble(shape) / (passes + row->bubble(shape));
    out->by_source = true;
    return DT_OK;
}

static dt_status play(const struct experiment_order *order, struct check_pipeline *out)
{
    int stages = order->shape.stages;
    DT_FREED struct rank_time *ranks = calloc((size_t)stages, sizeof *ranks);
    DT_FREED struct plan_kept *kept = calloc((size_t)stages, sizeof *kept);
    DT_TRY(dt_allocated(ranks && kept, "no memory for the plans of %d ranks", stages));
    DT_TRY(plan_play_order(order, ranks, kept));
    for (int rank = 0; rank < stages; rank++)
        out->kept[rank] = kept[rank].activations;
    out->bubble = plan_bubble(ranks, stages);
    return DT_OK;
}

/* Describe each rank's layers: `parts` runs of consecutive layers. */
static dt_status describe_stages(const struct experiment *e, const struct order_layout *layout, struct check_pipeline *out)
{
    int virtual_stages = out->stages * layout->parts;
    DT_FREED int *first_layer = malloc(((size_t)virtual_stages + 1) * sizeof *first_layer);
    struct mesh_shape mesh = e->strategy.mesh;
    double tokens = (double)e->batch_size * mesh_count(&mesh, MESH_ON_MODEL) / mesh.size[MESH_CONTEXT] * dt_model_units(&e->model);
    DT_TRY(dt_allocated(first_layer, "no memory for %d stages", virtual_stages));
    DT_TRY(experiment_partition(e, virtual_stages, first_layer));
    for (int rank = 0; rank < out->stages; rank++) {
        struct check_stage *stage = &out->ranks[rank];
        stage->compute_s = NAN;
        for (int i = 0; i < layout->parts; i++) {
            int v = virtual_stage_of(i, rank, out->stages, layout->folded);
            struct dt_layers layers = {.first = first_layer[v], .end = first_layer[v + 1]};
            struct dt_layers_size size;
            char text[64];
            e->model.family->layers_size(&e->model, layers, &size);
            dt_layers_text(&e->model, layers, text, sizeof text);
            size_t used = strlen(stage->layers);
            snprintf(stage->layers + used, sizeof stage->layers - used, "%s%s", i ? " | " : "", text);
            stage->parameters += size.parameters;
            stage->flops_per_step += 3 * (double)size.forward_flops * tokens;
        }
    }
    return DT_OK;
}

static dt_status check_order(const struct experiment *e, struct check_pipeline *out)
{
    DT_ENDED(experiment_order_finish) struct experiment_order order = {0};
    struct order_layout layout;
    DT_TRY(experiment_order_init(&order, e));
    if (order.shape.stages <= 1)
        return DT_OK;
    out->stages = order.shape.stages;
    out->kept = calloc((size_t)out->stages, sizeof *out->kept);
    out->ranks = calloc((size_t)out->stages, sizeof *out->ranks);
    DT_TRY(dt_allocated(out->kept && out->ranks, "no memory for %d ranks", out->stages));
    DT_TRY(order.row->kept && order.row->bubble ? ask_source(&order, out) : play(&order, out));
    if (order.row->tell)
        order.row->tell(&order.shape, out->tried, sizeof out->tried);
    DT_TRY(pipeline_order_layout(order.row, &order.shape, &layout));
    return describe_stages(e, &layout, out);
}

/* ---- all of it ---- */

/* Keep the maximum over the ranks, for each number. */
static void take_busiest(const struct step_traffic *traffic, struct step_traffic *most)
{
    for (int group = 0; group < TRAFFIC_GROUPS; group++)
        for (int kind = 0; kind < DT_COMM_KINDS; kind++)
            if (traffic->bytes[group][kind] > most->bytes[group][kind])
                most->bytes[group][kind] = traffic->bytes[group][kind];
}

static void note_checkpoints(const struct experiment *e, struct check *check)
{
    char bytes[DT_MEMORY_TEXT], step[64] = "after the last step";
    if (e->checkpoint.save_every > 0)
        snprintf(step, sizeof step, "every %d steps", e->checkpoint.save_every);
    if (*e->checkpoint.path)
        note(check, "saves %s in %d file%s in %.300s %s", dt_memory_text(checkpoint_bytes(e), bytes), e->world_size,
             e->world_size > 1 ? "s" : "", e->checkpoint.path, step);
}

/* Note a learning rate schedule that this run does not finish: it may be the first steps of a long
 * training. */
static void note_warmup(const struct experiment *e, struct check *check)
{
    int warmup = e->optimizer.warmup_steps, all = e->steps.warmup + e->steps.timed, end = e->optimizer.schedule_steps;
    if (warmup > end && end > 0)
        note(check, "optimizer.schedule_steps: the schedule ends after %d steps, before the end of the warm-up, optimizer.warmup_steps %d",
             end, warmup);
    else if (warmup > all && end == 0)
        note(check,
             "optimizer.warmup_steps: the learning rate rises for %d steps, but the run has %d and ends at %.2g of the rate; "
             "for the first steps of a longer training set optimizer.schedule_steps",
             warmup, all, (double)all / warmup);
}

/* Note the bytes of a parameter of a 16-bit model, most of which the optimizer keeps. */
static void note_parameter_bytes(const struct experiment *e, struct check *check)
{
    size_t own = dt_dtype_bytes(e->model.dtype), gradient = dt_dtype_bytes(experiment_gradient_dtype(e)), state = experiment_state_bytes(e),
           master = e->optimizer.master_weights ? sizeof(float) : 0;
    if (experiment_is_adam(e) && own < sizeof(float))
        note(check,
             "a parameter takes %zu bytes, before any sharding: %zu for itself, %zu for its gradient, %zu for Adam's moments, %zu for a "
             "master copy",
             own + gradient + state, own, gradient, state - master, master);
}

/* Take the rank's memory and traffic into the peaks. kind: the number of its stage or server.
 * system: as for predict(). */
static dt_status count_rank(const struct experiment *e, const struct simulated_system *system, int kind, int rank, struct check *out)
{
    struct dt_memory_usage usage;
    struct step_traffic traffic;
    DT_TRY(system ? simulation_predict_memory(e, system, rank, &usage, &traffic) : memory_fit_predict(e, rank, &usage, &traffic));
    take_busiest(&traffic, &out->traffic);
    if (usage.device.peak_total_bytes > out->usage.device.peak_total_bytes) {
        out->usage.device = usage.device;
        out->rank = rank;
    }
    if (usage.host.peak_total_bytes > out->usage.host.peak_total_bytes) {
        out->usage.host = usage.host;
        out->host_rank = rank;
    }
    struct check_stage *stage = out->pipeline.stages > 0 ? &out->pipeline.ranks[kind] : NULL; /* without a pipeline kinds are not stages */
    if (stage && usage.device.peak_total_bytes > stage->device.peak_total_bytes) {
        stage->rank = rank;
        stage->device = usage.device;
    }
    return DT_OK;
}

/* system: the simulated machine; NULL on other devices, whose memory is dtbench's own. */
static dt_status predict(const struct experiment *e, const struct simulated_system *system, struct check *out)
{
    out->parameters = dt_model_parameter_count(&e->model);
    out->units_per_step = experiment_global_batch(e) * (uint64_t)dt_model_units(&e->model);
    out->flops_per_step = dt_model_step_flops(&e->model, out->units_per_step);
    for (int kind = 0, rank; (rank = experiment_rank_of_kind(e, kind)) >= 0; kind++)
        for (int k = 0; k < e->tensor.size; k++) /* with fewer rows of a table buckets end elsewhere: the peak may be higher */
            if (k == 0 || !e->model.family->tensor_ranks_alike(&e->model, e->tensor.size, k - 1, k))
                DT_TRY(count_rank(e, system, kind, mesh_moved(&e->strategy.mesh, MESH_TENSOR, rank, k), out));
    note_device(e, out);
    note_memory(e, out);
    note_checkpoints(e, out);
    note_warmup(e, out);
    note_parameter_bytes(e, out);
    return DT_OK;
}

/* ---- its time ---- */

static void note_framework(const struct experiment *e, const struct simulated_system *system, struct check *check)
{
    char text[512];
    if (simulated_system_ignores_unit(system, e, text, sizeof text))
        note(check, "%s", text);
}

/* "0.35 s", "1:02:40". */
static const char *spell(double seconds, char text[FORMAT_BYTES])
{
    if (seconds >= 100)
        return format_duration(seconds, text);
    snprintf(text, FORMAT_BYTES, "%.3g s", seconds);
    return text;
}

/* Note the time of a training that includes loading and saves. */
static void note_training(const struct experiment *e, struct check *check)
{
    const struct dt_metrics *m = &check->training;
    char all[FORMAT_BYTES], part[FORMAT_BYTES], text[256] = "";
    size_t used = 0;
    if (!*e->checkpoint.path && !training_loads(e) && !experiment_reads_data(e))
        return;
    if (training_loads(e))
        used += (size_t)snprintf(text + used, sizeof text - used, ", %s to load", spell(m->load_s, part));
    if (m->reading_s > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, ", of which %s are waiting for data", spell(m->reading_s, part));
    if (*e->checkpoint.path)
        snprintf(text + used, sizeof text - used, ", %s for %.0f save%s", spell(m->save_s, part), m->saves, m->saves > 1 ? "s" : "");
    note(check, "trains for %s: %s of steps%s", spell(m->training_s, all), spell(m->steps_s, part), text);
}

static void take_times(const struct experiment *e, const struct measure_result *result, struct check *out)
{
    struct mesh_shape mesh = e->strategy.mesh;
    out->step_s = result->step_s[result->steps_done - 1];
    out->training = result->metrics;
    note_training(e, out);
    for (int i = 0; i < out->pipeline.stages; i++)
        out->pipeline.ranks[i].compute_s = result->compute_s[mesh_moved(&mesh, MESH_PIPELINE, 0, i)];
}

/* Simulate one step. Running out of memory is noted once: the memory prediction may have found it
 * already. */
static dt_status predict_step(const struct experiment *e, const struct simulated_system *system, struct check *out)
{
    struct measure_result result = {0};
    dt_status status = simulation_run_symmetric(e, system, NULL, &result);
    if (status == DT_OK)
        take_times(e, &result, out);
    measure_result_finish(&result);
    if (status == DT_ERR_OOM && out->fits) {
        out->fits = false;
        note(out, "will run out of memory: %.400s", dt_error_message());
        if (!simulated_system_fits(system, out->usage.device.peak_total_bytes))
            note_remedy(e, out);
    }
    return status == DT_ERR_OOM ? DT_OK : status;
}

/* Does the cluster file at `path` describe this machine? The folder may have another machine's. */
static bool is_this_machine(const char *path)
{
    DT_FREED struct dt_sim_cluster *cluster = malloc(sizeof *cluster);
    char name[sizeof cluster->gpu.name];
    dt_machine_processor_name(name, sizeof name);
    return cluster && dt_sim_cluster_load(path, cluster) == DT_OK && cluster->gpu.architecture == DT_SIM_CPU &&
           strcmp(cluster->gpu.name, name) == 0;
}

/* Make the experiment as device sim predicts it from a calibration. Returns false without a
 * calibration, or where it lacks what the experiment needs. */
static bool find_calibration(const struct experiment *e, struct experiment *predicted, struct simulated_system **system)
{
    const struct dt_device_kind *kind;
    char path[PATH_MAX], profile[PATH_MAX + 16];
    if (experiment_is_simulated(e) || device_choose(e, &kind) < 0 || kind->gpus ||
        dt_find_data_file("cluster.json", e->directory, path, sizeof path) < 0 || !is_this_machine(path))
        return false;
    const char *slash = strrchr(path, '/');
    *predicted = *e;
    predicted->device = "sim";
    experiment_settle(predicted);
    snprintf(profile, sizeof profile, "%.*sprofile.json", slash ? (int)(slash + 1 - path) : 0, path);
    return dt_intern_into(&predicted->cluster, path) == DT_OK && dt_intern_into(&predicted->profile, profile) == DT_OK &&
           simulated_system_create(predicted, system) == DT_OK;
}

static dt_status predict_here(const struct experiment *e, struct check *out)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    DT_FREED struct experiment *predicted = malloc(sizeof *predicted);
    DT_TRY(dt_allocated(predicted, "no host memory for a check"));
    if (!out->fits || !find_calibration(e, predicted, &system))
        return DT_OK;
    dt_status status = predict_step(predicted, system, out);
    return status == DT_ERR_HOST_MEMORY ? status : DT_OK; /* an experiment that the calibration cannot predict can still run */
}

void check_finish(struct check *check)
{
    free(check->pipeline.kept);
    free(check->pipeline.ranks);
    check->pipeline = (struct check_pipeline){0};
    for (int i = 0; i < check->note_count; i++)
        free(check->notes[i]);
    check->note_count = 0;
}

dt_status check_copy(const struct check *from, struct check *out)
{
    const struct check_pipeline *p = &from->pipeline;
    size_t stages = (size_t)p->stages;
    *out = *from;
    out->pipeline.kept = NULL;
    out->pipeline.ranks = NULL;
    out->note_count = 0;
    for (int i = 0; i < from->note_count; i++)
        note(out, "%s", from->notes[i]);
    if (stages == 0)
        return DT_OK;
    out->pipeline.kept = malloc(stages * sizeof *p->kept);
    out->pipeline.ranks = malloc(stages * sizeof *p->ranks);
    DT_TRY(dt_allocated(out->pipeline.kept && out->pipeline.ranks, "no memory for %d ranks", p->stages));
    memcpy(out->pipeline.kept, p->kept, stages * sizeof *p->kept);
    memcpy(out->pipeline.ranks, p->ranks, stages * sizeof *p->ranks);
    return DT_OK;
}

dt_status check_experiment(const struct experiment *experiment, struct simulated_machine *last, struct check *out)
{
    struct simulated_system *system = NULL;
    struct experiment e = *experiment;
    struct plan *made = NULL;
    *out = (struct check){.fits = true, .step_s = NAN};
    if (experiment_is_simulated(&e))
        DT_TRY(simulated_system_create_next(last, &e, &system));
    dt_status status = experiment_make_plans(&e, &made);
    e.made_plans = made;
    DT_THEN(status, check_order(&e, &out->pipeline));
    DT_THEN(status, predict(&e, system, out));
    if (status == DT_OK && system) {
        note_framework(&e, system, out);
        status = predict_step(&e, system, out);
    } else if (status == DT_OK) {
        status = predict_here(&e, out);
    }
    plans_destroy(made, made ? made->stages : 0);
    simulated_system_destroy(system);
    return status;
}

/* ---- as JSON ---- */

static struct cJSON *usage_as_json(int rank, const struct dt_memory_bytes *memory)
{
    struct cJSON *peak = dt_json_object("rank: %d, total: %g", rank, (double)memory->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        dt_json_add(&peak, "%s: %g", dt_category_name((enum dt_category)c), (double)memory->peak_bytes[c]);
    return peak;
}

static struct cJSON *pipeline_as_json(const struct experiment *e, const struct check_pipeline *pipeline)
{
    struct cJSON *stages = dt_json_array();
    for (int i = 0; i < pipeline->stages; i++) {
        const struct check_stage *stage = &pipeline->ranks[i];
        dt_json_append(&stages, dt_json_object("layers: %s, parameters: %g, flops_per_step: %g, predicted_compute_s: %g, "
                                               "predicted_peak_bytes: %p",
                                               stage->layers, (double)stage->parameters, stage->flops_per_step, stage->compute_s,
                                               usage_as_json(stage->rank, &stage->device)));
    }
    return dt_json_object("order: %s, kept_micro_batches: %p, stages: %p, bubble: %g, closed_form: %hhd, tried: %p", e->pipeline.order,
                          dt_json_numbers(pipeline->kept, pipeline->stages), stages, pipeline->bubble, pipeline->by_source,
                          dt_json_known(pipeline->tried));
}

/* {"replica": {"all_reduce": 1667905536}}, without zeros. */
static struct cJSON *traffic_as_json(const struct step_traffic *traffic)
{
    struct cJSON *groups = dt_json_object("");
    for (int group = 0; group < TRAFFIC_GROUPS; group++) {
        struct cJSON *kinds = NULL;
        for (int kind = 0; kind < DT_COMM_KINDS; kind++)
            if (traffic->bytes[group][kind] > 0) {
                kinds = kinds ? kinds : dt_json_object("");
                dt_json_add(&kinds, "%s: %g", dt_comm_kind_name((enum dt_comm_kind)kind), (double)traffic->bytes[group][kind]);
            }
        if (kinds)
            dt_json_add(&groups, "%s: %p", step_traffic_group_name(group), kinds);
    }
    return groups;
}

static struct cJSON *training_as_json(const struct check *check)
{
    const struct dt_metrics *m = &check->training;
    return isnan(check->step_s) ? dt_json_text(NULL)
                                : dt_json_object("total: %g, load: %g, steps: %g, reading: %g, saves: %g", m->training_s, m->load_s,
                                                 m->steps_s, m->reading_s, m->save_s);
}

static dt_status add_check(struct cJSON **array, const struct experiment *e, const struct check *check)
{
    struct cJSON *config, *notes;
    char key[40];
    snprintf(key, sizeof key, "%ss_per_step", e->model.family->unit);
    DT_TRY(experiment_to_tree(e, &config));
    notes = dt_json_array();
    for (int i = 0; i < check->note_count; i++)
        dt_json_append(&notes, dt_json_text(check->notes[i]));
    dt_json_append(array,
                   dt_json_object("config: %p, config_hash: %s, parameters: %g, %s: %g, flops_per_step: %g, fits: %hhd, "
                                  "predicted_step_s: %g, predicted_training_s: %p, predicted_peak_bytes: %p, predicted_host_peak_bytes: "
                                  "%p, comm_bytes_per_step: %p, checkpoint_bytes: %g, pipeline: %p, notes: %p",
                                  config, e->hash, (double)check->parameters, key, (double)check->units_per_step, check->flops_per_step,
                                  check->fits, check->step_s, training_as_json(check), usage_as_json(check->rank, &check->usage.device),
                                  usage_as_json(check->host_rank, &check->usage.host), traffic_as_json(&check->traffic),
                                  *e->checkpoint.path ? (double)checkpoint_bytes(e) : NAN,
                                  check->pipeline.stages > 0 ? pipeline_as_json(e, &check->pipeline) : dt_json_text(NULL), notes));
    return DT_OK;
}

dt_status check_print_json(const struct experiment_list *experiments, const struct check *checks, FILE *to)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *array = dt_json_array();
    for (int i = 0; i < experiments->count; i++)
        DT_TRY(add_check(&array, &experiments->all[i], &checks[i]));
    return dt_json_write(DT_PASSED_ON(array), to);
}
