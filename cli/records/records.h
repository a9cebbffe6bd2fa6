/* Records of runs: sets of records, comparisons of them, drafts of records, and forecasts from
 * finished experiments. */
#ifndef CLI_RECORDS_RECORDS_H
#define CLI_RECORDS_RECORDS_H

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

/* `name` as it is, its special characters escaped, and then the pattern `ending`. Owner: the caller, free; NULL when memory is out. */
char *glob_pattern(const char *name, const char *ending);

/* ---- the last step of writing a file whole: the finished one, under a temporary name, gets its own ---- */

/* Rename it. With `force` a file of that name is replaced; without, none is, not even one that was made since the caller looked, where the
 * file system can promise that. Errors: DT_ERR_IO; the temporary file then stays. */
dt_status name_file(const char *temporary, const char *path, bool force);

/* ---- how much the losses of the same work may differ by rounding alone: what --verify and `dtbench compare` go by ---- */

/* The type whose roundings decide: the model's, or the one in which its gradients travel where that is narrower. */
enum dt_dtype loss_rounded_to(const struct experiment *experiment);
/* The largest relative difference that rounding may make between two divisions of the same work. */
double loss_tolerance(const struct experiment *experiment);

/* ---- records from any number of files, as plain structures: what compare, merge and status work on ---- */

struct cJSON;

