#include "schedules/run/report.h"

#include "gpt/kernels.h"
#include "lib/base/clock.h"
#include "lib/base/statistics.h"
#include "lib/config/json.h"
#include "lib/record/provenance.h"
#include "lib/record/record.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void report_init(struct report *report)
{
    *report = (struct report){.started_s = dt_wall_clock_s(), .verification_error = NAN};
    report->began_s = dt_clock_s();
    report->result.startup_s = report->result.overflow_steps = report->result.overflow_elements = NAN;
    for (int p = 0; p < TIMELINE_PHASES; p++)
        report->result.phase_s[p] = NAN;
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
    char host[256], gpu[48];
};

/* Each machine once, in the order of its first rank. */
static char *distinct_hosts(const struct whereabouts *ranks, int count)
{
    char *lines = calloc((size_t)count, sizeof ranks[0].host + 1), *end = lines;
    for (int i = 0; lines && i < count; i++) {
        bool known = false;
        for (int j = 0; j < i && !known; j++)
            known = strcmp(ranks[i].host, ranks[j].host) == 0;
        if (!known)
            end = stpcpy(stpcpy(end, end == lines ? "" : "\n"), ranks[i].host);
    }
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

dt_status report_describe(struct report *report, const struct dt_device *device, struct dt_comm *world, const struct dt_world *place)
{
    struct dt_device_info info;
    struct whereabouts mine = {0}, *all;
    char kernels[128];
    int size = dt_comm_size(world);
    const char *library = dt_comm_library(world);

    dt_device_info(device, &info);
    memcpy(report->device, info.kind, sizeof report->device);
    memcpy(report->device_name, info.name, sizeof report->device_name);
    memcpy(report->launcher, place->launcher, sizeof report->launcher);
    memcpy(report->driver, info.driver, sizeof report->driver);
    report->threads = info.threads;
    report->versions[0] = '\0';
    add_version(report, info.versions, true);
    add_version(report, kernels, gpt_kernels_available(info.kind, kernels, sizeof kernels));
    add_version(report, library, strcmp(library, "none") != 0);

    gethostname(mine.host, sizeof mine.host - 1);
    memcpy(mine.gpu, info.uuid, sizeof mine.gpu);
    if (!(all = calloc((size_t)size, sizeof *all)))
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the places of %d ranks", size);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    if (status == DT_OK) {
        free(report->hosts);
        free(report->gpus);
        report->hosts = distinct_hosts(all, size);
        report->gpus = *mine.gpu ? all_gpus(all, size) : NULL;
        if (!report->hosts || (*mine.gpu && !report->gpus))
            status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the places of %d ranks", size);
    }
    free(all);
    return status;
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

/* The ranks' bytes are gathered at the end: without that they are not zero but
 * unknown. */
static int known_ranks(const struct measure_result *result)
{
    return result->ranks && result->rank_count > 0 && result->ranks[0].memory.device.peak_total_bytes > 0 ? result->rank_count : 0;
}

dt_status report_measure(const struct report *report, const struct experiment *e, struct report_metrics *out)
{
    const struct measure_result *result = &report->result;
    struct dt_statistics step;
    DT_TRY(dt_statistics_compute(result->step_s, result->steps_done, &step));
    double samples = (double)experiment_global_batch(e), tokens = samples * e->model.block_size;
    *out = (struct report_metrics){
        .step_s = {step.median, step.p95, step.cv},
        .tokens_per_s = tokens / step.median,
        .samples_per_s = samples / step.median,
        .tflops_per_gpu = gpt_step_flops(&e->model, (uint64_t)tokens) / step.median / e->world_size / 1e12,
        .mfu =
            report->peak_flops > 0 ? gpt_step_flops(&e->model, (uint64_t)tokens) / step.median / e->world_size / report->peak_flops : NAN,
        .exposed_comm_s = result->phase_s[TIMELINE_EXPOSED],
        /* The study defines ACO with the time of a step that does not
         * communicate. That is taken to be this step less the time in which it
         * did nothing but wait for communication, so no second run is needed. */
        .aco_ms_per_sample = result->phase_s[TIMELINE_EXPOSED] * 1000 / e->batch_size,
        .overflow_steps = result->overflow_steps,
        .overflow_elements = result->overflow_elements,
        .peak_bytes = NAN,
        .host_peak_bytes = NAN,
        .first_loss = result->losses_done > 0 ? result->losses[0] : NAN,
        .last_loss = result->losses_done > 0 ? result->losses[result->losses_done - 1] : NAN,
    };
    for (int i = 0; i < known_ranks(result); i++) {
        out->peak_bytes = fmax(out->peak_bytes, (double)result->ranks[i].memory.device.peak_total_bytes);
        out->host_peak_bytes = fmax(out->host_peak_bytes, (double)result->ranks[i].memory.host.peak_total_bytes);
    }
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

/* Split lines in place; the caller frees the array. */
static const char **split_lines(char *lines, int *count)
{
    int most = 1;
    for (const char *c = lines; *c; c++)
        most += *c == '\n';
    const char **parts = calloc((size_t)most, sizeof *parts);
    *count = 0;
    for (char *rest = lines, *part; parts && (part = strsep(&rest, "\n"));)
        parts[(*count)++] = part;
    return parts;
}

static dt_status collect_provenance(const struct report *report, const struct experiment *e, struct cJSON **out)
{
    int host_count = 0, gpu_count = 0;
    char *lines = report->hosts ? strdup(report->hosts) : NULL, *gpu_lines = report->gpus ? strdup(report->gpus) : NULL;
    const char **hosts = lines ? split_lines(lines, &host_count) : NULL, **gpus = gpu_lines ? split_lines(gpu_lines, &gpu_count) : NULL;
    struct dt_provenance_facts facts = {
        .device = known(report->device),
        .device_name = known(report->device_name),
        .threads_per_rank = report->threads,
        .hosts = hosts,
        .host_count = host_count,
        .gpus = gpus,
        .gpu_count = gpu_count,
        .driver = known(report->driver),
        .settings = strcmp(report->device, "cuda") == 0 ? known(e->nccl) : NULL,
        .launcher = known(report->launcher),
        .versions = known(report->versions),
        .graph = known(report->result.graph),
        .cluster = {known(report->cluster.name), report->cluster.hash},
        .profile = {known(report->profile.name), report->profile.hash},
        .started_s = report->started_s,
        .slurm = report->slurm,
    };
    dt_status status = dt_provenance_collect(&facts, out);
    free(hosts);
    free(lines);
    free(gpus);
    free(gpu_lines);
    return status;
}

/* Config, provenance and the ranks' bytes are the caller's; what is left is
 * numbers. */
static void fill_record(struct dt_record *record, const struct report *report, const struct experiment *e, const struct report_metrics *m)
{
    const struct measure_result *result = &report->result;
    record->config_hash = e->hash;
    record->sweep_id = known(report->sweep.id);
    record->sweep_index = report->sweep.index;
    record->sweep_count = report->sweep.count;
    record->status = report_status_name(report->status);
    record->error = known(report->error);
    record->losses = result->losses;
    record->loss_count = result->losses_done;
    record->step_s = result->step_s;
    record->step_count = result->steps_done;
    record->tokens_per_s = m->tokens_per_s;
    record->samples_per_s = m->samples_per_s;
    record->tflops_per_gpu = m->tflops_per_gpu;
    record->mfu = m->mfu;
    record->flops_formula = "3 * 2 * (L * 12 d^2 + V d + 2 L T d) per token, PaLM appendix B";
    record->forward_s = result->phase_s[TIMELINE_FORWARD];
    record->backward_s = result->phase_s[TIMELINE_BACKWARD];
    record->optimizer_s = result->phase_s[TIMELINE_OPTIMIZER];
    record->exposed_comm_s = m->exposed_comm_s;
    record->aco_ms_per_sample = m->aco_ms_per_sample;
    record->overflow_steps = m->overflow_steps;
    record->overflow_elements = m->overflow_elements;
    record->startup_s = result->startup_s;
    record->wall_s = dt_clock_s() - report->began_s;
    record->verification = report->verification;
    record->verification_error = report->verification_error;
}

dt_status report_record(const struct report *report, const struct experiment *e, char **out_line)
{
    const struct measure_result *result = &report->result;
    int ranks = known_ranks(result);
    struct dt_record record;
    struct report_metrics metrics;
    struct cJSON *provenance = NULL;
    char *config = NULL;
    struct dt_memory_usage *usage = calloc((size_t)ranks + 1, sizeof *usage);
    uint64_t *resident_bytes = calloc((size_t)ranks + 1, sizeof *resident_bytes);
    dt_status status = usage && resident_bytes ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a record of %d ranks", ranks);
    for (int i = 0; status == DT_OK && i < ranks; i++) {
        usage[i] = result->ranks[i].memory;
        resident_bytes[i] = result->ranks[i].rss_peak_bytes;
    }
    if (status == DT_OK)
        status = report_measure(report, e, &metrics);
    if (status == DT_OK)
        status = experiment_to_json(e, DT_JSON_COMPACT, &config);
    if (status == DT_OK)
        status = collect_provenance(report, e, &provenance);
    if (status == DT_OK) {
        dt_record_init(&record);
        fill_record(&record, report, e, &metrics);
        record.config_json = config;
        record.provenance = provenance;
        record.ranks = usage;
        record.rss_peak_bytes = resident_bytes;
        record.rank_count = ranks;
        status = dt_record_format(&record, out_line);
    }
    dt_json_destroy(provenance);
    free(config);
    free(resident_bytes);
    free(usage);
    return status;
}
