#include "schedules/config/data.h"

#include "lib/base/grow.h"
#include "lib/config/data_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct dt_sampler experiment_sampler(const struct experiment *e)
{
    return (struct dt_sampler){e->data_samples, experiment_global_batch(e), e->data.last, e->data.shuffle, e->seed};
}

dt_status experiment_find_data(struct experiment *e)
{
    char path[PATH_MAX];
    if (!experiment_reads_data(e))
        return DT_OK;
    DT_TRY(dt_find_data_file(e->data.source, e->directory, path, sizeof path));
    return dt_intern_into(&e->data.source, path);
}

static dt_status count_samples(struct experiment *e)
{
    struct experiment found = *e;
    struct dt_data_set set = {.id_bytes = experiment_id_bytes(e), .path = found.data.source};
    if (!e->model.family->read_sample)
        return dt_fail(DT_ERR_INVALID, "models of the family %s read no files", e->model.family->name);
    DT_TRY(experiment_find_data(&found));
    DT_TRY(dt_mapped_file_open(found.data.source, &set.file));
    dt_status status = e->model.family->sample_count(&e->model, &set, &e->data_samples);
    dt_mapped_file_close(&set.file);
    return status;
}

/* An epoch must have at least one step. */
static dt_status check_steps(const struct experiment *e, const char *where)
{
    struct dt_sampler sampler = experiment_sampler(e);
    if (e->data_samples == 0 || dt_sampler_steps(&sampler) > 0)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID,
                   "%s: data.source: the file's %" PRIu64 " samples are less than a step of %" PRIu64
                   "; use a smaller batch_size, or data.last \"pad\"",
                   where, e->data_samples, sampler.batch);
}

static dt_status resolve_epochs(struct experiment *e, bool timed_given, const char *where)
{
    struct dt_sampler sampler = experiment_sampler(e);
    if (e->data_samples == 0)
        return dt_fail(DT_ERR_INVALID, "%s: steps.epochs: an epoch is one of data.source, %s", where,
                       experiment_reads_data(e) ? "which is not on this machine" : "which is \"random\"");
    uint64_t steps = dt_sampler_steps(&sampler) * (uint64_t)e->steps.epochs, warmup = (uint64_t)e->steps.warmup;
    if (steps <= warmup || steps > INT_MAX)
        return dt_fail(DT_ERR_INVALID, "%s: steps.epochs: %" PRIu64 " steps in all; more than steps.warmup %" PRIu64 " and at most %d",
                       where, steps, warmup, INT_MAX);
    if (timed_given && (uint64_t)e->steps.timed != steps - warmup)
        return dt_fail(DT_ERR_INVALID,
                       "%s: steps.epochs: the epochs have %" PRIu64 " timed steps, and steps.timed says %d; give one of both", where,
                       steps - warmup, e->steps.timed);
    e->steps.timed = (int)(steps - warmup);
    return DT_OK;
}

dt_status experiment_resolve_data(struct experiment *e, bool timed_given, const char *where)
{
    const struct dt_device_kind *kind = dt_device_kind_find(e->device);
    e->data_samples = 0;
    dt_status status = experiment_reads_data(e) ? count_samples(e) : DT_OK;
    if (status < 0 && !(status == DT_ERR_IO && kind && kind->simulated))
        return dt_fail(DT_ERR_INVALID, "%s: data.source: %s", where, dt_error_message());
    DT_TRY(check_steps(e, where));
    return e->steps.epochs > 0 ? resolve_epochs(e, timed_given, where) : DT_OK;
}
