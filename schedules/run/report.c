#include "schedules/run/report.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/config/json.h"
#include "lib/record/provenance.h"
#include "lib/record/record.h"
#include "schedules/config/families.h"
#include "schedules/config/order.h"
#include "schedules/config/parse.h"
#include "schedules/plan/plans.h"
#include "schedules/run/ranks_per_node.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void report_init(struct report *report)
{
    *report = (struct report){.started_s = dt_wall_clock_s(), .verification_error = NAN, .fewest_tokens_per_s = NAN};
    report->began_s = dt_clock_s();
    dt_metrics_init(&report->result.metrics);
}

void report_finish(struct report *report)
{
    measure_result_finish(&report->result);
    free(report->hosts);
    free(report->gpus);
    report->hosts = report->gpus = NULL;
}

/* Where a rank is. */
struct whereabouts {
    struct host_name host;
    char gpu[48];
};

static char *all_hosts(const struct whereabouts *ranks, int count)
{
    struct host_name *hosts = malloc((size_t)count * sizeof *hosts);
    for (int i = 0; hosts && i < count; i++)
        hosts[i] = ranks[i].host;
    char *lines = hosts ? distinct_hosts(hosts, count) : NULL;
    free(hosts);
    return lines;
}

static char *all_gpus(const struct whereabouts *ranks, int count)
{
    char *lines = calloc((size_t)count, sizeof ranks[0].gpu + 1), *end = lines;
    for (int i = 0; lines && i < count; i++)
        end = stpcpy(stpcpy(end, i ? "\n" : ""), ranks[i].gpu);
    return lines;
}

/* One more library among those that a number depends on, if it is there. */
static void add_version(struct report *report, const char *version, bool there)
{
    size_t used = strlen(report->versions);
    if (there && *version)
        snprintf(report->versions + used, sizeof report->versions - used, "%s%.200s", used ? ", " : "", version);
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
    const char *waiting = getenv(DT_WAITING_NAME);
    if (waiting && strcmp(waiting, DT_WAITING_PASSIVE) == 0) /* set by dtbench, maybe, and for its ranks alone */
        snprintf(report->settings, sizeof report->settings, "{\"%s\": \"%s\"}", DT_WAITING_NAME, DT_WAITING_PASSIVE);
    snprintf(report->secret, sizeof report->secret, "%s", dt_comm_secret(world) ? dt_comm_secret(world) : "");
    report->versions[0] = '\0';
    add_version(report, info.versions, true);
    add_version(report, kernels, family->kernels_available(info.kind->name, kernels, sizeof kernels));
    add_version(report, library, strcmp(library, "none") != 0);

    gethostname(mine.host.text, sizeof mine.host.text - 1);
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    all = calloc((size_t)size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the places of %d ranks", size);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    if (status < 0) {
        free(all);
        return status;
    }
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
    int warmup = experiment->steps.warmup;
    if (step != result->losses_done)
        return DT_OK;
    if (!result->losses)
        result->losses = calloc((size_t)warmup + (size_t)experiment->steps.timed, sizeof(double));
    if (!result->step_s)
        result->step_s = calloc((size_t)experiment->steps.timed, sizeof(double));
    if (!result->losses || !result->step_s)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the results of %d steps", experiment->steps.timed);
    if (step >= warmup + experiment->steps.timed)
        return DT_OK;
    result->losses[result->losses_done++] = loss;
    if (step >= warmup)
        result->step_s[result->steps_done++] = seconds;
    return DT_OK;
}

/* The ranks' bytes are gathered at the end: without that they are not zero but unknown. */
static int known_ranks(const struct measure_result *result)
{
    return result->ranks && result->rank_count > 0 && result->ranks[0].memory.device.peak_total_bytes > 0 ? result->rank_count : 0;
}

