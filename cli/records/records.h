/* Records of runs: sets of records, comparisons of them, drafts of records, and forecasts from
 * finished experiments. */
#pragma once

#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "lib/base/status.h"
#include "lib/record/metrics.h"
#include "lib/record/record.h"
#include "schedules/config/experiment.h"
#include "schedules/config/experiment_list.h"
#include "schedules/run/report.h"

#include <stdbool.h>
#include <stdio.h>

/* ---- patterns for glob(3) that begin with a name ---- */

/* Escape the special characters of `name`, and append the pattern `ending`. Owner: the caller,
 * free; NULL if out of memory. */
char *glob_pattern(const char *name, const char *ending);

/* ---- how much the losses of the same work may differ by rounding alone: used by --verify and
 * `dtbench compare` ---- */

/* The type whose rounding dominates: the model's, or the type in which its gradients travel if that
 * is narrower. */
enum dt_dtype loss_rounded_to(const struct experiment *experiment);
/* The largest relative difference that rounding may make between two divisions of the same work. */
double loss_tolerance(const struct experiment *experiment);

/* ---- records from any number of files, as plain structures, for compare, merge and status ---- */

struct cJSON;

/* One record. Unknown numbers are NaN, unknown texts "". The set owns the pointers. */
struct record_facts {
    const struct cJSON *json;      /* the whole record; NULL if only facts were read */
    char *texts;                   /* memory of the texts if only facts were read; owned */
    const char *file;              /* file that the record was read from */
    struct experiment *experiment; /* from its config; NULL if this version cannot read the config */
    /* hash as recorded; experiment->hash is computed by this version from the config, or is the
     * recorded one if the config does not determine the result */
    const char *hash;
    const char *status, *error, *started;
    double *step_s, *losses; /* [step_count], [loss_count] */
    int step_count, loss_count;
    struct dt_metrics metrics;
    struct {
        const char *id; /* "": unknown */
        int index, count;
    } sweep;
};

struct record_set {
    struct record_facts *records; /* [count] in the order of files and lines */
    int count, room;
    struct record_file {
        struct cJSON *records; /* owned, an array */
        char *name;            /* owned */
    } *files;                  /* [file_count] */
    int file_count;
    int newer; /* number of records left out because only a later version of dtbench understands them */
};

/* Call `use` for each file that `arguments` name: files, folders (all *.jsonl in them, by name),
 * patterns that the shell did not expand, and "-" for standard input. It is also called for drafts
 * that killed runs have left in the same folders. Errors: DT_ERR_IO for a missing file,
 * DT_ERR_HOST_MEMORY, and those of `use`, which end the visit. name: for texts; it is `path` itself but for standard input. */
typedef dt_status record_file_use(void *context, const char *path, const char *name);
dt_status record_files_visit(const char *const *arguments, int argument_count, record_file_use *use, void *context);

/* Print a line to standard error for each kind of line that a command leaves out of a file: `torn`
 * lines that are not records, and `newer` records of at most schema_version `version`. */
void records_warn_of_left_out(const char *command, const char *file, int torn, int newer, double version);

/* Read all records of `arguments`, as record_files_visit finds them. Lines that are not records,
 * such as a writer's half-written last one, and records of a schema_version that is newer than this
 * program's are left out, with a line to stderr that begins with "dtbench COMMAND: ". Owner of the
 * set, also after a failure: the caller, record_set_finish. Errors: DT_ERR_IO for a file that is
 * missing or cannot be read, DT_ERR_HOST_MEMORY. */
dt_status record_set_read(struct record_set *set, const char *command, const char *const *arguments, int argument_count);
void record_set_finish(struct record_set *set);

/* For commands that need records, and their help. */
#define RECORDS_MISSING "expected RECORDS, at least one file or folder"
#define RECORD_ARGUMENTS_HELP                                                                                                              \
    "RECORDS are files, folders (all *.jsonl in them, sorted by name), quoted patterns, or '-' for standard input. Of several records of " \
    "one experiment (the same config_hash) the newest with status ok counts, or the newest of all where none is ok."

/* Read the records of `arguments` for `command`. facts_alone: without the JSON, steps and losses,
 * which reduces the memory for a sweep to a tenth. Returns the exit code; a failure is already
 * printed. Owner of *out, also after a failure: the caller, record_set_finish. */
int record_arguments_read(const char *command, const char *const *arguments, int count, bool facts_alone, struct record_set *out);

bool record_is_ok(const struct record_facts *record);
/* Describe a record whose config is not an experiment's: a collective alone, or the hash. */
void record_describe_config(const struct record_facts *record, char *text, size_t text_bytes);

