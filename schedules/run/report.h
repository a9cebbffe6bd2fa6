/* The outcome of one run of an experiment, and its conversion to a record.
 *
 * The ranks fill a report. Rank 0 sends the record made from its report to the process that writes
 * records (report_take). That process adds how the run ended, also if no rank is left to report it.
 * Unknown numbers are NaN here and null in the record. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "schedules/run/measure.h"

struct cJSON;
struct dt_slurm_facts;

struct report {
    struct measure_result result; /* owned */
    struct cJSON *taken; /* the record that rank 0 sent, owned; `result` then has losses, metrics, graph and doubts only. NULL: none */

    /* Empty or zero if unknown. */
    char device[8], device_name[128], launcher[16];
    char versions[384]; /* "oneDNN 2.6.3, Open MPI 4.1.4" */
    char driver[32];    /* the GPUs' */
    char secret[16];    /* of dt_comm_secret; "": there is no secret */
    char settings[64];  /* environment variables that were set for the ranks only, as JSON */
    int threads;
    const struct dt_slurm_facts *slurm; /* the job, owned by the caller; NULL: what the environment says */
    char *gpus;                         /* each rank's uuid on a separate line; owned, NULL if they have none */
    char *hosts;                        /* one name a line, each machine once; owned, NULL when unknown */
    struct {
        char name[128]; /* "": not simulated */
        uint64_t hash;  /* of the file */
    } cluster, profile;
    double fewest_units_per_s; /* per rank, of the same experiment on the fewest ranks; NAN: unknown */
    double peak_flops;         /* of one device, in the experiment's dtype; 0: unknown */
    double started_s;          /* Unix time */
    double began_s;            /* the same moment on the monotonic clock */
    struct {
        char id[17]; /* "": part of no sweep */
        int index, count;
    } sweep;

    /* How the run ended. */
    dt_status status;
    char error[1024];         /* one line; "" when ok */
    const char *verification; /* "passed", "failed"; NULL: not requested, or not done */
    double verification_error;
    int verified_losses; /* number of compared losses; -1: all, or none */
};

void report_init(struct report *report); /* everything unknown, started now */
void report_finish(struct report *report);

/* Device, library versions, launcher, each rank's GPU and the names of all machines. Collective
 * over `world`. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status report_describe(struct report *report, const struct dt_model_family *family, const struct dt_device *device,
                          struct dt_comm *world, const struct dt_world *place);

/* End the report with the status and the failure's text (dt_error_message), as one line. */
void report_end(struct report *report, dt_status status, const char *error);

/* Take over what rank 0 has measured. `line` is what report_record returned there. Errors:
 * DT_ERR_HOST_MEMORY; DT_ERR_INVALID for any other text. After an error the report is unchanged. */
dt_status report_take(struct report *report, const char *line);

/* Record a step that a rank has announced, in case the run ends without a result. `step` counts
 * from 0, warm-up included; a known step changes nothing. Errors: DT_ERR_HOST_MEMORY. */
dt_status report_add_step(struct report *report, const struct experiment *experiment, int step, double seconds, double loss);

/* The metrics of the record: what the ranks have measured, and what follows from it. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status report_measure(const struct report *report, const struct experiment *experiment, struct dt_metrics *out);

/* The record, one line of JSON. Owner: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status report_record(const struct report *report, const struct experiment *experiment, char **out_line);

/* A record's status: "ok", "oom", "invalid", "timeout", "interrupted", and "failed" for everything
 * else. */
const char *report_status_name(dt_status status);