/* 0 without a pipeline. */
static dt_status ideal_bubble(const struct experiment *e, double *out)
{
    struct experiment_order order;
    *out = 0;
    dt_status status = experiment_order_init(&order, e);
    if (status == DT_OK && order.shape.stages > 1)
        status = plan_order_bubble(order.row, &order.shape, out);
    experiment_order_finish(&order);
    return status;
}

dt_status report_measure(const struct report *report, const struct experiment *e, struct dt_metrics *out)
{
    const struct measure_result *result = &report->result;
    double samples = (double)experiment_global_batch(e), tokens = samples * e->model.block_size;
    *out = result->metrics;
    DT_TRY(dt_metrics_set_steps(out, result->step_s, result->steps_done));
    dt_metrics_set_peaks(out, result->ranks, known_ranks(result));
    double step_s = out->step_s.median, flops_per_gpu = dt_model_step_flops(&e->model, (uint64_t)tokens) / step_s / e->world_size;
    double causal_per_gpu = e->model.family->causal_step_flops(&e->model, (uint64_t)tokens) / step_s / e->world_size;
    out->tokens_per_s = tokens / step_s;
    out->samples_per_s = samples / step_s;
    out->tflops_per_gpu = flops_per_gpu / 1e12;
    out->mfu = report->peak_flops > 0 ? flops_per_gpu / report->peak_flops : NAN;
    out->causal_tflops_per_gpu = causal_per_gpu / 1e12;
    out->causal_mfu = report->peak_flops > 0 ? causal_per_gpu / report->peak_flops : NAN;
    out->scaling_efficiency = out->tokens_per_s / e->world_size / report->fewest_tokens_per_s;
    out->flops_formula = e->model.family->flops_formula(&e->model);
    /* The study defines ACO with the time of a step that does not communicate. That is taken to be this step less the time in which it did
     * nothing but wait for communication, so no second run is needed. */
    out->aco_ms_per_sample = out->step.exposed_comm_s * 1000 / e->batch_size;
    out->bubble = out->step.bubble_s / step_s;
    DT_TRY(ideal_bubble(e, &out->bubble_ideal));
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
    default: return "failed";
    }
}

static const char *known(const char *text)
{
    return *text ? text : NULL;
}

/* Lines as an array of texts; none where there are none. */
struct lines {
    char *text;
    const char **parts; /* [count] in text */
    int count;
};

static dt_status split_lines(const char *text, struct lines *out)
{
    int most = 1;
    *out = (struct lines){0};
    if (!text)
        return DT_OK;
    for (const char *c = text; *c; c++)
        most += *c == '\n';
    out->text = strdup(text);
    out->parts = calloc((size_t)most, sizeof *out->parts);
    if (!out->text || !out->parts)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the places of the ranks");
    for (char *rest = out->text; rest;)
        out->parts[out->count++] = strsep(&rest, "\n");
    return DT_OK;
}

static void free_lines(struct lines *lines)
{
    free(lines->parts);
    free(lines->text);
}

/* Of the connections over the network; NULL where there are none, or none is known. */
static const char *gpudirect_of(const struct dt_comm_network *network)
{
    if (network->direct_channels + network->staged_channels == 0)
        return NULL;
    return network->staged_channels == 0 ? "all" : network->direct_channels == 0 ? "none" : "some";
}

