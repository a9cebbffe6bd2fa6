/* `dtbench bench`: measures collectives alone, at any sizes and in any group of ranks, also while a
 * matrix product is computed. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/run/calibration_ranks.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/base/statistics.h"
#include "lib/config/json.h"
#include "lib/device/device.h"
#include "lib/record/record.h"
#include "predict/rates.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES "1K:32M:8"
#define DEFAULT_KINDS "all_reduce,reduce_scatter,all_gather"
#define DEFAULT_REPETITIONS "20"
#define DEFAULT_CLUSTER "dgx_h100"

enum { MOST_RANKS = 65536 };

struct command_options {
    const char *device, *ranks, *kinds, *bytes, *group, *stride, *repetitions, *threads, *cluster, *output;
    bool product, quiet;
    struct calibration_request request; /* the settings of devices cpu and cuda */
    int world;
};

/* ---- options ---- */

static const char *device_choice_name(int index)
{
    const struct dt_device_kind *kind = dt_device_kind_at(index);
    return kind ? kind->name : NULL;
}

#define AT(member) offsetof(struct command_options, member)

static const struct option_row options[] = {
    {"collective", 'c', OPTION_TEXT, AT(kinds), "LIST", dt_sim_measured_kind_name,
     "which collectives, comma-separated; default: " DEFAULT_KINDS ". They are"},
    {"bytes", 'b', OPTION_TEXT, AT(bytes), "SIZES", NULL,
     "sizes of a rank's whole buffer: a list (4K,1M), or FIRST:LAST:FACTOR; K, M and G are powers of two. Default: " DEFAULT_BYTES},
    {"device", 'd', OPTION_TEXT, AT(device), "DEVICE", device_choice_name, "default: cpu. They are"},
    {"ranks", 'r', OPTION_TEXT, AT(ranks), "N", NULL,
     "how many; default: 2; all GPUs of this machine; under a launcher, all ranks that it has started"},
    {"group", 'g', OPTION_TEXT, AT(group), "N", NULL, "in groups of N ranks, all groups at the same time; default: one group of all ranks"},
    {"stride", 's', OPTION_TEXT, AT(stride), "N", NULL,
     "the ranks of a group are N apart. In a mesh with 4 tensor ranks, --group 4 is the tensor axis and --stride 4 the data axis; "
     "default: 1"},
    {"beside", 'B', OPTION_FLAG, AT(product), NULL, NULL,
     "also concurrently with a matrix product that takes about as long as the collective"},
    {"repeat", 'n', OPTION_TEXT, AT(repetitions), "N", NULL,
     "how often each is measured, within two seconds; default: " DEFAULT_REPETITIONS},
    {"threads", 't', OPTION_TEXT, AT(threads), "N", NULL, "cpu: threads of each rank; default: processors / ranks"},
    {"cluster", 'C', OPTION_TEXT, AT(cluster), "NAME", NULL, "sim: the cluster; default: " DEFAULT_CLUSTER},
    {"output", 'o', OPTION_TEXT, AT(output), "RECORDS", NULL, "append a record of each measurement to this file"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), NULL, NULL, "no progress, and no table"},
    {0},
};

static dt_status add_size(struct calibration_bench *b, double bytes, const char *text)
{
    if (bytes < sizeof(float) || bytes > 0x1p40)
        return dt_fail(DT_ERR_INVALID, "--bytes %.80s: expected sizes from 4 bytes to 1T, such as 4K,1M or 1K:32M:4", text);
    if (b->sizes == CALIBRATION_SIZES)
        return dt_fail(DT_ERR_INVALID, "--bytes %.80s: more than %d sizes", text, CALIBRATION_SIZES);
    b->bytes[b->sizes++] = floor(bytes / sizeof(float)) * sizeof(float);
    return DT_OK;
}

static dt_status read_sizes(const char *text, struct calibration_bench *b)
{
    char words[256], *rest = words, *last = strchr(text, ':');
    snprintf(words, sizeof words, "%s", text);
    if (!last) {
        for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ","))
            DT_TRY(add_size(b, rates_bytes_of_text(word), text));
        return DT_OK;
    }
    double range[3] = {0};
    for (int i = 0; i < 3 && rest; i++)
        range[i] = rates_bytes_of_text(strsep(&rest, ":"));
    if (rest || range[2] < 2 || range[1] < range[0])
        return dt_fail(DT_ERR_INVALID, "--bytes %.80s: expected FIRST:LAST:FACTOR, with a factor of 2 or more", text);
    for (double bytes = range[0]; bytes <= range[1]; bytes *= range[2])
        DT_TRY(add_size(b, bytes, text));
    return DT_OK;
}

