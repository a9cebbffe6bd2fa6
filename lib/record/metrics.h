/* Metrics: the measured results of a run. One table gives each metric's name and unit, and how the
 * ranks' values are combined. From this table the numbers are set to unknown, combined over ranks
 * and steps, written to the record, read back from it, described in the record's schema and listed
 * in docs/records.md.
 *
 * A new number takes a row in metrics.c, a member here, and the line that computes it: numbers that
 * every rank measures in each step are members of dt_step_metrics; numbers derived from others are
 * computed where the record is made (report_measure).
 *
 * An unknown number is NaN in memory and null in JSON, in every row: a zero is a measured zero. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* Values that one rank measures in one step, combined over ranks and steps by their rows' rules. */
struct dt_step_metrics {
    double forward_s, backward_s, optimizer_s, exposed_comm_s, bubble_s, data_s, host_s;
    double comm_bytes, link_bytes, all_reduce_bytes, reduce_scatter_bytes, all_gather_bytes, broadcast_bytes, reduce_bytes,
        all_to_all_bytes, send_bytes;
    double overflow_steps, overflow_elements; /* of one step: 0 or 1, and the number of parameters that it left out */
    double skipped_steps;                     /* 0 or 1 */
    double server_link_busy, server_update_busy;
};

/* Peaks of one memory: the highest over the ranks. */
struct dt_peaks {
    double total;
    double category[DT_CATEGORY_COUNT];
};

struct dt_metrics {
    double units_per_s, samples_per_s;
    char unit[24]; /* unit of the first, one word: what the model's family counts; "": tokens */
    struct {
        double median, p95, cv;
    } step_s;
    double step_error, tflops_per_gpu, mfu, causal_tflops_per_gpu, causal_mfu, scaling_efficiency;
    const char *flops_formula; /* NULL: unknown; owned by the caller */
    struct dt_step_metrics step;
    double exposed_comm, bubble, bubble_ideal;
    double aco_ms_per_sample;
    double training_s, startup_s, load_s, steps_s, reading_s, save_s, saves, checkpoint_bytes, wall_s;
    struct dt_peaks peak_bytes, host_peak_bytes;
};

/* The shape of a metric in JSON, and of its member. */
enum dt_metric_kind {
    DT_METRIC_NUMBER,
    DT_METRIC_TEXT,         /* const char * */
    DT_METRIC_STEPS,        /* step_s: "median", "p95", "cv", and the list "all" of the timed steps */
    DT_METRIC_DEVICE_PEAKS, /* struct dt_peaks: "total", each category, the list "by_ranks", and each process's size */
    DT_METRIC_HOST_PEAKS,   /* the same without sizes of processes */
};

enum dt_metric_unit {
    DT_IN_NONE,
    DT_IN_UNITS_PER_S,
    DT_IN_SAMPLES_PER_S,
    DT_IN_TFLOP_PER_S,
    DT_IN_FRACTION,
    DT_IN_SECONDS,
    DT_IN_MS_PER_SAMPLE,
    DT_IN_STEPS,
    DT_IN_CHECKPOINTS,
    DT_IN_PARAMETERS,
    DT_IN_BYTES,
};

/* How the ranks' values are combined. */
enum dt_over_ranks {
    DT_RANKS_ONE, /* known by one process: rank 0, or the one that writes the record */
    DT_RANKS_MEAN,
    DT_RANKS_SUM,
    DT_RANKS_MAX,
};

/* How the steps' values are combined. */
enum dt_over_steps {
    DT_STEPS_RUN,    /* measured once for the run, not in each step */
    DT_STEPS_MEDIAN, /* of the timed steps */
    DT_STEPS_MIDDLE, /* of the timed step with the median time: parts of a step then add up to it */
    DT_STEPS_SUM,    /* of all steps, warm-up included */
};