static dt_status collect_provenance(const struct report *report, const struct experiment *e, struct cJSON **out)
{
    struct lines hosts = {0}, gpus = {0};
    dt_status status = split_lines(report->hosts, &hosts);
    if (status < 0)
        goto end;
    status = split_lines(report->gpus, &gpus);
    if (status < 0)
        goto end;
    struct dt_provenance_facts facts = {
        .device = known(report->device),
        .device_name = known(report->device_name),
        .threads_per_rank = report->threads,
        .hosts = hosts.parts,
        .host_count = hosts.count,
        .gpus = gpus.parts,
        .gpu_count = gpus.count,
        .gpu_conditions = report->result.conditions,
        .doubts = known(report->result.doubts),
        .driver = known(report->driver),
        .settings = strcmp(report->device, "cuda") == 0 ? known(e->nccl) : known(report->settings),
        .launcher = known(report->launcher),
        .secret = known(report->secret),
        .versions = known(report->versions),
        .graph = known(report->result.graph),
        .products = known(report->result.products),
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
    status = dt_provenance_collect(&facts, out);
end:
    free_lines(&hosts);
    free_lines(&gpus);
    return status;
}

dt_status report_record(const struct report *report, const struct experiment *e, char **out_line)
{
    const struct measure_result *result = &report->result;
    struct cJSON *provenance = NULL;
    char *config = NULL;
    struct dt_record record;
    dt_record_init(&record);
    dt_status status = report_measure(report, e, &record.metrics);
    if (status < 0)
        goto end;
    status = experiment_to_json(e, DT_JSON_COMPACT, &config);
    if (status < 0)
        goto end;
    status = collect_provenance(report, e, &provenance);
    if (status < 0)
        goto end;
    record.config_json = config;
    record.config_hash = e->hash;
    record.sweep_id = known(report->sweep.id);
    record.sweep_index = report->sweep.index;
    record.sweep_count = report->sweep.count;
    record.status = report_status_name(report->status);
    record.error = known(report->error);
    record.losses = result->losses;
    record.loss_count = result->losses_done;
    record.step_s = result->step_s;
    record.step_count = result->steps_done;
    record.ranks = result->ranks;
    record.rank_count = known_ranks(result);
    record.verification = report->verification;
    record.verification_error = report->verification_error;
    record.provenance = provenance;
    status = dt_record_format(&record, out_line);
end:
    dt_json_destroy(provenance);
    free(config);
    return status;
}

/* ---- from rank 0 to the process that writes the record ---- */

static bool add_numbers(cJSON *object, const char *key, const double *values, int count)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    bool kept = array != NULL;
    for (int i = 0; kept && i < count; i++)
        kept = cJSON_AddItemToArray(array, cJSON_CreateNumber(values[i])); /* NaN becomes null when printed */
    return kept;
}

static bool add_memory(cJSON *object, const char *total, const char *peaks, const struct dt_memory_bytes *memory)
{
    double values[DT_CATEGORY_COUNT];
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        values[c] = (double)memory->peak_bytes[c];
    return cJSON_AddNumberToObject(object, total, (double)memory->peak_total_bytes) &&
           add_numbers(object, peaks, values, DT_CATEGORY_COUNT);
}

static bool add_rank(cJSON *array, const struct dt_rank_memory *rank)
{
    cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(array, object))
        return false;
    return add_memory(object, "total", "peaks", &rank->memory.device) &&
           add_memory(object, "host_total", "host_peaks", &rank->memory.host) &&
           cJSON_AddNumberToObject(object, "resident", (double)rank->rss_peak_bytes);
}

static bool add_tuning(cJSON *object, const struct tuning_facts *tuning)
{
    char hash[17];
    cJSON *facts = cJSON_AddObjectToObject(object, "tuning");
    snprintf(hash, sizeof hash, "%016" PRIx64, tuning->hash);
    return facts && cJSON_AddStringToObject(facts, "file", tuning->file) && cJSON_AddStringToObject(facts, "hash", hash) &&
           cJSON_AddNumberToObject(facts, "products", tuning->products) && cJSON_AddNumberToObject(facts, "decided", tuning->decided) &&
           cJSON_AddNumberToObject(facts, "undecided", tuning->undecided);
}

static bool add_network(cJSON *object, const struct dt_comm_network *network)
{
    cJSON *facts = cJSON_AddObjectToObject(object, "network");
    return facts && cJSON_AddStringToObject(facts, "transports", network->transports) &&
           cJSON_AddStringToObject(facts, "network", network->network) && cJSON_AddStringToObject(facts, "cards", network->cards) &&
           cJSON_AddNumberToObject(facts, "direct", network->direct_channels) &&
           cJSON_AddNumberToObject(facts, "staged", network->staged_channels) &&
           cJSON_AddNumberToObject(facts, "registered", (double)network->registered_bytes);
}