static dt_status check_options(void *options_read)
{
    struct command_options *o = options_read;
    struct calibration_bench *b = &o->request.bench;
    const char *device = o->device ? o->device : "cpu";
    const struct dt_device_kind *kind = dt_device_kind_find(device);
    if (!kind)
        return dt_fail(DT_ERR_INVALID, "--device %.40s: expected cpu, cuda or sim", device);
    snprintf(o->request.device, sizeof o->request.device, "%s", device);
    b->product = o->product;
    DT_TRY(options_read_words("collective", o->kinds ? o->kinds : DEFAULT_KINDS, dt_sim_measured_kind_name, b->kinds));
    DT_TRY(read_sizes(o->bytes ? o->bytes : DEFAULT_BYTES, b));
    b->stride = 1;
    DT_TRY(options_read_count("ranks", o->ranks, MOST_RANKS, &o->world));
    DT_TRY(options_read_count("group", o->group, MOST_RANKS, &b->group));
    DT_TRY(options_read_count("stride", o->stride, MOST_RANKS, &b->stride));
    DT_TRY(options_read_count("repeat", o->repetitions ? o->repetitions : DEFAULT_REPETITIONS, CALIBRATION_REPETITIONS, &b->repetitions));
    DT_TRY(options_read_count("threads", o->threads, MOST_RANKS, &o->request.threads));
    if (kind->simulated && (o->product || b->stride > 1))
        return dt_fail(DT_ERR_INVALID, "%s: only with --device cpu or cuda; device sim predicts the collective's time alone",
                       o->product ? "--beside" : "--stride");
    if (o->cluster && !kind->simulated)
        return dt_fail(DT_ERR_INVALID, "--cluster: only with --device sim");
    return DT_OK;
}

/* ---- what was measured, as records ---- */

static const char *axis_of(const struct command_options *o)
{
    const struct calibration_bench *b = &o->request.bench;
    return b->group == 0 ? "world" : b->stride == 1 ? "neighbours" : "strided";
}

static const char *cluster_of(const struct command_options *o)
{
    return o->cluster ? o->cluster : DEFAULT_CLUSTER;
}

/* The config of one measurement: what decides its result. */
static struct cJSON *config_of(const struct command_options *o, const struct dt_sim_measured *m, bool beside)
{
    const struct calibration_bench *b = &o->request.bench;
    struct cJSON *config = dt_json_object(
        "name: %s, device: %s, world_size: %d, bench: {collective: %s, bytes: %g, axis: %s, group: %d, stride: %d, beside: %s}", "bench",
        o->request.device, o->world, dt_sim_measured_kind_name(m->kind), m->bytes, axis_of(o), m->ranks, b->stride,
        beside ? "product" : "nothing");
    if (*o->request.device == 's')
        dt_json_add(&config, "cluster: %s", cluster_of(o));
    return config;
}

static struct cJSON *metrics_of(const struct dt_sim_measured *m, const struct calibration_times *t, bool beside)
{
    const double *all = beside ? t->beside_s : t->alone_s;
    struct dt_statistics alone, s;
    double factor = rates_bus_factor(m->kind, m->ranks);
    if (dt_statistics_compute(all, t->count, &s) < 0 || dt_statistics_compute(t->alone_s, t->count, &alone) < 0)
        return NULL;
    struct cJSON *metrics =
        dt_json_object("step_s: {median: %g, p95: %g, cv: %g, all: %p}", s.median, s.p95, s.cv, dt_json_numbers(all, t->count));
    if (beside)
        dt_json_add(&metrics, "collective_s: %g, product_s: %g, overlap: %g", alone.median, t->product_s,
                    calibration_overlap(alone.median, t->product_s, s.median));
    else
        dt_json_add(&metrics, "algorithm_gb_per_s: %g, bus_gb_per_s: %g", 1e-9 * m->bytes / s.median, 1e-9 * factor * m->bytes / s.median);
    return metrics;
}

static dt_status write_record(const struct command_options *o, const struct calibration *c, int index, bool beside,
                              const struct cJSON *provenance, struct dt_record_file *to)
{
    char hash[20];
    DT_FREED char *config_text = NULL, *line = NULL;
    const struct dt_sim_measured *m = &c->collectives.entries[index];
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = config_of(o, m, beside);
    DT_TRY(dt_allocated(config, "no memory for a record"));
    DT_TRY(dt_json_print(config, DT_JSON_SORTED, &config_text));
    snprintf(hash, sizeof hash, "%016" PRIx64, dt_hash_fnv1a(config_text, strlen(config_text)));
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *record =
        dt_json_object("schema_version: %d, config: %p, config_hash: %s, status: %s, error: %p, losses: %p, metrics: %p, "
                       "provenance: %p",
                       DT_RECORD_SCHEMA_VERSION, DT_PASSED_ON(config), hash, "ok", dt_json_text(NULL), dt_json_array(),
                       metrics_of(m, &c->times[index], beside), cJSON_Duplicate(provenance, true));
    DT_TRY(dt_allocated(record, "no memory for a record"));
    DT_TRY(dt_json_print(record, DT_JSON_SPACED, &line));
    return dt_record_append(to, line);
}

