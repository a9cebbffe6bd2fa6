/* Measured runs, predicted. */
#include "cli/predict/validate.h"

#include "schedules/predict/simulation.h"

#include <math.h>
#include <string.h>

/* Equal but for what no prediction depends on. */
static bool same_experiment(const struct validate_row *a, const struct validate_row *b)
{
    return strcmp(a->experiment.hash, b->experiment.hash) == 0 && a->experiment.replica_samples == b->experiment.replica_samples;
}

static bool take_over(struct validate_rows *rows, int i)
{
    for (int j = 0; j < i; j++) {
        const struct validate_row *other = &rows->rows[j];
        if (other->outcome == VALIDATE_SKIPPED || !same_experiment(other, &rows->rows[i]))
            continue;
        rows->rows[i].outcome = other->outcome;
        rows->rows[i].predicted_s = other->predicted_s;
        rows->rows[i].predicted_bytes = other->predicted_bytes;
        rows->rows[i].gpus_per_node = other->gpus_per_node;
        memcpy(rows->rows[i].reason, other->reason, sizeof other->reason);
        return true;
    }
    return false;
}

static dt_status predict(struct validate_row *row)
{
    struct measure_result result = {0};
    struct simulated_system *system;
    DT_TRY(simulated_system_create(&row->experiment, &system));
    row->gpus_per_node = system->placement.ranks_per_node; /* the cluster's, where the table does not tell */
    dt_status status = simulation_run_symmetric(&row->experiment, system, NULL, &result);
    row->outcome = status == DT_ERR_OOM ? VALIDATE_OUT_OF_MEMORY : status == DT_ERR_UNAVAILABLE ? VALIDATE_REFUSED : VALIDATE_PREDICTED;
    if (row->outcome == VALIDATE_REFUSED)
        snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
    if (status == DT_OK)
        row->predicted_s = result.step_s[result.steps_done - 1];
    if (status == DT_OK)
        row->predicted_bytes = simulated_system_reported_bytes(system, &result);
    for (int i = 0; status == DT_ERR_OOM && i < result.rank_count; i++)
        row->predicted_bytes = fmax(row->predicted_bytes, (double)result.ranks[i].memory.device.peak_total_bytes);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    return status == DT_ERR_OOM || status == DT_ERR_UNAVAILABLE ? DT_OK : status;
}

dt_status validate_predict(struct validate_rows *rows, bool (*stop)(void *context), void *context)
{
    for (int i = 0; i < rows->count; i++) {
        struct validate_row *row = &rows->rows[i];
        if (stop && stop(context))
            return dt_fail(DT_ERR_INTERRUPTED, "interrupted");
        if (row->outcome == VALIDATE_SKIPPED || take_over(rows, i))
            continue;
        dt_status status = predict(row);
        if (status == DT_ERR_UNAVAILABLE) { /* it does not fit the cluster */
            row->outcome = VALIDATE_SKIPPED;
            snprintf(row->reason, sizeof row->reason, "%.255s", dt_error_message());
        } else if (status < 0) {
            return status;
        }
    }
    return DT_OK;
}

dt_status validate_rows_check(const struct validate_rows *rows)
{
    const char *reason = rows->count > 0 ? rows->rows[0].reason : "the table has no rows";
    for (int i = 0; i < rows->count; i++)
        if (rows->rows[i].outcome != VALIDATE_SKIPPED)
            return DT_OK;
    return dt_fail(DT_ERR_INVALID, "nothing was validated: %d of %d rows were skipped, the first one because: %s", rows->count, rows->count,
                   reason);
}
