#include "schedules/run/batches.h"

#include "lib/base/clock.h"
#include "lib/config/data_file.h"
#include "schedules/config/data.h"

#include <stdio.h>
#include <string.h>

uint64_t batches_first(const struct experiment *e, const struct mesh_shape *shape, int rank, size_t samples, int step)
{
    return (uint64_t)step * experiment_global_batch(e) + (uint64_t)mesh_index(shape, MESH_ON_DATA, rank) * samples;
}

/* Runs on the thread that reads ahead. */
static dt_status read_step(void *context, uint64_t step, void *to)
{
    const struct batches *b = context;
    const struct dt_model *model = &b->experiment->model;
    uint64_t first = batches_first(b->experiment, b->shape, b->rank, b->samples, (int)step);
    char *inputs = to, *targets = inputs + b->samples * b->input_bytes;
    for (size_t i = 0; i < b->samples; i++)
        DT_TRY(model->family->read_sample(model, &b->set, dt_sampler_at(&b->sampler, first + i), first + i, inputs + i * b->input_bytes,
                                          targets + i * b->target_bytes));
    return DT_OK;
}

static dt_status open_file(struct batches *b)
{
    const struct experiment *e = b->experiment;
    uint64_t count;
    DT_TRY(dt_find_data_file(e->data.source, e->directory, b->path, sizeof b->path));
    b->set = (struct dt_data_set){.id_bytes = experiment_id_bytes(e), .path = b->path, .seed = e->seed};
    DT_TRY(dt_mapped_file_open(b->path, &b->set.file));
    DT_TRY(e->model.family->sample_count(&e->model, &b->set, &count));
    return count == e->data_samples ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: the file has changed since the run began", b->path);
}

/* Every rank's file must have the same number of samples: otherwise a run would train on data that
 * nobody asked for. */
static dt_status agree(struct batches *b, struct dt_comm *world)
{
    char why[512];
    double sums_and_highest[2], mine;
    dt_status status = open_file(b);
    snprintf(why, sizeof why, "%s", dt_error_message());
    mine = status == DT_OK ? (double)b->set.file.size_bytes : 0;
    DT_TRY(dt_host_reduce(world, &mine, 1, sums_and_highest));
    if (status < 0)
        return dt_fail(DT_ERR_INVALID, "data.source: %s", why);
    if (sums_and_highest[0] != sums_and_highest[1] * dt_comm_size(world))
        return dt_fail(DT_ERR_INVALID, "data.source: %s: a rank cannot read its file, or it has another size there", b->path);
    return DT_OK;
}

dt_status batches_init(struct batches *b, const struct experiment *e, struct dt_comm *world, const struct mesh_shape *shape, size_t samples,
                       struct dt_stage *stage, struct dt_stream *stream)
{
    bool simulated = dt_device_kind_of(dt_stream_device(stream))->simulated;
    *b = (struct batches){.experiment = e, .shape = shape, .rank = dt_comm_rank(world), .samples = samples};
    if (!experiment_reads_data(e))
        return DT_OK;
    if (!simulated)
        DT_TRY(agree(b, world));
    if (!stage->first && !stage->last)
        return DT_OK;
    e->model.family->sample_bytes(&e->model, &b->input_bytes, &b->target_bytes);
    b->sampler = experiment_sampler(e);
    size_t bytes = samples * (b->input_bytes + b->target_bytes);
    DT_TRY(dt_alloc_host(stream, DT_WORKSPACE, bytes, &b->now));
    DT_TRY(dt_alloc_host(stream, DT_WORKSPACE, bytes, &b->ahead));
    stage->batch = (struct dt_batch){b->now.data, (const char *)b->now.data + samples * b->input_bytes};
    if (simulated)
        return DT_OK;
    DT_TRY(dt_stream_synchronize(stream)); /* also for the host's use */
    return dt_prefetch_create(read_step, b, b->ahead.data, bytes, 0, &b->prefetch);
}

void batches_finish(struct batches *b, struct dt_stream *stream)
{
    dt_prefetch_destroy(b->prefetch);
    dt_free(stream, &b->now);
    dt_free(stream, &b->ahead);
    dt_mapped_file_close(&b->set.file);
    *b = (struct batches){0};
}

dt_status batches_take(struct batches *b, int step)
{
    double begun_s = dt_clock_s();
    if (!b->prefetch)
        return DT_OK;
    DT_TRY(dt_prefetch_take(b->prefetch, (uint64_t)step, b->now.data));
    b->waited_s = dt_clock_s() - begun_s;
    return DT_OK;
}
