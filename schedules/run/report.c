#include "schedules/run/report.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "lib/record/record.h"
#include "schedules/config/families.h"
#include "schedules/config/learning_rate.h"
#include "schedules/config/order.h"
#include "schedules/config/parse.h"
#include "schedules/plan/plan.h"
#include "schedules/run/ranks.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_init(struct report *report)
{
    *report = (struct report){.started_s = dt_wall_clock_s(), .verification_error = NAN, .verified_losses = -1, .fewest_units_per_s = NAN};
    report->began_s = dt_clock_s();
    dt_metrics_init(&report->result.metrics);
}

void report_finish(struct report *report)
{
    measure_result_finish(&report->result);
    free(report->hosts);
    free(report->gpus);
    dt_json_destroy(report->taken);
    report->hosts = report->gpus = NULL;
    report->taken = NULL;
}

/* Host and device of a rank. */
struct whereabouts {
    struct host_name host;
    char gpu[48];
};

static char *all_hosts(const struct whereabouts *ranks, int count)
{
    DT_FREED struct host_name *hosts = malloc((size_t)count * sizeof *hosts);
    for (int i = 0; hosts && i < count; i++)
        hosts[i] = ranks[i].host;
    return hosts ? distinct_hosts(hosts, count) : NULL;
}

static char *all_gpus(const struct whereabouts *ranks, int count)
{
    char *lines = calloc((size_t)count, sizeof ranks[0].gpu + 1), *end = lines;
    for (int i = 0; lines && i < count; i++)
        end = stpcpy(stpcpy(end, i ? "\n" : ""), ranks[i].gpu);
    return lines;
}

/* Add the version of one more library on which results depend, if the library is there. */
static void add_version(struct report *report, const char *version, bool there)
{
    size_t used = strlen(report->versions);
    if (there && *version)
        snprintf(report->versions + used, sizeof report->versions - used, "%s%.200s", used ? ", " : "", version);
}

/* dtbench may have set how the ranks wait, for them only. */
static void note_waiting(struct report *report, const char *waiting)
{
    if (waiting && strcmp(waiting, DT_WAITING_PASSIVE) == 0)
        snprintf(report->settings, sizeof report->settings, "{\"%s\": \"%s\"}", DT_WAITING_NAME, DT_WAITING_PASSIVE);
}

dt_status report_describe(struct report *report, const struct dt_model_family *family, const struct dt_device *device,
                          struct dt_comm *world, const struct dt_world *place)
{
    struct dt_device_info info;
    struct whereabouts mine = {0}, *all;
    char kernels[128];
    int size = dt_comm_size(world);
    const char *library = dt_comm_library(world);

    dt_device_info(device, &info);
    snprintf(report->device, sizeof report->device, "%s", info.kind->name);
    memcpy(report->device_name, info.name, sizeof report->device_name);
    memcpy(report->launcher, place->launcher, sizeof report->launcher);
    memcpy(report->driver, info.driver, sizeof report->driver);
    report->threads = info.threads;
    note_waiting(report, getenv(DT_WAITING_NAME));
    snprintf(report->secret, sizeof report->secret, "%s", dt_comm_secret(world) ? dt_comm_secret(world) : "");
    report->versions[0] = '\0';
    add_version(report, info.versions, true);
    add_version(report, kernels, dt_kernels_available(family, info.kind, kernels, sizeof kernels));
    add_version(report, library, strcmp(library, "none") != 0);

    mine.host = host_name();
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    DT_TRY(dt_host_collect(world, &mine, sizeof mine, &all));
    free(report->hosts);
    free(report->gpus);
    report->hosts = all_hosts(all, size);
    report->gpus = *mine.gpu ? all_gpus(all, size) : NULL;
    free(all);
    if (!report->hosts || (*mine.gpu && !report->gpus))
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the places of %d ranks", size);
    return DT_OK;
}

