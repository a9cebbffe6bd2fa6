/* `dtbench run --resume`: what earlier runs finished. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "cli/sweep.h"

/* Mark the experiments of which the file at `path` has an ok record (with `skip_oom` also one that ran out of memory) as skipped, and learn
 * from the ok ones how long experiments take. A file that is not there has no records. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status resume_find_finished(struct sweep *sweep, const char *path, bool skip_oom);

#endif