static bool add_result(cJSON *object, const struct measure_result *result)
{
    cJSON *metrics = cJSON_AddObjectToObject(object, "metrics"), *ranks = cJSON_AddArrayToObject(object, "ranks");
    bool kept = metrics && ranks && dt_metrics_write(&result->metrics, metrics) &&
                add_numbers(object, "step_s", result->step_s, result->steps_done) &&
                add_numbers(object, "losses", result->losses, result->losses_done) &&
                cJSON_AddStringToObject(object, "graph", result->graph) && cJSON_AddStringToObject(object, "products", result->products) &&
                cJSON_AddStringToObject(object, "conditions", result->conditions ? result->conditions : "") &&
                cJSON_AddStringToObject(object, "doubts", result->doubts) && add_tuning(object, &result->tuning) &&
                add_network(object, &result->network);
    for (int i = 0; kept && result->ranks && i < result->rank_count; i++)
        kept = add_rank(ranks, &result->ranks[i]);
    return kept;
}

static bool add_place(cJSON *object, const struct report *report)
{
    return cJSON_AddStringToObject(object, "device", report->device) &&
           cJSON_AddStringToObject(object, "device_name", report->device_name) &&
           cJSON_AddStringToObject(object, "launcher", report->launcher) && cJSON_AddStringToObject(object, "versions", report->versions) &&
           cJSON_AddNumberToObject(object, "threads", report->threads) && cJSON_AddStringToObject(object, "settings", report->settings) &&
           cJSON_AddStringToObject(object, "driver", report->driver) && cJSON_AddStringToObject(object, "secret", report->secret) &&
           cJSON_AddStringToObject(object, "gpus", report->gpus ? report->gpus : "") &&
           cJSON_AddStringToObject(object, "hosts", report->hosts ? report->hosts : "");
}

dt_status report_write(const struct report *report, char **out)
{
    cJSON *object = cJSON_CreateObject();
    bool kept = object && add_result(object, &report->result) && add_place(object, report);
    dt_status status = kept ? dt_json_print(object, DT_JSON_COMPACT, out) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a result");
    cJSON_Delete(object);
    return status;
}

