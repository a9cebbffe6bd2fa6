#include "schedules/replica.h"

#include <stdlib.h>

static void *at(const struct dt_buffer *buffer, const struct dp_setup *setup, size_t element)
{
    return (char *)buffer->data + element * dt_dtype_bytes(setup->experiment->model.dtype);
}

dt_status replica_init(struct replica *replica, const struct dp_setup *setup, bool keep_gradients)
{
    struct gpt_stage *stage = setup->stage;
    size_t bytes = stage->param_elems * dt_dtype_bytes(setup->experiment->model.dtype), offset = 0;
    dt_status status;

    *replica = (struct replica){.offset_elems = calloc((size_t)stage->group_count, sizeof *replica->offset_elems)};
    if (!replica->offset_elems)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d groups", stage->group_count);
    if ((status = dt_alloc(setup->compute, DT_PARAMETERS, bytes, &replica->params)) < 0 ||
        (keep_gradients && (status = dt_alloc(setup->compute, DT_GRADIENTS, bytes, &replica->grads)) < 0) ||
        (status = optimizer_create(setup->experiment, stage, stage->param_elems, setup->compute, &replica->optimizer)) < 0)
        goto fail;

    for (int g = stage->group_count - 1; g >= 0; g--) {
        struct gpt_group *group = &stage->groups[g];
        replica->offset_elems[g] = offset;
        group->params = at(&replica->params, setup, offset);
        group->grads = keep_gradients ? at(&replica->grads, setup, offset) : NULL;
        offset += group->param_elems;
        if ((status = gpt_init_params(stage, group, 0, group->param_elems, group->params, setup->compute)) < 0)
            goto fail;
    }
    return DT_OK;

fail:
    replica_finish(replica, setup);
    return status;
}

void replica_finish(struct replica *replica, const struct dp_setup *setup)
{
    optimizer_destroy(replica->optimizer, setup->compute);
    dt_free(setup->compute, &replica->grads);
    dt_free(setup->compute, &replica->params);
    free(replica->offset_elems);
    *replica = (struct replica){0};
}

dt_status replica_update(struct replica *replica, const struct dp_setup *setup, size_t first, size_t count, const void *grads, int step)
{
    return optimizer_apply(replica->optimizer, at(&replica->params, setup, first), grads, first, count, step, setup->compute);
}