/* Select one record of each hash: the newest ok one, or the newest of all if none is ok. `chosen`
 * [set->count] receives their indices in the order in which the hashes first occur; returns the
 * number. The newest is the one whose run started last, and of equal ones the last. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status record_set_newest(const struct record_set *set, int *chosen, int *count);

/* A text of the record's provenance: "driver", "device"; of a file ("tuning", "simulated.cluster")
 * its hash; "" if it has none. Numbers are given as text in `number`. */
const char *record_provenance(const struct record_facts *record, const char *key, char number[32]);
/* Names of the libraries whose versions the record has, from index 0; NULL past the last. */
const char *record_library(const struct record_facts *record, int index, const char **version);
int record_machines(const struct record_facts *record); /* 0: unknown */

/* The sweep that an experiment belongs to. Records carry this, so that missing experiments can be
 * found from the records alone. */

struct sweep_identity {
    char id[17]; /* FNV-1a 64 of the experiments' hashes, in their order; hexadecimal */
    int count;   /* number of different experiments: those with the same hash count once */
    int *index;  /* [experiments] index of each among the different ones, in the sweep's order; owned */
};

/* Owner of *identity, also after a failure: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_identity_init(struct sweep_identity *identity, const struct experiment_list *experiments);
void sweep_identity_finish(struct sweep_identity *identity);

/* Set the sweep and index of experiment `experiment` in its report. */
void sweep_identity_report(const struct sweep_identity *identity, int experiment, struct report *report);

/* Drafts: the current state of a running experiment, in a file next to the records, in case no
 * process survives to write its record.
 *
 * Processes are killed with SIGKILL by Linux if memory runs out, and by Slurm when it ends a step;
 * a node may also fail. So the process that writes records keeps the record that the experiment
 * would have at that moment, "failed" with all steps so far, in RECORDS.XXXXXX.draft, and removes
 * it once the real record is written. Readers of RECORDS also read the drafts of dead processes,
 * and the next run moves them into RECORDS. A live process holds a lock (flock) on its draft. A
 * draft is replaced as a whole, so none is half-written. */

struct draft {
    const struct experiment *experiment; /* NULL: there is no draft */
    const struct report *report;
    char *path;    /* owned */
    int fd;        /* holds the lock */
    double due_s;  /* time of the next write, on the monotonic clock */
    double took_s; /* duration of the last write; 0: none yet */
};

/* Begin the draft of an experiment, whose report the caller fills until draft_end. If there is no
 * place to write it (standard output, a read-only folder) there is no draft, which is not a
 * failure: the record is written in any case unless the process is killed. */
void draft_begin(struct draft *draft, const char *records, const struct experiment *experiment, const struct report *report);
/* The report has one step more. The draft is written at most once a second, and for at most a
 * thousandth of the time. Takes NULL. */
void draft_step(struct draft *draft);
/* Remove the draft, after the record is written. */
void draft_end(struct draft *draft);

/* Call `use` for each draft of RECORDS whose process has ended, as long as it returns DT_OK; drafts
 * are not changed. Errors: DT_ERR_HOST_MEMORY, and those of `use`. */
dt_status drafts_visit(const char *records, record_file_use *use, void *context);
/* Move the drafts of dead processes into the open file of records; *count is their number. Errors:
 * DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status drafts_adopt(const char *records, struct dt_record_file *file, int *count);

/* Forecasts how long an experiment will take, from finished experiments.
 *
 * Method  An experiment's time is the time of its steps plus the rest: starting and ending the
 *         ranks, filling memory, --verify. A step's time is proportional to the floating-point
 *         operations of one rank, at the rate that finished experiments reached. The rate is that
 *         of the most similar finished experiments: with the same hash; else of the same paradigm,
 *         ranks and type; else of the same ranks and type; else of any; never of another device.
 *         The expected time is the median of their values, the high one their maximum; of one
 *         paradigm, ranks and type the last 64 are used. On sim the steps' times are the simulated
 *         cluster's: a prediction takes as long as similar predictions took.
 * Limits  Communication, nearly full memory and small kernels all make the relation non-linear:
 *         between experiments that are not similar the forecast only gives the order of magnitude.
 *         Failed experiments are not used. */

/* Finished experiments. Starts zeroed. */
struct forecaster {
    struct forecast_group *groups; /* [count] owned: experiments that are alike */
    int count;
};

/* How similar the finished experiments used for a forecast are. */
enum forecast_basis { FORECAST_SAME, FORECAST_ALIKE, FORECAST_SAME_RANKS, FORECAST_ANY, FORECAST_NONE };

struct forecast {
    double expected_s, high_s; /* wall time of the experiment, start-up included; NaN with FORECAST_NONE */
    int based_on;              /* number of finished experiments */
    enum forecast_basis basis;
};

void forecaster_finish(struct forecaster *forecaster);

