/* The experiment of a measured run, from the text of its config. */
#include "cli/predict/validate_run.h"

#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>

void validate_row_skip(struct validate_row *row, const char *reason)
{
    row->outcome = VALIDATE_SKIPPED;
    snprintf(row->reason, sizeof row->reason, "%.255s", reason);
}

dt_status validate_row_experiment(const char *text, const char *where, const struct validate_system *system, struct validate_row *row)
{
    struct experiment *experiments;
    int count;
    size_t length = strlen(where);
    dt_status status = experiments_parse(text, strlen(text), where, system->sets, system->set_count, &experiments, &count);
    if (status == DT_ERR_INVALID) { /* without the place, the reason is the same for all rows that have it */
        const char *error = dt_error_message();
        validate_row_skip(row, strncmp(error, where, length) == 0 && strlen(error) > length + 2 ? error + length + 2 : error);
        return DT_OK;
    }
    DT_TRY(status);
    row->experiment = experiments[0];
    free(experiments);
    return count == 1 ? DT_OK : dt_fail(DT_ERR_INVALID, "--set: a row is one experiment, and this makes %d of it", count);
}
