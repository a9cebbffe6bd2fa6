/* Records from any number of files, as plain structures: what compare, merge and status work on. */
#ifndef CLI_RECORDS_RECORD_SET_H
#define CLI_RECORDS_RECORD_SET_H

#include "lib/record/metrics.h"
#include "schedules/config/experiment.h"

struct cJSON;

/* One record. Numbers that are not known are NaN, texts "". Pointers are the set's. */
struct record_facts {
    const struct cJSON *json;      /* all of it */
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
    int count;
    struct record_file {
        struct cJSON *records; /* owned, an array */
        char *name;            /* owned */
    } *files;                  /* [file_count] */
    int file_count;
    int newer; /* records left out, because only a later version of dtbench understands them */
};

/* Read all records of `arguments`: files, folders (all *.jsonl in them, by name), patterns that the shell left alone, and "-" for standard
 * input. Lines that are no records, such as a writer's half-written last one, and records of a schema_version that is newer than this
 * program's are left out, with a line to stderr that begins with "dtbench COMMAND: ". Owner of the set, also after a failure: the caller, record_set_finish.
 * Errors: DT_ERR_IO for what cannot be read or is not there, DT_ERR_HOST_MEMORY. */
dt_status record_set_read(struct record_set *set, const char *command, const char *const *arguments, int argument_count);
void record_set_finish(struct record_set *set);

bool record_is_ok(const struct record_facts *record);

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

#endif