static const cJSON *at(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static uint64_t bytes_of(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble > 0 ? (uint64_t)value->valuedouble : 0;
}

/* An array of numbers; NULL where there is none or no memory. The caller frees it. */
static double *read_numbers(const cJSON *array, int *count)
{
    const cJSON *item;
    double *values = cJSON_IsArray(array) ? calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *values) : NULL;
    *count = 0;
    if (!values)
        return NULL;
    cJSON_ArrayForEach(item, array)
    {
        values[(*count)++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return values;
}

static void read_text(const cJSON *value, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s", cJSON_IsString(value) ? value->valuestring : "");
}

/* NULL where there are none; false when memory is out. */
static bool read_lines(const cJSON *value, char **out)
{
    bool there = cJSON_IsString(value) && *value->valuestring;
    free(*out);
    *out = there ? strdup(value->valuestring) : NULL;
    return *out || !there;
}

static bool read_memory(const cJSON *total, const cJSON *peaks, struct dt_memory_bytes *out)
{
    const cJSON *item;
    int c = 0;
    if (cJSON_GetArraySize(peaks) != DT_CATEGORY_COUNT)
        return false;
    cJSON_ArrayForEach(item, peaks)
    {
        out->peak_bytes[c++] = bytes_of(item);
    }
    out->peak_total_bytes = bytes_of(total);
    return true;
}

static bool read_rank(const cJSON *object, struct dt_rank_memory *out)
{
    out->rss_peak_bytes = bytes_of(at(object, "resident"));
    return read_memory(at(object, "total"), at(object, "peaks"), &out->memory.device) &&
           read_memory(at(object, "host_total"), at(object, "host_peaks"), &out->memory.host);
}

static void read_tuning(const cJSON *object, struct tuning_facts *out)
{
    char hash[17];
    read_text(at(object, "file"), out->file, sizeof out->file);
    read_text(at(object, "hash"), hash, sizeof hash);
    out->hash = strtoull(hash, NULL, 16);
    out->products = (int)bytes_of(at(object, "products"));
    out->decided = (int)bytes_of(at(object, "decided"));
    out->undecided = (int)bytes_of(at(object, "undecided"));
}

static void read_network(const cJSON *object, struct dt_comm_network *out)
{
    read_text(at(object, "transports"), out->transports, sizeof out->transports);
    read_text(at(object, "network"), out->network, sizeof out->network);
    read_text(at(object, "cards"), out->cards, sizeof out->cards);
    out->direct_channels = (int)bytes_of(at(object, "direct"));
    out->staged_channels = (int)bytes_of(at(object, "staged"));
    out->registered_bytes = bytes_of(at(object, "registered"));
}

static bool read_result(const cJSON *object, struct measure_result *out)
{
    const cJSON *metrics = at(object, "metrics"), *ranks = at(object, "ranks"), *item;
    int i = 0;
    dt_metrics_read(&out->metrics, metrics);
    read_text(at(object, "graph"), out->graph, sizeof out->graph);
    read_text(at(object, "doubts"), out->doubts, sizeof out->doubts);
    read_text(at(object, "products"), out->products, sizeof out->products);
    read_tuning(at(object, "tuning"), &out->tuning);
    read_network(at(object, "network"), &out->network);
    out->step_s = read_numbers(at(object, "step_s"), &out->steps_done);
    out->losses = read_numbers(at(object, "losses"), &out->losses_done);
    out->rank_count = cJSON_GetArraySize(ranks);
    out->ranks = calloc((size_t)out->rank_count + 1, sizeof *out->ranks);
    bool complete = read_lines(at(object, "conditions"), &out->conditions) && cJSON_IsObject(metrics) && cJSON_IsArray(ranks) &&
                    out->step_s && out->losses && out->ranks;
    cJSON_ArrayForEach(item, ranks)
    {
        complete = complete && read_rank(item, &out->ranks[i++]);
    }
    return complete;
}

static bool read_place(const cJSON *object, struct report *report)
{
    const cJSON *threads = at(object, "threads");
    report->threads = cJSON_IsNumber(threads) ? threads->valueint : 0;
    read_text(at(object, "device"), report->device, sizeof report->device);
    read_text(at(object, "device_name"), report->device_name, sizeof report->device_name);
    read_text(at(object, "launcher"), report->launcher, sizeof report->launcher);
    read_text(at(object, "versions"), report->versions, sizeof report->versions);
    read_text(at(object, "settings"), report->settings, sizeof report->settings);
    read_text(at(object, "driver"), report->driver, sizeof report->driver);
    read_text(at(object, "secret"), report->secret, sizeof report->secret);
    return read_lines(at(object, "hosts"), &report->hosts) && read_lines(at(object, "gpus"), &report->gpus);
}

dt_status report_read(struct report *report, const char *text)
{
    cJSON *object;
    struct measure_result result = {0};
    DT_TRY(dt_json_parse(text, strlen(text), "rank 0's result", &object));
    if (!read_result(object, &result)) {
        measure_result_finish(&result);
        dt_json_destroy(object);
        return dt_fail(DT_ERR_INVALID, "rank 0's result is not complete");
    }
    measure_result_finish(&report->result);
    report->result = result;
    bool placed = read_place(object, report);
    dt_json_destroy(object);
    return placed ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for rank 0's result");
}
