/* Is there time for another experiment? What would not be done before the end is left for a later run (--resume). */
#ifndef CLI_RUN_SWEEP_TIME_H
#define CLI_RUN_SWEEP_TIME_H

#include "cli/records/forecast.h"

struct sweep_time {
    struct forecaster *forecaster;
    double end_s;                        /* on dt_clock_s; infinite: no limit */
    bool begun;                          /* an experiment was started */
    bool is_job;                         /* the limit is the job's */
    double (*job_left_s)(void *context); /* asks the job again; NULL: the limit stands */
    void *context;
    double asked_s; /* when that was last known */
};

/* `limit`: seconds from now as the command line has them; NULL: `job_left_s`, what is left of a job (NaN: unknown or without limit), less
 * two minutes, or a tenth of it where that is less: for the last record, and for a step that takes longer than the others.
 * Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. The caller calls sweep_time_finish in any case. */
dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s);
/* A job's limit may be changed while it runs (scontrol update TimeLimit). `job_left_s` returns what is left of it now, NaN: unknown, and
 * then what was known before stays. It is called when an experiment would not be started, and when the last call was a minute ago. Does
 * nothing where the limit is the command line's, or where there is none. */
void sweep_time_follow(struct sweep_time *time, double (*job_left_s)(void *context), void *context);
void sweep_time_finish(struct sweep_time *time);
bool sweep_time_is_limited(const struct sweep_time *time);

/* An experiment that ended well, in this run, or in an earlier one that left a record. */
dt_status sweep_time_learn(struct sweep_time *time, const struct experiment *done, double step_s, double startup_s, double wall_s);

/* May it start? The first of a run may as long as any time is left: a forecast that is too long must not stop a sweep for ever. The others
 * must be expected to end in time, as the slowest of the done ones predicts. `why` gets the reason against it. */
bool sweep_time_allows(struct sweep_time *time, const struct experiment *next, char *why, size_t why_bytes);

#endif