void report_end(struct report *report, dt_status status, const char *error)
{
    report->status = status;
    snprintf(report->error, sizeof report->error, "%s", status == DT_OK ? "" : error);
    for (char *c = report->error; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

dt_status report_add_step(struct report *report, const struct experiment *experiment, int step, double seconds, double loss)
{
    struct measure_result *result = &report->result;
    if (step != result->losses_done)
        return DT_OK;
    if (!result->step_s)
        result->step_s = calloc((size_t)experiment->steps.timed, sizeof(double));
    DT_TRY(dt_allocated(result->step_s, "no host memory for the results of %d steps", experiment->steps.timed));
    return result->steps_done < experiment->steps.timed ? measure_result_add_step(result, experiment, seconds, loss) : DT_OK;
}

/* The ranks' bytes are gathered at the end: before that they are unknown, not zero. */
static int known_ranks(const struct measure_result *result)
{
    return result->ranks && result->rank_count > 0 && result->ranks[0].memory.device.peak_total_bytes > 0 ? result->rank_count : 0;
}

/* 0 without a pipeline. */
static dt_status ideal_bubble(const struct experiment *e, double *out)
{
    DT_ENDED(experiment_order_finish) struct experiment_order order = {0};
    *out = 0;
    DT_TRY(experiment_order_init(&order, e));
    return order.shape.stages > 1 ? plan_order_bubble(order.row, &order.shape, out) : DT_OK;
}

/* Metrics that follow from what this process's ranks have measured. */
static dt_status measure_own(const struct report *report, const struct experiment *e, struct dt_metrics *out)
{
    const struct measure_result *result = &report->result;
    double samples = (double)experiment_global_batch(e), units = samples * dt_model_units(&e->model);
    DT_TRY(dt_metrics_set_steps(out, result->step_s, result->steps_done));
    dt_metrics_set_peaks(out, result->ranks, known_ranks(result));
    double step_s = out->step_s.median, flops_per_gpu = dt_model_step_flops(&e->model, (uint64_t)units) / step_s / e->world_size;
    const struct dt_model_family *family = e->model.family;
    double (*causal)(const struct dt_model *, uint64_t) = family->causal_step_flops ? family->causal_step_flops : dt_model_step_flops;
    double causal_per_gpu = causal(&e->model, (uint64_t)units) / step_s / e->world_size;
    out->units_per_s = units / step_s;
    out->samples_per_s = samples / step_s;
    out->tflops_per_gpu = flops_per_gpu / 1e12;
    out->mfu = report->peak_flops > 0 ? flops_per_gpu / report->peak_flops : NAN;
    out->causal_tflops_per_gpu = causal_per_gpu / 1e12;
    out->causal_mfu = report->peak_flops > 0 ? causal_per_gpu / report->peak_flops : NAN;
    out->flops_formula = dt_model_texts(&e->model).flops_formula;
    /* The study defines ACO with the time of a step that does not communicate. Here that is this
     * step's time minus its exposed communication, so no second run is needed. */
    out->aco_ms_per_sample = out->step.exposed_comm_s * 1000 / e->batch_size;
    out->exposed_comm = out->step.exposed_comm_s / step_s;
    out->bubble = out->step.bubble_s / step_s;
    return ideal_bubble(e, &out->bubble_ideal);
}

dt_status report_measure(const struct report *report, const struct experiment *e, struct dt_metrics *out)
{
    *out = report->result.metrics;
    snprintf(out->unit, sizeof out->unit, "%s", e->model.family->unit);
    if (!report->taken)
        DT_TRY(measure_own(report, e, out));
    out->scaling_efficiency = out->units_per_s / e->world_size / report->fewest_units_per_s;
    out->wall_s = dt_clock_s() - report->began_s;
    return DT_OK;
}

const char *report_status_name(dt_status status)
{
    switch (status) {
    case DT_OK: return "ok";
    case DT_ERR_OOM: return "oom";
    case DT_ERR_TIMEOUT: return "timeout";
    case DT_ERR_INTERRUPTED: return "interrupted";
    case DT_ERR_INVALID:
    case DT_ERR_WORLD:
    case DT_ERR_UNAVAILABLE: return "invalid";
    case DT_ERR_HOST_MEMORY:
    case DT_ERR_IO:
    case DT_ERR_COMM:
    case DT_ERR_DEVICE:
    case DT_ERR_VERIFY: break;
    }
    return "failed";
}

static const char *known(const char *text)
{
    return *text ? text : NULL;
}

/* Of the connections over the network; NULL if there is none, or nothing is known. */
static const char *gpudirect_of(const struct dt_comm_network *network)
{
    if (network->direct_channels + network->staged_channels == 0)
        return NULL;
    return network->staged_channels == 0 ? "all" : network->direct_channels == 0 ? "none" : "some";
}

static dt_status collect_provenance(const struct report *report, const struct experiment *e, struct cJSON **out)
{
    const struct dt_device_kind *kind = dt_device_kind_find(report->device);
    struct dt_provenance_facts facts = {
        .device = known(report->device),
        .device_name = known(report->device_name),
        .threads_per_rank = report->threads,
        .hosts = report->hosts,
        .gpus = report->gpus,
        .gpu_conditions = report->result.conditions,
        .doubts = known(report->result.doubts),
        .driver = known(report->driver),
        .settings = kind && kind->nccl ? known(e->nccl) : known(report->settings),
        .launcher = known(report->launcher),
        .secret = known(report->secret),
        .versions = known(report->versions),
        .graph = known(report->result.graph),
        .products = known(report->result.products),
        .warpgroup_kernels = known(report->result.hopper),
        .network = {.transports = known(report->result.network.transports),
                    .network = known(report->result.network.network),
                    .cards = known(report->result.network.cards),
                    .gpudirect = gpudirect_of(&report->result.network),
                    .registered_bytes = report->result.network.registered_bytes},
        .tuning = {.file = {known(report->result.tuning.file), report->result.tuning.hash},
                   .products = report->result.tuning.products,
                   .decided = report->result.tuning.decided,
                   .undecided = report->result.tuning.undecided},
        .cluster = {known(report->cluster.name), report->cluster.hash},
        .profile = {known(report->profile.name), report->profile.hash},
        .started_s = report->started_s,
        .slurm = report->slurm,
    };
    return dt_provenance_collect(&facts, out);
}

/* The learning rates of the steps whose losses are known; NULL if all are the config's. Owner of
 * *out: the caller, free. */
static dt_status list_rates(const struct report *report, const struct experiment *e, double **out)
{
    const struct measure_result *result = &report->result;
    *out = NULL;
    if (!experiment_rate_varies(e))
        return DT_OK;
    *out = calloc((size_t)result->losses_done + 1, sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for the learning rates of %d steps", result->losses_done));
    for (int i = 0; i < result->losses_done; i++)
        (*out)[i] = e->optimizer.learning_rate * experiment_rate_factor(e, result->first_step + i);
    return DT_OK;
}

/* Why losses cannot be compared with those of runs that divide samples differently or update later;
 * NULL if they can. */
static const char *loss_division(const struct experiment *e, char *text, size_t bytes)
{
    int64_t samples = experiment_loss_samples(e);
    if (experiment_staleness(e) > 0) {
        snprintf(text, bytes,
                 "updates that are %d steps late, by parameter_server.staleness: losses with another staleness are not comparable",
                 experiment_staleness(e));
        return text;
    }
    snprintf(text, bytes, "micro-batches of %" PRId64 " samples, since %s is 0: losses of other sizes are not comparable", samples,
             e->model.family->micro_batch_key);
    return samples > 0 ? text : NULL;
}

/* The record from what this process itself knows. */
static dt_status format_own(const struct report *report, const struct experiment *e, char **out_line)
{
    const struct measure_result *result = &report->result;
    DT_DESTROYED(dt_json_destroy) struct cJSON *provenance = NULL;
    DT_FREED char *config = NULL;
    DT_FREED double *rates = NULL;
    char division[128];
    struct dt_record record;
    dt_record_init(&record);
    DT_TRY(report_measure(report, e, &record.metrics));
    DT_TRY(experiment_to_json(e, DT_JSON_COMPACT, &config));
    DT_TRY(collect_provenance(report, e, &provenance));
    DT_TRY(list_rates(report, e, &rates));
    record.config_json = config;
    record.config_hash = e->hash;
    record.sweep_id = known(report->sweep.id);
    record.sweep_index = report->sweep.index;
    record.sweep_count = report->sweep.count;
    record.status = report_status_name(report->status);
    record.error = known(report->error);
    record.losses = result->losses;
    record.loss_count = result->losses_done;
    record.learning_rates = rates;
    record.losses_depend_on = loss_division(e, division, sizeof division);
    record.gradient_norms = result->gradient_norms;
    record.loss_scales = experiment_scales_dynamically(e) ? result->loss_scales : NULL;
    record.step_s = result->step_s;
    record.step_count = result->steps_done;
    record.ranks = result->ranks;
    record.rank_count = known_ranks(result);
    record.verification = report->verification;
    record.verification_error = report->verification_error;
    record.verified_losses = report->verified_losses;
    record.provenance = provenance;
    return dt_record_format(&record, out_line);
}

/* Members of a record that the process that writes it knows better than rank 0. */
static const struct {
    const char *object; /* NULL: the record itself */
    const char *key;
} own_members[] = {
    {NULL, "config"},
    {NULL, "config_hash"},
    {NULL, "sweep"},
    {NULL, "status"},
    {NULL, "error"},
    {NULL, "verification"},
    {"metrics", "wall_s"},
    {"metrics", "scaling_efficiency"},
    {"provenance", "launcher"},
    {"provenance", "slurm"},
    {"provenance", "environment"},
    {"provenance", "started"},
};

static dt_status put_own_members(cJSON *record, cJSON *own)
{
    for (size_t i = 0; i < sizeof own_members / sizeof own_members[0]; i++) {
        const char *object = own_members[i].object, *key = own_members[i].key;
        cJSON *from = object ? cJSON_GetObjectItemCaseSensitive(own, object) : own;
        cJSON *to = object ? cJSON_GetObjectItemCaseSensitive(record, object) : record;
        cJSON *member = cJSON_DetachItemFromObjectCaseSensitive(from, key);
        if (!cJSON_ReplaceItemInObjectCaseSensitive(to, key, member)) {
            cJSON_Delete(member);
            return dt_fail(DT_ERR_INVALID, "rank 0's record has no \"%s\", or no host memory is left for it", key);
        }
    }
    return DT_OK;
}

dt_status report_record(const struct report *report, const struct experiment *e, char **out_line)
{
    if (!report->taken)
        return format_own(report, e, out_line);
    DT_FREED char *line = NULL;
    DT_DESTROYED(dt_json_destroy) cJSON *own = NULL;
    DT_DESTROYED(dt_json_destroy) cJSON *record = cJSON_Duplicate(report->taken, true);
    DT_TRY(dt_allocated(record, "no host memory for a record"));
    DT_TRY(format_own(report, e, &line));
    DT_TRY(dt_json_parse(line, strlen(line), "a record", &own));
    DT_TRY(put_own_members(record, own));
    return dt_json_print(record, DT_JSON_COMPACT, out_line);
}

/* ---- from rank 0 to the process that writes the record ---- */

dt_status report_take(struct report *report, const char *line)
{
    struct measure_result *result = &report->result;
    DT_DESTROYED(dt_json_destroy) cJSON *record = NULL;
    double *losses;
    int count;
    DT_TRY(dt_json_parse(line, strlen(line), "rank 0's record", &record));
    const cJSON *metrics = dt_json_at(record, "metrics"), *provenance = dt_json_at(record, "provenance");
    if (!cJSON_IsArray(dt_json_at(record, "losses")) || !cJSON_IsObject(metrics) || !cJSON_IsObject(provenance))
        return dt_fail(DT_ERR_INVALID, "rank 0's record is not complete");
    DT_TRY(dt_json_read_numbers(dt_json_at(record, "losses"), &losses, &count));
    measure_result_finish(result);
    dt_json_destroy(report->taken);
    report->taken = DT_PASSED_ON(record);
    result->losses = losses;
    result->losses_done = count;
    dt_metrics_read(&result->metrics, metrics);
    snprintf(result->graph, sizeof result->graph, "%s", dt_json_text_at(provenance, "graph"));
    snprintf(result->doubts, sizeof result->doubts, "%s", dt_json_text_at(provenance, "doubts"));
    snprintf(report->device, sizeof report->device, "%s", dt_json_text_at(provenance, "device"));
    note_waiting(report, cJSON_GetStringValue(dt_json_at(dt_json_at(provenance, "environment"), DT_WAITING_NAME)));
    return DT_OK;
}
