#include "schedules/data_parallel/replica.h"
#include "lib/model/stage.h"

#include <stdlib.h>

void *replica_params(const struct replica *replica, const struct dp_setup *setup, size_t element)
{
    return (char *)replica->params.data + dp_bytes(setup, element);
}

void *replica_grads(const struct replica *replica, const struct dp_setup *setup, size_t element)
{
    return (char *)replica->grads.data + dp_grads_bytes(setup, element);
}

/* Allocate parameters, gradients and optimizer state; on the device the gaps between groups are
 * zeroed. */
static dt_status allocate(struct replica *replica, const struct dp_setup *setup, const struct replica_options *options)
{
    const struct dt_stage *stage = setup->stage;
    size_t flat_elems = options->offset_elems ? options->flat_elems : stage->param_elems, bytes = dp_bytes(setup, flat_elems);
    DT_TRY(offload_alloc_params(setup, bytes, &replica->params));
    if (options->keep_gradients)
        DT_TRY(dt_alloc(setup->compute, DT_GRADIENTS, dp_gradient_bytes(setup, flat_elems), &replica->grads));
    struct optimizer_run run = {.count = stage->group_count, .offset_elems = replica->offset_elems};
    DT_TRY(
        optimizer_create(setup->experiment, stage, run, options->state_elems, options->summed_ranks, setup->compute, &replica->optimizer));
    bool gaps = flat_elems > stage->param_elems;
    return gaps && !setup->offload ? dt_zero(setup->compute, replica->params.data, bytes) : DT_OK;
}

static dt_status initialise(struct replica *replica, const struct dp_setup *setup, const struct replica_options *options)
{
    struct dt_stage *stage = setup->stage;
    for (int g = stage->group_count - 1; g >= 0; g--) {
        struct dt_group *group = &stage->groups[g];
        void *params = replica_params(replica, setup, replica->offset_elems[g]);
        group->grads = options->keep_gradients ? replica_grads(replica, setup, replica->offset_elems[g]) : NULL;
        group->params = setup->offload ? NULL : params;
        DT_TRY(setup->offload ? offload_init_params(setup, group, 0, group->param_elems, group->param_elems, params)
                              : dt_init_params(stage, group, 0, group->param_elems, params, setup->compute));
    }
    return DT_OK;
}

dt_status replica_init(struct replica *replica, const struct dp_setup *setup, const struct replica_options *options)
{
    const struct dt_stage *stage = setup->stage;
    *replica = (struct replica){.offset_elems = calloc((size_t)stage->group_count, sizeof *replica->offset_elems)};
    DT_TRY(dt_allocated(replica->offset_elems, "no host memory for %d groups", stage->group_count));
    size_t offset = 0;
    for (int g = stage->group_count - 1; g >= 0; g--) {
        replica->offset_elems[g] = options->offset_elems ? options->offset_elems[g] : offset;
        offset += stage->groups[g].param_elems;
    }
    DT_TRY(allocate(replica, setup, options));
    return initialise(replica, setup, options);
}

void replica_finish(struct replica *replica, const struct dp_setup *setup)
{
    optimizer_destroy(replica->optimizer, setup->compute);
    dt_free(setup->compute, &replica->grads);
    dt_free(setup->compute, &replica->params);
    free(replica->offset_elems);
    *replica = (struct replica){0};
}

dt_status replica_update(struct replica *replica, const struct dp_setup *setup, size_t first, size_t count, size_t state_first,
                         const void *grads)
{
    return optimizer_apply(replica->optimizer, replica_params(replica, setup, first), grads, first, state_first, count, setup->compute);
}

dt_status replica_fetch(const struct replica *replica, const struct dp_setup *setup, int g, const struct offload_home *home,
                        struct resident *to)
{
    struct dt_stream *copies = setup->offload->to_device;
    DT_TRY(dt_stream_wait(copies, home->current));
    DT_TRY(dt_alloc(copies, DT_PARAMETERS, dp_bytes(setup, setup->stage->groups[g].param_elems), &to->params));
    DT_TRY(dt_copy_from_host(copies, to->params.data, replica_params(replica, setup, replica->offset_elems[g]), to->params.bytes));
    return dt_event_record(to->there, copies);
}

dt_status replica_visit(const struct replica *replica, const struct dp_setup *setup, int g, size_t first, size_t end, bool update,
                        size_t state_first, bool own, dp_visit visit, void *context)
{
    struct dp_held run = {.kind = DP_PARAMETERS,
                          .group = g,
                          .first_elem = first - replica->offset_elems[g],
                          .count_elems = end - first,
                          .data = replica_params(replica, setup, first),
                          .own = own};
    if (first >= end)
        return DT_OK;
    DT_TRY(visit(context, &run));
    return update ? optimizer_visit(replica->optimizer, run, state_first, visit, context) : DT_OK;
}