/* One record. Numbers that are not known are NaN, texts "". Pointers are the set's. */
struct record_facts {
    const struct cJSON *json;      /* all of it; NULL where only facts were read */
    char *texts;                   /* what the texts are in where only facts were read; owned */
    const char *file;              /* where it was */
    struct experiment *experiment; /* of its config; NULL where this version cannot read that */
    const char *hash; /* as recorded; experiment->hash is what this version makes of the config, or where the config does not say all
                                      that decides the result the recorded one */
    const char *status, *error, *started;
    double *step_s, *losses; /* [step_count], [loss_count] */
    int step_count, loss_count;
    struct dt_metrics metrics;
    struct {
        const char *id; /* "": not known */
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
    int newer; /* records left out, because only a later version of dtbench understands them */
};

/* Call `use` for each file that `arguments` name: files, folders (all *.jsonl in them, by name), patterns that the shell left alone, and "-" for
 * standard input. It is also called for the drafts that killed runs have left in the same folders. Errors: DT_ERR_IO for what is not there,
 * DT_ERR_HOST_MEMORY, and those of `use`, which ends the visit. */
typedef dt_status record_file_use(void *context, const char *path);
dt_status record_files_visit(const char *const *arguments, int argument_count, record_file_use *use, void *context);

/* A line on standard error for each kind of line that a command leaves out of a file: `torn` that are no records, and `newer` ones of at most
 * schema_version `version`. */
void records_warn_of_left_out(const char *command, const char *file, int torn, int newer, double version);

/* Read all records of `arguments`, as record_files_visit finds them. Lines that are no records, such as a writer's half-written last one, and records of a schema_version that is newer than this
 * program's are left out, with a line to stderr that begins with "dtbench COMMAND: ". Owner of the set, also after a failure: the caller, record_set_finish.
 * Errors: DT_ERR_IO for what cannot be read or is not there, DT_ERR_HOST_MEMORY. */
dt_status record_set_read(struct record_set *set, const char *command, const char *const *arguments, int argument_count);
/* The same without the records as JSON, their steps and their losses: a sweep's then take a tenth of the memory. */
dt_status record_set_read_facts(struct record_set *set, const char *command, const char *const *arguments, int argument_count);
void record_set_finish(struct record_set *set);

/* For the help. */
#define RECORD_ARGUMENTS_HELP                                                                                                              \
    "RECORDS are files, folders (all *.jsonl in them, sorted by name), quoted patterns, or '-' for standard input. Of several records of " \
    "one experiment (the same config_hash) the newest with status ok counts, or the newest of all where none is ok."

/* Read the records of `arguments` for `command`. Returns the exit code; a failure is already printed. Owner of *out, also after a failure:
 * the caller, record_set_finish. */
int record_arguments_read(const char *command, const char *const *arguments, int count, struct record_set *out);

bool record_is_ok(const struct record_facts *record);
/* What a record is of whose config is no experiment's: a collective alone, or the hash. */
void record_describe_config(const struct record_facts *record, char *text, size_t text_bytes);

/* One record of each hash: the newest of those that are ok, or of all where none is. `chosen` [set->count] gets their indices in the order
 * in which the hashes come first; returns how many. Newest by the time of the run's start, and of equal ones the last. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status record_set_newest(const struct record_set *set, int *chosen, int *count);

/* A text of the record's provenance: "driver", "device"; of a file ("tuning") its hash; "" where it has none. Numbers are given as text in
 * `number`. */
const char *record_provenance(const struct record_facts *record, const char *key, char number[32]);
/* The names of the libraries whose versions it tells, one by one from index 0; NULL past the last. */
const char *record_library(const struct record_facts *record, int index, const char **version);
int record_machines(const struct record_facts *record); /* 0: not known */
/* Of the "cluster" or "profile" that it was predicted with; "" where it was not. */
const char *record_simulated_hash(const struct record_facts *record, const char *file);

/* Which sweep an experiment is part of: what records carry, so that from the records alone it can be told what is still missing. */

struct sweep_identity {
    char id[17]; /* FNV-1a 64 of the experiments' hashes, in their order; hexadecimal */
    int count;   /* of different experiments: those with the same hash count once */
    int *index;  /* [experiments] the place of each among the different ones, in the sweep's order; owned */
};

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_identity_init(struct sweep_identity *identity, const struct experiment_list *experiments);
void sweep_identity_finish(struct sweep_identity *identity);

/* Name experiment `experiment` of the sweep in its report. */
void sweep_identity_report(const struct sweep_identity *identity, int experiment, struct report *report);

/* Drafts: what is known of the experiment that runs, in a file beside the records, for the case that no process is left to write its record.
 *
 * Linux when memory runs out, a lost node, or Slurm when it ends a step kill a process with SIGKILL. So the process that writes records
 * keeps the record that the experiment would then have, "failed" with all steps so far, in RECORDS.XXXXXX.draft, and removes it once the real
 * one is written. What reads RECORDS reads the drafts of dead processes too, and the next run moves them into RECORDS. A live process holds a
 * lock (flock) on its draft. A draft is replaced as a whole, so none is half-written. */

struct draft {
    const struct experiment *experiment; /* NULL: there is none */
    const struct report *report;
    char *path;    /* owned */
    int fd;        /* holds the lock */
    double due_s;  /* when to write again, on the clock that only goes forward */
    double took_s; /* the last write; 0: none yet */
};

/* Begin the draft of an experiment, whose report the caller fills until draft_end. Without a place to write (standard output, a folder
 * that takes no files) there is no draft, which is no failure: a record is written all the same unless the process is killed. */
void draft_begin(struct draft *draft, const char *records, const struct experiment *experiment, const struct report *report);
/* The report has a step more: it is written at most once a second, and for at most a thousandth of the time. Takes NULL. */
void draft_step(struct draft *draft);
/* Remove the draft, after the record is written. */
void draft_end(struct draft *draft);

/* Call `use` for each draft of RECORDS whose process is gone, as long as it returns DT_OK; the draft stays as it is. Errors:
 * DT_ERR_HOST_MEMORY, and those of `use`. */
dt_status drafts_visit(const char *records, dt_status (*use)(void *context, const char *path), void *context);
/* Move the drafts of dead processes into the open file of records; *count of them. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status drafts_adopt(const char *records, struct dt_record_file *file, int *count);

/* How long an experiment will take, told from those that are done.
 *
 * Method  An experiment's time is what its steps take and what is left: starting and ending the ranks, filling memory, --verify. A step's
 *         time is proportional to the floating-point operations of one rank, at the rate that done experiments reached. The rate is that
 *         of the done experiments that are most alike: with the same hash; else of the same paradigm, ranks and type; else of the same
 *         ranks and type; else of any; none of them on another device. Expected is the median of what they say, high the most; of one
 *         paradigm, ranks and type the last 64 are asked. On sim the steps' times are the cluster's: a prediction takes as long as those
 *         that are alike took.
 * Limits  Communication, memory that is nearly full and small kernels all bend the proportion: between unlike experiments the forecast is
 *         an order of magnitude and no more. Experiments that failed tell nothing. */

struct forecaster;

/* How alike the done experiments are that a forecast was made of. */
enum forecast_basis { FORECAST_SAME, FORECAST_ALIKE, FORECAST_SAME_RANKS, FORECAST_ANY, FORECAST_NONE };

struct forecast {
    double expected_s, high_s; /* wall time of the experiment, start-up included; NaN with FORECAST_NONE */
    int based_on;              /* done experiments */
    enum forecast_basis basis;
};

/* Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status forecaster_create(struct forecaster **out);
void forecaster_destroy(struct forecaster *forecaster); /* takes NULL */

/* One that ended well: its median step, and its whole wall time. Where that is not known (NaN), start-up and steps are all of it. Numbers
 * that are not positive are left out. Errors: DT_ERR_HOST_MEMORY. */
dt_status forecaster_add(struct forecaster *forecaster, const struct experiment *done, double step_s, double startup_s, double wall_s);

/* How long the steps of a done experiment took, of its wall time: nothing where they are simulated. */
double forecast_steps_s(const struct experiment *done, double step_s);

struct forecast forecaster_predict(const struct forecaster *forecaster, const struct experiment *experiment);

/* ---- how far a sweep is, told from its records: what `dtbench status` finds, before anything is printed ---- */

enum sweep_state {
    STATE_DONE,
    STATE_FAILED,      /* oom, invalid, timeout, failed */
    STATE_INTERRUPTED, /* to be run again */
    STATE_MISSING,
    STATE_COUNT
};

struct sweep_item {
    enum sweep_state state;
    const struct record_facts *record;   /* the newest ok one, or the newest; NULL: missing */
    const struct experiment *experiment; /* NULL: not known, as of what is missing where no config was given */
    char label[192];
    double took_s;     /* wall time, NaN where not known */
    double expected_s; /* of what is not done, NaN where nothing tells */
    int guesses;       /* done experiments that expected_s is told from; -1: their mean, for want of the config */
};

struct sweep_status {
    char id[17]; /* "": records that name no sweep, of which nobody knows what is missing */
    char name[64];
    struct sweep_item *items; /* [count] in the sweep's order */
    int count;
    int counts[STATE_COUNT];
    double left_s;   /* of what is missing or was interrupted, one after another; NaN where nothing tells */
    double failed_s; /* and of what has failed, should it be run again */
};

struct sweep_statuses {
    struct sweep_status *sweeps;
    int count;
    int others;                     /* records that are of no experiment of the config; 0 without one */
    struct experiment *experiments; /* of the config; owned */
};

/* Of the config's experiments, equal ones once; records are matched by hash, as recorded or as this version gives it to their config. With
 * experiments NULL: of every sweep that the records name. The set must outlive *out. Owner of *out, also after a failure: the caller.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_statuses_find(const struct record_set *set, const struct experiment_list *experiments, struct sweep_statuses *out);
void sweep_statuses_finish(struct sweep_statuses *statuses);

const char *sweep_state_name(enum sweep_state state);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status sweep_statuses_print_json(const struct sweep_statuses *statuses, FILE *to);

/* ---- which experiments `dtbench compare --by KEYS` pairs: those that differ in the named keys and in nothing else ---- */

struct pairing {
    const char *keys; /* as given; the caller's */
    bool *named; /* [experiment_table()->count] owned; also the keys that follow from a named one, as a model's sizes from its preset */
};

/* `keys`: comma-separated paths of the config, "activation,pipeline.order"; that of an object ("model") is all keys in it. Owner of *out, also
 * after a failure: the caller, pairing_finish. Errors: DT_ERR_INVALID for what is no key, DT_ERR_HOST_MEMORY. */
dt_status pairing_parse(const char *keys, struct pairing *out);
void pairing_finish(struct pairing *pairing);

bool pairing_names(const struct pairing *pairing, const char *path);

/* Do the two differ in named keys alone? Neither "name" counts, nor a key that makes no difference to one of them, such as those of a
 * pipeline to an experiment that has none. True also for two that are the same. */
bool pairing_fits(const struct pairing *pairing, const struct experiment *a, const struct experiment *b);

/* The values of the named keys of `e` in which it differs from `from`: "activation checkpoint", "fsdp, 4 ranks"; "the same"
 * where it differs in none. */
void pairing_describe(const struct pairing *pairing, const struct experiment *from, const struct experiment *e, char *text,
                      size_t text_bytes);

/* Two sets of records of the same experiments, held against each other: what `dtbench compare` finds, before anything is printed. */

enum compare_verdict {
    COMPARE_SAME,
    COMPARE_FASTER,
    COMPARE_SLOWER,
    COMPARE_UNCLEAR,
    COMPARE_FAILED,  /* was ok, and is not */
    COMPARE_FIXED,   /* was not ok, and is */
    COMPARE_MISSING, /* only in BASE */
    COMPARE_NEW,     /* only in NEW */
    COMPARE_VERDICTS
};

/* What can be a regression: bits, because an experiment may be several at once. */
enum compare_gate {
    GATE_THROUGHPUT = 1, /* slower (dt_ratio_judge) */
    GATE_STATUS = 2,     /* was ok, and is not */
    GATE_LOSSES = 4,     /* on the same device and libraries any difference; elsewhere one that rounding does not explain */
    GATE_MEMORY = 8,     /* the peak has grown by more than the threshold */
    GATE_MISSING = 16,   /* was ok, and is not there */
    GATE_ALL = 31,
};

enum compare_losses {
    LOSSES_UNKNOWN,  /* one of the two has none */
    LOSSES_EQUAL,    /* bit by bit */
    LOSSES_ROUNDING, /* differ by no more than --verify allows */
    LOSSES_DIFFER,
};

/* The timed steps of one side of a pair. */
struct compare_steps {
    double *step_s; /* [count] owned; NULL: none */
    int count;
    double *run_s; /* [runs] owned: the median of each record's, or the shortest with compare_options.shortest; NULL: none */
    int runs;
    double units_per_s; /* at their median; NaN where not known */
};

struct comparison {
    const struct record_facts *base, *new; /* NULL: there is none */
    struct compare_steps base_steps, new_steps;
    char label[192];
    enum compare_verdict verdict;
    struct dt_ratio ratio; /* of throughput */
    double memory_bytes;   /* NEW's peak less BASE's; NaN where one is not known */
    enum compare_losses losses;
    int loss_step;        /* the first that differs, from 0, warm-up included; -1: none */
    bool no_slowdown;     /* the interval excludes a loss of more than the threshold */
    unsigned regressions; /* of those that were asked for: enum compare_gate */
    char reason[512];     /* one line: what the verdict alone does not say; "" when nothing */
};

struct compare_options {
    double threshold; /* a fraction: 0.05 */
    unsigned gates;   /* enum compare_gate */
    bool allow_different;
    bool shortest;            /* each run counts by its shortest step (dt_ratio_of_shortest) */
    bool single;              /* only the newest run of a side counts, and is enough to be called slower */
    const struct pairing *by; /* two settings are compared, not two versions: what differs in these keys alone is a pair; NULL: not so */
};

struct compare {
    struct comparison *rows; /* [count] in BASE's order, then what is only in NEW */
    int count;
    int counts[COMPARE_VERDICTS];
    int regressions;      /* rows with any */
    int alone;            /* experiments that have no partner, where two settings are compared: they have no row */
    char different[1024]; /* in what the two were measured differently: "driver (535, 550), oneDNN (2.6, 3.1)"; "" in nothing */
    char noted[512];      /* what else differs, and is no reason to refuse: "kernel (Linux 6.1, Linux 6.5)" */
    char predicted[PREDICTIONS_BYTES]; /* predictions_describe */
};

/* Pair the newest records of each experiment and judge the pairs: throughput by the steps of all ok records that the same build left on the same
 * device, and called slower or
 * faster only where the runs' medians show it, too, unless options->single allows it, or both are predicted. Records are paired by their config's hash, and those that are left by the
 * hash that this version gives to their config, which keys that came since may have changed. With options->by each of NEW's is paired with
 * the first of BASE's from which it differs in the named keys alone; where BASE and NEW are one set, with the first before it that is itself
 * paired with none. Threads and machines of a rank may then differ, and losses. Both sets must outlive *out. Owner of *out,
 * also after a failure: the caller, compare_finish. Errors: DT_ERR_INVALID when nothing can be paired, and when devices, drivers or library
 * versions differ and that is not allowed; DT_ERR_HOST_MEMORY. */
dt_status compare_records(const struct record_set *base, const struct record_set *new, const struct compare_options *options,
                          struct compare *out);
void compare_finish(struct compare *compare);

/* Fill ratio, verdict and reason of a row from the steps of its two sides alone, whatever they are times of; steps that are `predicted` have no
 * noise. Errors: DT_ERR_HOST_MEMORY. */
dt_status compare_judge_steps(struct comparison *row, bool predicted, const struct compare_options *options);

/* What is to be said below the rows, from 0 on: what differs, and what is predicted. "" where there is nothing of it; NULL past the last. */
const char *compare_remark(const struct compare *compare, int index, char *text, size_t text_bytes);

const char *compare_verdict_name(enum compare_verdict verdict);
const char *compare_gate_name(enum compare_gate gate); /* "throughput", ...; NULL for what is not one gate */
const char *compare_losses_name(enum compare_losses losses);

/* Print on `to`. Errors: DT_ERR_HOST_MEMORY. */
dt_status compare_print_table(const struct compare *compare, const struct compare_options *options, FILE *to);
dt_status compare_print_markdown(const struct compare *compare, const struct compare_options *options, FILE *to);
dt_status compare_print_json(const struct compare *compare, const struct compare_options *options, FILE *to);
/* Where nothing could be compared: a report with this error. */
void compare_print_junit_error(const char *error, FILE *to);
dt_status compare_print_junit(const struct compare *compare, const struct compare_options *options, FILE *to);

#endif
