/* `dtbench run --resume`: what earlier runs finished. */
#ifndef CLI_RUN_RESUME_H
#define CLI_RUN_RESUME_H

#include "cli/run/sweep.h"

/* What besides an ok record is an end. */
struct resume_options {
    bool skip_oom;    /* one that ran out of memory */
    bool skip_failed; /* any other but an interrupted one */
};

/* Mark the experiments of which the file at `path` has a record that is an end as skipped, and learn from the ok ones how long experiments
 * take. A file that is not there has no records. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status resume_find_finished(struct sweep *sweep, const char *path, const struct resume_options *options);

#endif
