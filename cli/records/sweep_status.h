/* How far a sweep is, told from its records: what `dtbench status` finds, before anything is printed. */
#ifndef CLI_RECORDS_SWEEP_STATUS_H
#define CLI_RECORDS_SWEEP_STATUS_H

#include "cli/records/record_set.h"
#include "schedules/config/experiment_list.h"

#include <stdio.h>

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

#endif