struct dt_metric {
    const char *key; /* in the record's "metrics"; for units_per_s the key for tokens (dt_metric_key) */
    size_t offset;   /* in struct dt_metrics */
    enum dt_metric_kind kind;
    enum dt_metric_unit unit;
    enum dt_over_ranks ranks;
    enum dt_over_steps steps; /* for numbers: other than RUN exactly for the members of dt_step_metrics */
    bool later;               /* records of older versions may lack it */
    const char *title;        /* a word for the head of a column; NULL: use the key */
    const char *help;         /* one sentence */
};

/* The metrics in the order in which a record has them; NULL past the last. */
const struct dt_metric *dt_metric_at(int index);
const char *dt_unit_name(enum dt_metric_unit unit); /* "s", "bytes"; "" for none */
bool dt_unit_is_whole(enum dt_metric_unit unit);    /* counts and bytes */

/* What a value's name, "step_s.cv" or "peak_bytes.total", tells of it, also if only another version
 * of dtbench has the value: its unit is from the table, or else from the end of the name
 * ("images_per_s", "_bytes", "_s"). */
struct dt_metric_name {
    char title[128], unit[32]; /* "step" and "s"; "" for no unit. A rate has only a unit, no title */
    bool is_fraction, is_seconds, is_bytes, is_rate;
};
struct dt_metric_name dt_metric_named(const char *name);

/* The metric's key in a record of these metrics: for units_per_s it depends on their unit. `text`
 * may hold it. */
enum { DT_RATE_KEY_BYTES = 40 };
const char *dt_metric_key(const struct dt_metric *metric, const struct dt_metrics *metrics, char text[DT_RATE_KEY_BYTES]);
/* "images_per_s" of "image". Returns text. */
const char *dt_rate_key(const char *unit, char text[DT_RATE_KEY_BYTES]);

/* A number's value: of step_s the median, of peaks the total; of a text NaN. */
double dt_metric_value(const struct dt_metric *metric, const struct dt_metrics *metrics);

/* Everything unknown. */
void dt_metrics_init(struct dt_metrics *metrics);
void dt_step_metrics_init(struct dt_step_metrics *step);

/* Combine one step of all ranks by each row's rule: `count` values, the first at `first`, each
 * `stride` bytes after the previous one. If one value is unknown, so is the result. */
void dt_metrics_over_ranks(const struct dt_step_metrics *first, size_t stride, int count, struct dt_step_metrics *out);

/* The same from the sums over `count` ranks, and the highest value of each. */
void dt_metrics_from_sums(const struct dt_step_metrics *sums, const struct dt_step_metrics *highest, int count,
                          struct dt_step_metrics *out);

/* Over steps: sums begin at 0 and grow with every step. At the end, the parts of a step are those
 * of the step with the median time: for an odd number of steps that one step, twice; for an even
 * number the mean of the two steps whose mean time is the median. step_s [count], count is at least
 * 1. Errors: DT_ERR_HOST_MEMORY. */
void dt_metrics_begin_sums(struct dt_metrics *metrics);
void dt_metrics_add_step(struct dt_metrics *metrics, const struct dt_step_metrics *step);
dt_status dt_metrics_middle(const double *step_s, int count, int middle[2]);
void dt_metrics_set_middle(struct dt_metrics *metrics, const struct dt_step_metrics middle[2]);

/* step_s of the timed steps [count]. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_metrics_set_steps(struct dt_metrics *metrics, const double *step_s, int count);

/* A rank's peak memory. */
struct dt_rank_memory {
    struct dt_memory_usage memory;
    uint64_t rss_peak_bytes; /* the process's peak resident size, libraries included; 0 where unknown */
};

/* Set peak_bytes and host_peak_bytes from the ranks [count]; unknown if count is 0. */
void dt_metrics_set_peaks(struct dt_metrics *metrics, const struct dt_rank_memory *ranks, int count);

/* Read a record's "metrics". Missing values become unknown, and texts are not read. */
void dt_metrics_read(struct dt_metrics *metrics, const struct cJSON *object);

/* The JSON Schema of a record's "metrics". Owner of *out: the caller, dt_json_destroy. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_metrics_schema(struct cJSON **out);