static dt_status write_records(const struct command_options *o, const struct calibration *c, double started_s, struct dt_record_file *to)
{
    char processor[96];
    DT_DESTROYED(dt_json_destroy) struct cJSON *provenance = NULL;
    dt_machine_processor_name(processor, sizeof processor);
    const struct dt_provenance_facts facts = {.device = o->request.device,
                                              .device_name = *c->gpu.name                ? c->gpu.name
                                                             : *o->request.device == 's' ? NULL
                                                                                         : processor,
                                              .threads_per_rank = o->request.threads,
                                              .versions = *c->library ? c->library : NULL,
                                              .launcher = "none",
                                              .started_s = started_s};
    DT_TRY(dt_provenance_collect(&facts, &provenance));
    for (int i = 0; i < c->collectives.count; i++) {
        DT_TRY(write_record(o, c, i, false, provenance, to));
        if (c->times[i].product_s > 0)
            DT_TRY(write_record(o, c, i, true, provenance, to));
    }
    return DT_OK;
}

/* ---- measuring ---- */

static dt_status measure(const struct command_options *o, const struct dt_world *world, struct calibration *c)
{
    char reason[256];
    struct calibration_watch watch = {.ranks = o->world, .threads = o->request.threads, .live = !o->quiet && terminal_is_live(stderr)};
    if (!dt_device_available(o->request.device, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", o->request.device, reason);
    if (world->size > 1)
        return calibration_measure_inside(&o->request, world, o->quiet, c);
    watch.total = calibration_count(&o->request, 1);
    dt_status status = calibration_measure_world(&o->request, &watch, c);
    if (watch.live)
        status_clear();
    return status;
}

/* The number of ranks where --ranks is not given. */
static int usual_ranks(const struct command_options *o, const struct dt_world *world)
{
    const struct dt_device_kind *kind = dt_device_kind_find(o->request.device);
    int gpus = kind->gpus ? dt_device_count(o->request.device) : 0;
    return o->world ? o->world : world->size > 1 ? world->size : kind->simulated ? 8 : gpus > 1 ? gpus : 2;
}

static dt_status bench(void *options_read, const struct dt_world *world, struct calibration *c)
{
    struct command_options *o = options_read;
    struct dt_record_file *records = NULL;
    const struct calibration_bench *b = &o->request.bench;
    double started_s = dt_wall_clock_s();
    bool simulated = dt_device_kind_find(o->request.device)->simulated;
    o->world = usual_ranks(o, world);
    int period = (b->group ? b->group : o->world) * b->stride;
    if (o->world < 2 || (b->group == 1) || o->world % period != 0)
        return dt_fail(DT_ERR_INVALID,
                       "%d ranks in groups of %d, each rank %d after the one before: expected two or more of each, and a multiple",
                       o->world, b->group ? b->group : o->world, b->stride);
    if (o->output && world->rank == 0)
        DT_TRY(dt_record_open(o->output, &records));
    dt_status status =
        simulated ? calibration_predict(&o->request, cluster_of(o), b->group ? b->group : o->world, c) : measure(o, world, c);
    if (status == DT_OK && records)
        status = write_records(o, c, started_s, records);
    dt_record_close(records);
    if (status == DT_OK && world->rank == 0 && !o->quiet)
        status = calibration_print_collectives(c, stdout);
    return status;
}

static int run(int argc, char **argv)
{
    struct command_options o = {.device = NULL};
    int code;
    if (!options_begin(&command_bench, argc, argv, &o, check_options, &code))
        return code;
    return calibration_command("bench", o.ranks, EXIT_CODE_USAGE, bench, &o);
}

const struct command command_bench = {
    .name = "bench",
    .summary = "collectives alone, by size, and concurrently with a product",
    .usage = "[OPTION]...",
    .description =
        "Measures collectives alone, on this machine's processors or GPUs, or predicts them on a described cluster, with algorithm and bus "
        "bandwidth as nccl-tests define them. With --beside each is measured once more while a matrix product is computed that takes about "
        "as long: overlap is what of the shorter one is hidden. With --output each is a record, which show, compare and report take.\n\n"
        "    dtbench bench --ranks 4 --group 2 --stride 2 --bytes 64K:16M:4 --beside -o bench.jsonl\n\n"
        "Started by mpirun or srun, it measures among the ranks of these.",
    .options = options,
    .run = run,
};
