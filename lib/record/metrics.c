#include "lib/record/metrics.h"

#include "lib/base/statistics.h"
#include "lib/config/json.h"
#include "lib/config/words.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct dt_metrics, member)

/* A number of the run, and one that each rank measures in each step: a part of the step's time, or
 * what a rank communicates. */
#define OF_RUN(member, in, ...) {#member, AT(member), .unit = in, __VA_ARGS__}
#define OF_STEP(member, in, over_ranks, over_steps, ...)                                                                                   \
    {#member, AT(step.member), DT_METRIC_NUMBER, in, over_ranks, over_steps, __VA_ARGS__}
#define TIME_OF_STEP(member, ...) OF_STEP(member, DT_IN_SECONDS, DT_RANKS_MEAN, DT_STEPS_MIDDLE, __VA_ARGS__)
#define BYTES_OF_STEP(member, ...) OF_STEP(member, DT_IN_BYTES, DT_RANKS_MAX, DT_STEPS_MIDDLE, .later = true, __VA_ARGS__)

static const struct dt_metric table[] = {
    {"tokens_per_s", AT(units_per_s), .unit = DT_IN_UNITS_PER_S, .later = true,
     .help = "Of all ranks together, at the median step time; named after what the model's family counts: images_per_s."},
    OF_RUN(samples_per_s, DT_IN_SAMPLES_PER_S, .help = "Of all ranks together, at the median step time."),
    {"step_s", AT(step_s), DT_METRIC_STEPS, DT_IN_SECONDS, DT_RANKS_MAX, DT_STEPS_MEDIAN, .title = "step",
     .help = "Each timed step's time, as long as its slowest rank: median, p95, coefficient of variation (cv), and the list of all."},
    OF_RUN(step_error, DT_IN_FRACTION, .later = true, .title = "error",
           .help = "Of a predicted step: eight of ten predictions by its profile were off by no more, as a part of what was measured; null "
                   "where nobody has told."),
    OF_RUN(tflops_per_gpu, DT_IN_TFLOP_PER_S, .title = "FLOPs",
           .help = "10^12 floating-point operations a second of one rank, counted by flops_formula."),
    OF_RUN(mfu, DT_IN_FRACTION, .title = "MFU",
           .help = "Model FLOPs utilization: tflops_per_gpu over the device's peak; null where the peak is unknown."),
    OF_RUN(causal_tflops_per_gpu, DT_IN_TFLOP_PER_S, .later = true, .title = "causal FLOPs",
           .help = "tflops_per_gpu with half of attention's products: those that a causal mask leaves."),
    OF_RUN(causal_mfu, DT_IN_FRACTION, .later = true, .title = "causal MFU",
           .help = "mfu counted like causal_tflops_per_gpu; null where the peak is unknown."),
    OF_RUN(scaling_efficiency, DT_IN_FRACTION, .later = true, .title = "scaling",
           .help = "Tokens per second and rank over those of the same experiment on the fewest ranks; null where its sweep has not run "
                   "that one before."),
    {"flops_formula", AT(flops_formula), DT_METRIC_TEXT, .help = "How the floating-point operations of a step are counted."},
    TIME_OF_STEP(forward_s, .title = "forward",
                 .help = "Time of a step in which the device computes the forward pass. These seven times add up to the step."),
    TIME_OF_STEP(backward_s, .title = "backward",
                 .help = "Time of a step in which it computes the backward pass, with what checkpointing computes again."),
    TIME_OF_STEP(optimizer_s, .title = "optimizer", .help = "Time of a step in which it updates parameters."),
    TIME_OF_STEP(exposed_comm_s, .title = "exposed",
                 .help = "Time of a step in which computing waits for communication or for copies from or to host memory."),
    TIME_OF_STEP(bubble_s, .later = true, .title = "bubble",
                 .help = "Time of a step in which it waits for a neighbouring stage of its pipeline, or for other stages to finish."),
    TIME_OF_STEP(data_s, .later = true, .title = "data wait",
                 .help = "Time of a step in which it waits for its samples to be read from a file; 0 where they are random."),
    TIME_OF_STEP(host_s, .later = true, .title = "host wait",
                 .help = "Time of a step in which it waits for the host: for launches, and around the step."),
    OF_RUN(exposed_comm, DT_IN_FRACTION, .later = true, .title = "exposed",
           .help = "exposed_comm_s over the step's time: what share of it communication costs."),
    OF_RUN(bubble, DT_IN_FRACTION, .later = true, .help = "bubble_s over the step's time."),
    OF_RUN(bubble_ideal, DT_IN_FRACTION, .later = true, .title = "ideal bubble",
           .help = "The same of the pipeline's order alone, with equal stages and messages that take no time; 0 without a pipeline."),
    OF_RUN(aco_ms_per_sample, DT_IN_MS_PER_SAMPLE, .title = "ACO",
           .help = "Amortised communication overhead: exposed_comm_s in ms, per sample of a rank."),
    BYTES_OF_STEP(
        comm_bytes, .title = "comm",
        .help = "What a rank communicates in a step, counted by its communicators: whole buffers of all collectives, and messages sent."),
    BYTES_OF_STEP(link_bytes, .title = "on links",
                  .help = "What a rank of comm_bytes sends over its links, if collectives go around rings: of an all-reduce of N ranks 2 "
                          "(N - 1) / N of the buffer, of a reduce-scatter or an all-gather (N - 1) / N, of others all."),
    BYTES_OF_STEP(all_reduce_bytes, .title = "all-reduce", .help = "Of these what is all-reduced."),
    BYTES_OF_STEP(reduce_scatter_bytes, .title = "reduce-scatter", .help = "What is reduced and scattered, of all ranks' parts together."),
    BYTES_OF_STEP(all_gather_bytes, .title = "all-gather", .help = "What is gathered, of all ranks' parts together."),
    BYTES_OF_STEP(broadcast_bytes, .title = "broadcast", .help = "What one rank sends to all."),
    BYTES_OF_STEP(reduce_bytes, .title = "reduce", .help = "What one rank has the sum of."),
    BYTES_OF_STEP(all_to_all_bytes, .title = "all-to-all",
                  .help = "What each rank sends a part of to each other one: heads for positions, with context.comm_type a2a."),
    BYTES_OF_STEP(send_bytes, .title = "send",
                  .help = "Messages sent: between stages of a pipeline, to and from parameter servers, and keys and values around a ring "
                          "(context.comm_type p2p)."),
    OF_STEP(
        server_link_busy, DT_IN_FRACTION, DT_RANKS_MAX, DT_STEPS_MIDDLE, .later = true, .title = "server's link",
        .help =
            "Part of a step in which messages are on their way to the busiest parameter server, or from it; null but on sim with servers."),
    OF_STEP(server_update_busy, DT_IN_FRACTION, DT_RANKS_MAX, DT_STEPS_MIDDLE, .later = true, .title = "server's update",
            .help = "Part of a step in which that server updates parameters; null but on sim with servers."),
    OF_STEP(overflow_steps, DT_IN_STEPS, DT_RANKS_MAX, DT_STEPS_SUM, .later = true,
            .help = "Steps, warm-up included, in which some gradients were not finite and their parameters were not updated."),
    OF_STEP(overflow_elements, DT_IN_PARAMETERS, DT_RANKS_SUM, DT_STEPS_SUM, .later = true,
            .help = "Parameters that were not updated for that reason, over all steps; each once a step, however many ranks hold it."),
    OF_STEP(skipped_steps, DT_IN_STEPS, DT_RANKS_MAX, DT_STEPS_SUM, .later = true,
            .help = "Steps, warm-up included, whose gradients' norm was not finite, so that no parameter was updated: with "
                    "optimizer.clip_norm or dynamic loss scaling."),
    OF_RUN(training_s, DT_IN_SECONDS, .later = true, .title = "training",
           .help = "The whole training on rank 0: start, steps and saves. A prediction has no start but what loading takes."),
    OF_RUN(startup_s, DT_IN_SECONDS, .title = "start",
           .help = "Rank 0's time from the start of its run to the first step, the initialisation of parameters included."),
    OF_RUN(load_s, DT_IN_SECONDS, .later = true, .help = "Of that, the time in which a checkpoint was loaded; null where there was none."),
    OF_RUN(steps_s, DT_IN_SECONDS, .later = true, .title = "all steps",
           .help = "Of training_s, the time of all steps, warm-up included, with what lies between them but for saves."),
    OF_RUN(reading_s, DT_IN_SECONDS, .later = true, .title = "reading",
           .help = "Of that, the time in which steps waited for samples to be read, in each step that of the rank that waited longest."),
    OF_RUN(save_s, DT_IN_SECONDS, .later = true,
           .help = "Time in which training stood still for checkpoints, all of them together; null without checkpoint.path."),
    OF_RUN(saves, DT_IN_CHECKPOINTS, .later = true, .help = "Checkpoints that were saved."),
    OF_RUN(checkpoint_bytes, DT_IN_BYTES, .later = true, .help = "Of the last one, the files of all ranks."),
    OF_RUN(wall_s, DT_IN_SECONDS, .later = true, .title = "wall",
           .help = "All of the experiment's time, with the start and the end of its ranks, and the reference of --verify where it was run "
                   "for it."),
    {"peak_bytes", AT(peak_bytes), DT_METRIC_DEVICE_PEAKS, DT_IN_BYTES, DT_RANKS_MAX, .title = "peak",
     .help = "Peak device memory of the highest rank, by category (each at its own time), and of all ranks; process_rss: of each whole "
             "process."},
    {"host_peak_bytes", AT(host_peak_bytes), DT_METRIC_HOST_PEAKS, DT_IN_BYTES, DT_RANKS_MAX, .later = true, .title = "host",
     .help = "The same of host memory, which holds what is offloaded; 0 where nothing is."},
};
static const struct dt_metric *const end = table + sizeof table / sizeof table[0];

const struct dt_metric *dt_metric_at(int index)
{
    return index < end - table ? &table[index] : NULL;
}

const char *dt_unit_name(enum dt_metric_unit unit)
{
    static const char *const names[] = {
        [DT_IN_NONE] = "",
        [DT_IN_UNITS_PER_S] = "tokens/s",
        [DT_IN_SAMPLES_PER_S] = "samples/s",
        [DT_IN_TFLOP_PER_S] = "TFLOP/s",
        [DT_IN_FRACTION] = "fraction",
        [DT_IN_SECONDS] = "s",
        [DT_IN_MS_PER_SAMPLE] = "ms/sample",
        [DT_IN_STEPS] = "steps",
        [DT_IN_CHECKPOINTS] = "checkpoints",
        [DT_IN_PARAMETERS] = "parameters",
        [DT_IN_BYTES] = "bytes",
    };
    return names[unit];
}

bool dt_unit_is_whole(enum dt_metric_unit unit)
{
    return unit == DT_IN_STEPS || unit == DT_IN_CHECKPOINTS || unit == DT_IN_PARAMETERS || unit == DT_IN_BYTES;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t bytes = strlen(text), ending_bytes = strlen(ending);
    return bytes > ending_bytes && strcmp(text + bytes - ending_bytes, ending) == 0;
}

/* The unit that a name ends with. */
static void read_unit(const char *key, struct dt_metric_name *out)
{
    if (ends_with(key, "_gb_per_s")) { /* of collectives only: bus bandwidth in GB/s */
        snprintf(out->unit, sizeof out->unit, "GB/s");
        snprintf(out->title, sizeof out->title, "%.*s", (int)(strlen(key) - strlen("_gb_per_s")) % 24, key);
    } else if (ends_with(key, "_per_s")) {
        snprintf(out->unit, sizeof out->unit, "%.*s/s", (int)(strlen(key) - strlen("_per_s")) % 24, key);
    } else if (ends_with(key, "_bytes")) {
        snprintf(out->unit, sizeof out->unit, "bytes");
    } else if (ends_with(key, "_s")) {
        snprintf(out->unit, sizeof out->unit, "s");
    }
}

struct dt_metric_name dt_metric_named(const char *name)
{
    struct dt_metric_name out = {0};
    const struct dt_metric *metric = NULL;
    const char *dot = strchr(name, '.');
    int bytes = dot ? (int)(dot - name) : (int)strlen(name);
    bool is_main = !dot || strcmp(dot, ".median") == 0 || strcmp(dot, ".total") == 0;
    char key[64];
    snprintf(key, sizeof key, "%.*s", bytes, name);
    for (const struct dt_metric *m = table; m < end && !metric; m++)
        metric = strcmp(m->key, key) == 0 ? m : NULL;
    read_unit(key, &out);
    if (metric)
        snprintf(out.unit, sizeof out.unit, "%s", dt_unit_name(metric->unit));
    out.is_rate = ends_with(key, "_per_s") && !dot;
    if (dot && strcmp(dot, ".cv") == 0)
        snprintf(out.unit, sizeof out.unit, "%s", dt_unit_name(DT_IN_FRACTION));
    out.is_fraction = strcmp(out.unit, dt_unit_name(DT_IN_FRACTION)) == 0;
    out.is_seconds = strcmp(out.unit, dt_unit_name(DT_IN_SECONDS)) == 0;
    out.is_bytes = strcmp(out.unit, dt_unit_name(DT_IN_BYTES)) == 0;
    const char *title = metric && metric->title ? metric->title : key, *part = is_main ? "" : dot + 1;
    if (metric && metric->kind == DT_METRIC_STEPS && *part)
        title = "";
    if (!out.is_rate)
        snprintf(out.title, sizeof out.title, "%s%s%s", title, *title && *part ? " " : "", part);
    return out;
}

const char *dt_rate_key(const char *unit, char text[DT_RATE_KEY_BYTES])
{
    snprintf(text, DT_RATE_KEY_BYTES, "%ss_per_s", unit);
    return text;
}

const char *dt_metric_key(const struct dt_metric *metric, const struct dt_metrics *metrics, char text[DT_RATE_KEY_BYTES])
{
    return metric->unit == DT_IN_UNITS_PER_S && *metrics->unit ? dt_rate_key(metrics->unit, text) : metric->key;
}

/* The unit whose rate is among these metrics, besides that of samples. */
static void find_unit(const cJSON *object, char unit[sizeof((struct dt_metrics *)0)->unit])
{
    for (const cJSON *value = cJSON_IsObject(object) ? object->child : NULL; value; value = value->next) /* a list's have no names */
        if (ends_with(value->string, "s_per_s") && strcmp(value->string, "samples_per_s") != 0)
            snprintf(unit, sizeof((struct dt_metrics *)0)->unit, "%.*s", (int)(strlen(value->string) - strlen("s_per_s")) % 24,
                     value->string);
}

/* ---- members by their rows ---- */

static void *member(const struct dt_metric *metric, struct dt_metrics *metrics)
{
    return (char *)metrics + metric->offset;
}

double dt_metric_value(const struct dt_metric *metric, const struct dt_metrics *metrics)
{
    if (metric->kind == DT_METRIC_TEXT)
        return NAN;
    return *(const double *)((const char *)metrics + metric->offset); /* median and total are the first members of their structures */
}

static bool is_of_step(const struct dt_metric *metric)
{
    return metric->kind == DT_METRIC_NUMBER && metric->steps != DT_STEPS_RUN;
}

static double value_of_step(const struct dt_metric *metric, const struct dt_step_metrics *step)
{
    return *(const double *)((const char *)step + (metric->offset - AT(step)));
}

static void set_of_step(const struct dt_metric *metric, struct dt_step_metrics *step, double value)
{
    *(double *)((char *)step + (metric->offset - AT(step))) = value;
}

static void forget_peaks(struct dt_peaks *peaks)
{
    peaks->total = NAN;
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        peaks->category[c] = NAN;
}

void dt_metrics_init(struct dt_metrics *metrics)
{
    *metrics = (struct dt_metrics){0};
    for (const struct dt_metric *m = table; m < end; m++) {
        switch (m->kind) {
        case DT_METRIC_NUMBER: *(double *)member(m, metrics) = NAN; break;
        case DT_METRIC_TEXT: *(const char **)member(m, metrics) = NULL; break;
        case DT_METRIC_STEPS: metrics->step_s.median = metrics->step_s.p95 = metrics->step_s.cv = NAN; break;
        case DT_METRIC_DEVICE_PEAKS:
        case DT_METRIC_HOST_PEAKS: forget_peaks(member(m, metrics)); break;
        }
    }
}

void dt_step_metrics_init(struct dt_step_metrics *step)
{
    for (const struct dt_metric *m = table; m < end; m++)
        if (is_of_step(m))
            set_of_step(m, step, NAN);
}

/* ---- over ranks ---- */

static double over_ranks(enum dt_over_ranks rule, double so_far, double value, int count)
{
    switch (rule) {
    case DT_RANKS_MEAN: return so_far + value / count;
    case DT_RANKS_SUM: return so_far + value;
    case DT_RANKS_MAX: return so_far > value || isnan(so_far) ? so_far : value;
    case DT_RANKS_ONE: break;
    }
    return value;
}

void dt_metrics_over_ranks(const struct dt_step_metrics *first, size_t stride, int count, struct dt_step_metrics *out)
{
    for (const struct dt_metric *m = table; m < end; m++) {
        double value = m->ranks == DT_RANKS_MAX ? -INFINITY : 0;
        if (!is_of_step(m))
            continue;
        for (int i = 0; i < count; i++)
            value = over_ranks(m->ranks, value, value_of_step(m, (const void *)((const char *)first + (size_t)i * stride)), count);
        set_of_step(m, out, value);
    }
}

void dt_metrics_from_sums(const struct dt_step_metrics *sums, const struct dt_step_metrics *highest, int count, struct dt_step_metrics *out)
{
    for (const struct dt_metric *m = table; m < end; m++) {
        if (!is_of_step(m))
            continue;
        double sum = value_of_step(m, sums);
        set_of_step(m, out, m->ranks == DT_RANKS_MAX ? value_of_step(m, highest) : m->ranks == DT_RANKS_MEAN ? sum / count : sum);
    }
}

/* Byte counts of the ledger are far below 2^53. */
static void raise_peaks(struct dt_peaks *peaks, const struct dt_memory_bytes *bytes)
{
    peaks->total = fmax(peaks->total, (double)bytes->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        peaks->category[c] = fmax(peaks->category[c], (double)bytes->peak_bytes[c]);
}

void dt_metrics_set_peaks(struct dt_metrics *metrics, const struct dt_rank_memory *ranks, int count)
{
    forget_peaks(&metrics->peak_bytes);
    forget_peaks(&metrics->host_peak_bytes);
    for (int i = 0; i < count; i++) {
        raise_peaks(&metrics->peak_bytes, &ranks[i].memory.device);
        raise_peaks(&metrics->host_peak_bytes, &ranks[i].memory.host);
    }
}

/* ---- over steps ---- */

void dt_metrics_begin_sums(struct dt_metrics *metrics)
{
    for (const struct dt_metric *m = table; m < end; m++)
        if (is_of_step(m) && m->steps == DT_STEPS_SUM)
            set_of_step(m, &metrics->step, 0);
}

void dt_metrics_add_step(struct dt_metrics *metrics, const struct dt_step_metrics *step)
{
    for (const struct dt_metric *m = table; m < end; m++)
        if (is_of_step(m) && m->steps == DT_STEPS_SUM)
            set_of_step(m, &metrics->step, value_of_step(m, &metrics->step) + value_of_step(m, step));
}

/* For sorting the steps by their times. */
struct timed_step {
    double step_s;
    int index;
};

static int compare_times(const void *left, const void *right)
{
    const struct timed_step *a = left, *b = right;
    return a->step_s == b->step_s ? a->index - b->index : (a->step_s > b->step_s) - (a->step_s < b->step_s);
}

dt_status dt_metrics_middle(const double *step_s, int count, int middle[2])
{
    DT_FREED struct timed_step *steps = calloc((size_t)count, sizeof *steps);
    DT_TRY(dt_allocated(steps, "no host memory for the medians of %d steps", count));
    for (int i = 0; i < count; i++)
        steps[i] = (struct timed_step){step_s[i], i};
    qsort(steps, (size_t)count, sizeof *steps, compare_times);
    middle[0] = steps[(count - 1) / 2].index;
    middle[1] = steps[count / 2].index;
    return DT_OK;
}

void dt_metrics_set_middle(struct dt_metrics *metrics, const struct dt_step_metrics middle[2])
{
    for (const struct dt_metric *m = table; m < end; m++)
        if (is_of_step(m) && m->steps == DT_STEPS_MIDDLE)
            set_of_step(m, &metrics->step, (value_of_step(m, &middle[0]) + value_of_step(m, &middle[1])) / 2);
}

dt_status dt_metrics_set_steps(struct dt_metrics *metrics, const double *step_s, int count)
{
    struct dt_statistics step;
    DT_TRY(dt_statistics_compute(step_s, count, &step));
    metrics->step_s.median = step.median;
    metrics->step_s.p95 = step.p95;
    metrics->step_s.cv = step.cv;
    return DT_OK;
}

/* ---- JSON ---- */

static void read_peaks(struct dt_peaks *peaks, const cJSON *object)
{
    peaks->total = dt_json_number(object, "total", NAN);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        peaks->category[c] = dt_json_number(object, dt_category_name((enum dt_category)c), NAN);
}

void dt_metrics_read(struct dt_metrics *metrics, const cJSON *object)
{
    dt_metrics_init(metrics);
    find_unit(object, metrics->unit);
    for (const struct dt_metric *m = table; m < end; m++) {
        char text[DT_RATE_KEY_BYTES];
        const char *key = dt_metric_key(m, metrics, text);
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
        switch (m->kind) {
        case DT_METRIC_NUMBER: *(double *)member(m, metrics) = dt_json_number(object, key, NAN); break;
        case DT_METRIC_TEXT: break;
        case DT_METRIC_STEPS:
            metrics->step_s.median = dt_json_number(value, "median", NAN);
            metrics->step_s.p95 = dt_json_number(value, "p95", NAN);
            metrics->step_s.cv = dt_json_number(value, "cv", NAN);
            break;
        case DT_METRIC_DEVICE_PEAKS:
        case DT_METRIC_HOST_PEAKS: read_peaks(member(m, metrics), value); break;
        }
    }
}

/* ---- the JSON Schema ---- */

/* The JSON Schema of a record's metrics, made from their table. Functions return NULL if memory is
 * out, or if a part is NULL. */

/* A schema that begins with a description; NULL: none. */
static cJSON *described(const char *description)
{
    return description ? dt_json_object("description: %s", description) : dt_json_object("");
}

/* A value of this type, or null where it is unknown. */
static cJSON *nullable_schema(const char *description, const char *type)
{
    cJSON *schema = described(description), *types = dt_json_words(type, " ");
    dt_json_append(&types, dt_json_text("null"));
    dt_json_add(&schema, "type: %p", types);
    return schema;
}

/* A number of 0 or more, or null. */
static cJSON *number_schema(const char *description, enum dt_metric_unit unit)
{
    cJSON *schema = nullable_schema(description, dt_unit_is_whole(unit) ? "integer" : "number");
    dt_json_add(&schema, "minimum: %d", 0);
    return schema;
}

static cJSON *list_schema(const char *description, cJSON *items)
{
    cJSON *schema = described(description);
    dt_json_add(&schema, "type: %s, items: %p", "array", items);
    return schema;
}

/* An object that has no other keys than these properties. */
static cJSON *object_schema(const char *description, cJSON *required, cJSON *properties)
{
    cJSON *schema = described(description);
    dt_json_add(&schema, "type: %s, additionalProperties: %hhd, required: %p, properties: %p", "object", (bool)false, required, properties);
    return schema;
}

static cJSON *steps_schema(const struct dt_metric *metric)
{
    static const char variation[] = "Coefficient of variation: sample standard deviation over mean; null for one step.";
    enum dt_metric_unit unit = metric->unit;
    return object_schema(metric->help, dt_json_words("median p95 cv all", " "),
                         dt_json_object("median: %p, p95: %p, cv: %p, all: %p", number_schema(NULL, unit), number_schema(NULL, unit),
                                        number_schema(variation, DT_IN_FRACTION), list_schema(NULL, number_schema(NULL, unit))));
}

static void add_bytes(cJSON **required, cJSON **properties)
{
    dt_json_append(required, dt_json_text("total"));
    dt_json_add(properties, "total: %p", number_schema(NULL, DT_IN_BYTES));
    for (int c = 0; c < DT_CATEGORY_COUNT; c++) {
        dt_json_append(required, dt_json_text(dt_category_name((enum dt_category)c)));
        dt_json_add(properties, "%s: %p", dt_category_name((enum dt_category)c), number_schema(NULL, DT_IN_BYTES));
    }
}

static cJSON *peaks_schema(const char *help, bool of_host)
{
    cJSON *required = dt_json_array(), *properties = dt_json_object("");
    cJSON *group_required = dt_json_words("ranks", " "), *rank_required = dt_json_words("rank", " ");
    cJSON *range = dt_json_object("type: %s, items: {type: %s, minimum: %d}, minItems: %d, maxItems: %d", "array", "integer", 0, 3, 3);
    cJSON *group = dt_json_object("ranks: %p", list_schema("Which ranks: ranges of a first rank, a last one, and a step.", range));
    cJSON *rank = dt_json_object("rank: {type: %s, minimum: %d}", "integer", 0);
    add_bytes(&required, &properties);
    add_bytes(&group_required, &group);
    add_bytes(&rank_required, &rank);
    dt_json_add(&properties, "by_ranks: %p",
                list_schema("Ranks that hold the same, together.", object_schema(NULL, group_required, group)));
    if (!of_host) {
        dt_json_add(&properties, "process_rss: %p",
                    list_schema("Of each rank's whole process; empty where nobody knows.", number_schema(NULL, DT_IN_BYTES)));
        dt_json_append(&rank_required, dt_json_text("process_rss"));
        dt_json_add(&rank, "process_rss: %p", number_schema(NULL, DT_IN_BYTES));
    }
    dt_json_add(
        &properties, "per_rank: %p",
        list_schema("In records of older versions, instead of by_ranks: each rank by itself.", object_schema(NULL, rank_required, rank)));
    return object_schema(help, required, properties);
}

static cJSON *metric_schema(const struct dt_metric *metric)
{
    switch (metric->kind) {
    case DT_METRIC_NUMBER: return number_schema(metric->help, metric->unit);
    case DT_METRIC_TEXT: return nullable_schema(metric->help, "string");
    case DT_METRIC_STEPS: return steps_schema(metric);
    case DT_METRIC_DEVICE_PEAKS: return peaks_schema(metric->help, false);
    case DT_METRIC_HOST_PEAKS: return peaks_schema(metric->help, true);
    }
    return NULL;
}

dt_status dt_metrics_schema(cJSON **out)
{
    cJSON *required = dt_json_array(), *properties = dt_json_object("");
    const struct dt_metric *metric;
    for (int i = 0; (metric = dt_metric_at(i)); i++) {
        if (!metric->later)
            dt_json_append(&required, dt_json_text(metric->key));
        dt_json_add(&properties, "%s: %p", metric->key, metric_schema(metric));
    }
    cJSON *rates =
        dt_json_object("%s: %p", "^[a-z]+s_per_s$", number_schema("Of a family of models that counts something else.", DT_IN_UNITS_PER_S));
    *out = dt_json_object("$schema: %s, title: %s, description: %s, type: %s, additionalProperties: %hhd, required: %p, properties: %p, "
                          "patternProperties: %p",
                          "https://json-schema.org/draft/2020-12/schema", "dtbench metrics",
                          "The numbers of a record. Unknown ones are null.", "object", (bool)false, required, properties, rates);
    return dt_allocated(*out, "out of memory while making the schema of metrics");
}