/* Add an experiment that ended well: its median step, and its total wall time. If that is unknown
 * (NaN), the sum of start-up and steps is used. Numbers that are not positive are ignored. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status forecaster_add(struct forecaster *forecaster, const struct experiment *done, double step_s, double startup_s, double wall_s);

/* The steps of an experiment, and the floating-point operations of one rank in a step. */
double forecast_steps(const struct experiment *experiment);
double forecast_rank_flops(const struct experiment *experiment);

/* The part of a finished experiment's wall time that its steps took: 0 if they are simulated. */
double forecast_steps_s(const struct experiment *done, double step_s);

struct forecast forecaster_predict(const struct forecaster *forecaster, const struct experiment *experiment);

/* ---- the progress of a sweep, from its records: the results of `dtbench status` before printing
 * ---- */

enum sweep_state {
    STATE_DONE,
    STATE_FAILED,      /* oom, invalid, timeout, failed */
    STATE_INTERRUPTED, /* must be run again */
    STATE_MISSING,
    STATE_COUNT
};

struct sweep_item {
    enum sweep_state state;
    const struct record_facts *record;   /* the newest ok one, or the newest; NULL: missing */
    const struct experiment *experiment; /* NULL: unknown, as for missing experiments if no config was given */
    char label[192];
    double took_s;     /* wall time, NaN: unknown */
    double expected_s; /* for unfinished experiments; NaN: no forecast */
};

struct sweep_status {
    char id[17]; /* "": records that name no sweep, so it is unknown what is missing */
    char name[64];
    struct sweep_item *items; /* [count] in the sweep's order */
    int count;
    int counts[STATE_COUNT];
    double left_s;   /* for missing and interrupted experiments, one after another; NaN: no forecast */
    double failed_s; /* for running the failed ones again */
};

struct sweep_statuses {
    struct sweep_status *sweeps;
    int count;
    int others;                     /* records that belong to no experiment of the config; 0 without a config */
    struct experiment *experiments; /* the config's; owned */
};

/* Find the status of the config's experiments, equal ones once; records are matched by hash, as
 * recorded or as this version computes it from their config. With experiments NULL: of every sweep
 * that the records name. The set must outlive *out. Owner of *out, also after a failure: the
 * caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_statuses_find(const struct record_set *set, const struct experiment_list *experiments, struct sweep_statuses *out);
void sweep_statuses_finish(struct sweep_statuses *statuses);

const char *sweep_state_name(enum sweep_state state);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_statuses_print_json(const struct sweep_statuses *statuses, FILE *to);

/* ---- pairs of `dtbench compare --by KEYS`: experiments that differ only in the named keys ---- */

struct pairing {
    const char *keys; /* as given; owned by the caller */
    bool *named; /* [experiment_table()->count] owned; also the keys that follow from a named one, as a model's sizes from its preset */
};

/* `keys`: comma-separated paths of the config, "activation,pipeline.order"; the path of an object
 * ("model") means all keys in it. Owner of *out, also after a failure: the caller, pairing_finish.
 * Errors: DT_ERR_INVALID for an unknown key, DT_ERR_HOST_MEMORY. */
dt_status pairing_parse(const char *keys, struct pairing *out);
void pairing_finish(struct pairing *pairing);

bool pairing_names(const struct pairing *pairing, const char *path);

/* Do the two differ only in named keys? "name" is ignored, and so are keys that have no effect on
 * one of them, such as a pipeline's keys for an experiment without a pipeline. True also for two
 * equal experiments. */
bool pairing_fits(const struct pairing *pairing, const struct experiment *a, const struct experiment *b);

/* The values of the named keys of `e` that differ from those of `from`: "activation checkpoint",
 * "fsdp, 4 ranks"; "the same" if none differs. */
void pairing_describe(const struct pairing *pairing, const struct experiment *from, const struct experiment *e, char *text,
                      size_t text_bytes);

/* A comparison of two sets of records of the same experiments: the results of `dtbench compare`
 * before printing. */

enum compare_verdict {
    COMPARE_SAME,
    COMPARE_FASTER,
    COMPARE_SLOWER,
    COMPARE_UNCLEAR,
    COMPARE_FAILED,  /* was ok, and is not any more */
    COMPARE_FIXED,   /* was not ok, and is now */
    COMPARE_MISSING, /* only in BASE */
    COMPARE_NEW,     /* only in NEW */
    COMPARE_VERDICTS
};

/* What may count as a regression: bits, because an experiment may have several. */
enum compare_gate {
    GATE_THROUGHPUT = 1, /* slower (dt_ratio_judge) */
    GATE_STATUS = 2,     /* was ok, and is not any more */
    GATE_LOSSES = 4,     /* with the same device and libraries any difference; otherwise one that rounding does not explain */
    GATE_MEMORY = 8,     /* the peak has grown by more than the threshold */
    GATE_MISSING = 16,   /* was ok, and is missing */
    GATE_ALL = 31,
};

