/* Two sets of records of the same experiments, held against each other: what `dtbench compare` finds, before anything is printed. */
#ifndef CLI_RECORDS_COMPARE_H
#define CLI_RECORDS_COMPARE_H

#include "cli/records/pairing.h"
#include "cli/records/record_set.h"
#include "cli/text/predictions.h"
#include "lib/base/statistics.h"

#include <stdio.h>

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
    double *run_s; /* [runs] owned: the median of each record's; NULL: none */
    int runs;
    double tokens_per_s; /* at their median; NaN where not known */
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
