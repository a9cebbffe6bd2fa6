/* What `dtbench check` finds out about an experiment. */
#ifndef CLI_PREDICT_CHECK_H
#define CLI_PREDICT_CHECK_H

#include "lib/device/memory.h"
#include "schedules/config/experiment.h"

#include <stdio.h>

enum { CHECK_NOTES = 4 };

struct check {
    uint64_t parameters, tokens_per_step;
    double flops_per_step;
    int rank, host_rank;          /* the ones that need the most of the device's memory, and of the host's */
    struct dt_memory_usage usage; /* their bytes */
    char notes[CHECK_NOTES][512];
    int note_count;
};

/* Errors: as memory_fit_predict. */
dt_status check_experiment(const struct experiment *experiment, struct check *out);

/* All of it as JSON on `to`, an array. Errors: DT_ERR_HOST_MEMORY. */
dt_status check_print_json(const struct experiment *experiments, const struct check *checks, int count, FILE *to);

#endif