enum compare_losses {
    LOSSES_UNKNOWN,  /* one of the two has no losses */
    LOSSES_EQUAL,    /* bit by bit */
    LOSSES_ROUNDING, /* differ by no more than --verify allows */
    LOSSES_DIFFER,
};

/* The timed steps of one side of a pair. */
struct compare_steps {
    double *step_s; /* [count] owned; NULL: none */
    int count;
    double *run_s; /* [runs] owned: each record's median, or with compare_options.shortest its shortest step; NULL: none */
    int runs;
    double units_per_s; /* at the median step; NaN: unknown */
};

struct comparison {
    const struct record_facts *base, *new; /* NULL: missing */
    struct compare_steps base_steps, new_steps;
    char label[192];
    enum compare_verdict verdict;
    struct dt_ratio ratio; /* of throughput */
    double memory_bytes;   /* NEW's peak minus BASE's; NaN: one is unknown */
    enum compare_losses losses;
    int loss_step;        /* first step that differs, from 0, warm-up included; -1: none */
    bool no_slowdown;     /* the interval excludes a loss of more than the threshold */
    unsigned regressions; /* only those that were asked for: enum compare_gate */
    char reason[512];     /* one line that explains the verdict; "": no explanation */
};

struct compare_options {
    double threshold; /* a fraction: 0.05 */
    unsigned gates;   /* enum compare_gate */
    bool allow_different;
    bool shortest; /* each run is represented by its shortest step (dt_ratio_of_shortest) */
    bool single;   /* only the newest run of a side is used, and is enough for the verdict "slower" */
    /* compare two settings, not two versions: pair experiments that differ only in these keys;
     * NULL: compare versions */
    const struct pairing *by;
};

struct compare {
    struct comparison *rows; /* [count] in BASE's order, then those that are only in NEW */
    int count;
    int counts[COMPARE_VERDICTS];
    int regressions;                   /* number of rows with a regression */
    int alone;                         /* when settings are compared: number of experiments without a partner, which have no row */
    char different[1024];              /* differences of the measurements' conditions: "driver (535, 550), oneDNN (2.6, 3.1)"; "": none */
    char noted[512];                   /* further differences, which are no reason to refuse: "kernel (Linux 6.1, Linux 6.5)" */
    char predicted[PREDICTIONS_BYTES]; /* predictions_describe */
};

/* Pair the newest records of each experiment and judge the pairs. Throughput is judged by the steps
 * of all ok records of the same build on the same device. The verdict is slower or faster only if
 * the runs' medians show it, too, unless options->single allows it, or both are predicted. Records
 * are paired by their config's hash; the remaining ones by the hash that this version computes from
 * their config, because keys added since may have changed the hash.
 * With options->by each of NEW's records is paired with the first of BASE's that differs from it
 * only in the named keys; if BASE and NEW are one set, with the first earlier record that is not
 * itself paired with another. Threads and machines of a rank may then differ, and so may losses.
 * Both sets must outlive *out. Owner of *out, also after a failure: the caller, compare_finish.
 * Errors: DT_ERR_INVALID if nothing can be paired, or if devices, drivers or library versions
 * differ and that is not allowed; DT_ERR_HOST_MEMORY. */
dt_status compare_records(const struct record_set *base, const struct record_set *new, const struct compare_options *options,
                          struct compare *out);
void compare_finish(struct compare *compare);
void comparison_finish(struct comparison *row);

/* Fill ratio, verdict and reason of a row from the steps of its two sides alone, which may be times
 * of anything; `predicted` steps have no noise. Errors: DT_ERR_HOST_MEMORY. */
dt_status compare_judge_steps(struct comparison *row, bool predicted, const struct compare_options *options);

/* Remarks to print below the rows, from index 0: differences, and what is predicted. "": nothing to
 * remark; NULL past the last. */
const char *compare_remark(const struct compare *compare, int index, char *text, size_t text_bytes);

const char *compare_verdict_name(enum compare_verdict verdict);
const char *compare_gate_name(enum compare_gate gate); /* "throughput", ...; NULL if the value is not exactly one gate */
const char *compare_losses_name(enum compare_losses losses);

/* Print on `to`. Errors: DT_ERR_HOST_MEMORY. */
dt_status compare_print_table(const struct compare *compare, const struct compare_options *options, FILE *to);
dt_status compare_print_markdown(const struct compare *compare, const struct compare_options *options, FILE *to);
dt_status compare_print_json(const struct compare *compare, const struct compare_options *options, FILE *to);
/* Print a report with this error, if nothing could be compared. */
void compare_print_junit_error(const char *error, FILE *to);
dt_status compare_print_junit(const struct compare *compare, const struct compare_options *options, FILE *to);
