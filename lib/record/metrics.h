/* Metrics: the numbers that a run is judged by. One table says of each what it is called, its unit, and how the ranks' values of it become
 * one; from this table the numbers are set to unknown, put together over ranks and steps, written to the record, read back from it,
 * described by the record's schema and listed in docs/records.md.
 *
 * A new number takes a row in metrics.c, a member here, and the line that computes it: what every rank measures in each step is a member of
 * dt_step_metrics; what follows from others is computed where the record is made (report_measure).
 *
 * A number that is not known is NaN in memory and null in JSON, whatever its row: a zero was measured. */
#ifndef LIB_RECORD_METRICS_H
#define LIB_RECORD_METRICS_H

#include "lib/base/status.h"
#include "lib/device/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* What one rank measures in one step, and what these become over ranks and steps by their rows' rules. */
struct dt_step_metrics {
    double forward_s, backward_s, optimizer_s, exposed_comm_s, bubble_s, data_s, host_s;
    double comm_bytes, link_bytes, all_reduce_bytes, reduce_scatter_bytes, all_gather_bytes, broadcast_bytes, reduce_bytes,
        all_to_all_bytes, send_bytes;
    double overflow_steps, overflow_elements; /* of one step: 0 or 1, and how many parameters it left out */
    double skipped_steps;                     /* 0 or 1 */
    double server_link_busy, server_update_busy;
};

/* Peaks of one memory: the ranks' highest. */
struct dt_peaks {
    double total;
    double category[DT_CATEGORY_COUNT];
};

struct dt_metrics {
    double units_per_s, samples_per_s;
    char unit[24]; /* of the first, a word: what the model's family counts; "": tokens */
    struct {
        double median, p95, cv;
    } step_s;
    double step_error, tflops_per_gpu, mfu, causal_tflops_per_gpu, causal_mfu, scaling_efficiency;
    const char *flops_formula; /* NULL: unknown; the caller's */
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

/* How the ranks' values become one. */
enum dt_over_ranks {
    DT_RANKS_ONE, /* one process knows it: rank 0, or the one that writes the record */
    DT_RANKS_MEAN,
    DT_RANKS_SUM,
    DT_RANKS_MAX,
};

/* How the steps' values become one. */
enum dt_over_steps {
    DT_STEPS_RUN,    /* measured once, not in each step */
    DT_STEPS_MEDIAN, /* of the timed steps */
    DT_STEPS_MIDDLE, /* of the timed step whose time is the median: parts of it add up to it */
    DT_STEPS_SUM,    /* of all steps, warm-up included */
};

struct dt_metric {
    const char *key; /* in the record's "metrics"; of units_per_s that of tokens (dt_metric_key) */
    size_t offset;   /* in struct dt_metrics */
    enum dt_metric_kind kind;
    enum dt_metric_unit unit;
    enum dt_over_ranks ranks;
    enum dt_over_steps steps; /* of numbers: other than RUN for the members of dt_step_metrics, and for no others */
    bool later;               /* records of older versions do not have it */
    const char *title;        /* a word for the head of a column; NULL: the key is one */
    const char *help;         /* one sentence */
};

/* The metrics in the order in which a record has them; NULL past the last. */
const struct dt_metric *dt_metric_at(int index);
const char *dt_unit_name(enum dt_metric_unit unit); /* "s", "bytes"; "" for none */
bool dt_unit_is_whole(enum dt_metric_unit unit);    /* counts and bytes */

/* What is known of a value by its name, "step_s.cv" or "peak_bytes.total", also of one that only another version of dtbench has: its unit from the
 * table, or else from the name's end ("images_per_s", "_bytes", "_s"). */
struct dt_metric_name {
    char title[128], unit[32]; /* "step" and "s"; "" for no unit. A rate has no title but its unit */
    bool is_fraction, is_seconds, is_bytes, is_rate;
};
struct dt_metric_name dt_metric_named(const char *name);

/* The metric's key in a record of these metrics: of units_per_s by their unit. `text` may hold it. */
enum { DT_RATE_KEY_BYTES = 40 };
const char *dt_metric_key(const struct dt_metric *metric, const struct dt_metrics *metrics, char text[DT_RATE_KEY_BYTES]);
/* "images_per_s" of "image". Returns text. */
const char *dt_rate_key(const char *unit, char text[DT_RATE_KEY_BYTES]);

/* A number's value; of step_s its median, of peaks their total, of a text NaN. */
double dt_metric_value(const struct dt_metric *metric, const struct dt_metrics *metrics);

/* Everything unknown. */
void dt_metrics_init(struct dt_metrics *metrics);
void dt_step_metrics_init(struct dt_step_metrics *step);

/* One step of all ranks: each row's rule over `count` values, the first at `first`, each `stride` bytes after the one before. One that is
 * unknown makes the result so. */
void dt_metrics_over_ranks(const struct dt_step_metrics *first, size_t stride, int count, struct dt_step_metrics *out);

/* The same from the sums over `count` ranks, and from the highest of each. */
void dt_metrics_from_sums(const struct dt_step_metrics *sums, const struct dt_step_metrics *highest, int count,
                          struct dt_step_metrics *out);

/* Over steps: sums begin at 0 and grow with every step. At the end the parts of a step are those of the step whose time is the median: of
 * an odd number one step, twice, of an even number the mean of two, whose times' mean is the median. step_s [count], one at least.
 * Errors: DT_ERR_HOST_MEMORY. */
void dt_metrics_begin_sums(struct dt_metrics *metrics);
void dt_metrics_add_step(struct dt_metrics *metrics, const struct dt_step_metrics *step);
dt_status dt_metrics_middle(const double *step_s, int count, int middle[2]);
void dt_metrics_set_middle(struct dt_metrics *metrics, const struct dt_step_metrics middle[2]);

/* step_s of the timed steps [count]. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_metrics_set_steps(struct dt_metrics *metrics, const double *step_s, int count);

/* What a rank holds at most. */
struct dt_rank_memory {
    struct dt_memory_usage memory;
    uint64_t rss_peak_bytes; /* the process's peak resident size, libraries included; 0 where unknown */
};

/* peak_bytes and host_peak_bytes of ranks [count]; unknown for none. */
void dt_metrics_set_peaks(struct dt_metrics *metrics, const struct dt_rank_memory *ranks, int count);

/* A record's "metrics". What is not there is unknown, and texts are left out. */
void dt_metrics_read(struct dt_metrics *metrics, const struct cJSON *object);

/* The JSON Schema of a record's "metrics". Owner of *out: the caller, dt_json_destroy. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_metrics_schema(struct cJSON **out);

#endif
