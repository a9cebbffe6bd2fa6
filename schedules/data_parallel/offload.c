#include "schedules/data_parallel/offload.h"
#include "lib/model/stage.h"

#include <stdio.h>

/* ---- streams ---- */

dt_status offload_init(struct offload *offload, struct dt_device *device)
{
    *offload = (struct offload){0};
    DT_TRY(dt_stream_create(device, "host to device", &offload->to_device));
    DT_TRY(dt_stream_create(device, "device to host", &offload->to_host));
    return dt_stream_create(device, "host update", &offload->update);
}

void offload_finish(struct offload *offload)
{
    dt_stream_destroy(offload->to_device);
    dt_stream_destroy(offload->to_host);
    dt_stream_destroy(offload->update);
    *offload = (struct offload){0};
}

dt_status offload_synchronize(struct offload *offload)
{
    return streams_synchronize((struct dt_stream *[]){offload->to_device, offload->to_host, offload->update}, 3);
}

/* ---- parameters ---- */

dt_status offload_alloc_params(const struct dp_setup *setup, size_t bytes, struct dt_buffer *out)
{
    return (setup->offload ? dt_alloc_host : dt_alloc)(setup->compute, DT_PARAMETERS, bytes, out);
}

/* Initialise them on the device, in made [padded], and copy them to the host. */
static dt_status make_params(const struct dp_setup *setup, const struct dt_group *group, size_t first, size_t count, size_t padded,
                             void *made, void *to)
{
    if (padded > count)
        DT_TRY(dt_zero(setup->compute, (char *)made + dp_bytes(setup, count), dp_bytes(setup, padded - count)));
    if (count > 0)
        DT_TRY(dt_init_params(setup->stage, group, first, count, made, setup->compute));
    return dt_copy_to_host(setup->compute, to, made, dp_bytes(setup, padded));
}

dt_status offload_init_params(const struct dp_setup *setup, const struct dt_group *group, size_t first, size_t count, size_t padded,
                              void *to)
{
    struct dt_buffer made;
    DT_TRY(dt_alloc(setup->compute, DT_PARAMETERS, dp_bytes(setup, padded), &made));
    dt_status status = make_params(setup, group, first, count, padded, made.data, to);
    dt_free(setup->compute, &made);
    return status;
}

/* ---- homes ---- */

dt_status offload_home_init(struct offload_home *home, const struct dp_setup *setup, size_t elems)
{
    *home = (struct offload_home){.elems = elems};
    DT_TRY(dt_event_create(setup->device, &home->current));
    DT_TRY(dt_alloc_host(setup->compute, DT_GRADIENTS, dp_grads_bytes(setup, elems), &home->grads));
    return dt_event_record(home->current, setup->compute);
}

void offload_home_finish(struct offload_home *home, const struct dp_setup *setup)
{
    dt_free(setup->compute, &home->grads);
    dt_event_destroy(home->current);
}

static dt_status copy_and_add(struct offload_home *home, const struct dp_setup *setup, const void *grads, const struct dt_buffer *arrived)
{
    const struct offload *o = setup->offload;
    DT_TRY(dt_copy_to_host(o->to_host, arrived->data, grads, arrived->bytes));
    DT_TRY(dt_stream_follow(o->update, o->to_host));
    return dp_add_gradients(setup, o->update, true, home->grads.data, arrived->data, home->elems);
}

/* Gradients of later micro-batches are copied next to the sum, and the host adds them. */
static dt_status add_gradients(struct offload_home *home, const struct dp_setup *setup, const void *grads)
{
    const struct offload *o = setup->offload;
    struct dt_buffer arrived;
    DT_TRY(dt_alloc_host(o->to_host, DT_GRADIENTS, dp_grads_bytes(setup, home->elems), &arrived));
    dt_status status = copy_and_add(home, setup, grads, &arrived);
    dt_free(o->update, &arrived);
    return status;
}

/* The last step's update has used what is overwritten here. */
static dt_status replace_gradients(struct offload_home *home, const struct dp_setup *setup, const void *grads)
{
    const struct offload *o = setup->offload;
    DT_TRY(dt_stream_wait(o->to_host, home->current));
    DT_TRY(dt_copy_to_host(o->to_host, home->grads.data, grads, home->grads.bytes));
    return dt_stream_follow(o->update, o->to_host);
}

dt_status offload_gradients(struct offload_home *home, const struct dp_setup *setup, const struct dt_event *ready, const void *grads,
                            struct dt_buffer *holder)
{
    DT_TRY(dt_stream_wait(setup->offload->to_host, ready));
    if (home->elems)
        DT_TRY(home->has_sum ? add_gradients(home, setup, grads) : replace_gradients(home, setup, grads));
    home->has_sum = true;
    dt_free(setup->offload->to_host, holder);
    return DT_OK;
}

dt_status offload_update(struct offload_home *home, const struct dp_setup *setup, struct optimizer *optimizer, void *params, size_t at,
                         size_t state_first)
{
    home->has_sum = false;
    DT_TRY(optimizer_apply(optimizer, params, home->grads.data, at, state_first, home->elems, setup->offload->update));
    return dt_event_record(home->current, setup->offload->update);
}

dt_status offload_await(const struct offload_home *home, const struct dp_setup *setup)
{
    return dt_stream_wait(setup->compute, home->current);
}
