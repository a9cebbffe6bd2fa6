#include "lib/model/exchange.h"

dt_status dt_exchange_init(struct dt_exchange *x, const struct dt_tensor_group *group, const struct dt_context_group *context,
                           struct dt_device *device)
{
    *x = (struct dt_exchange){.group = *group, .context = *context};
    if (!group->comm && !context->comm)
        return DT_OK;
    for (int slot = 0; slot < DT_EXCHANGE_SLOTS; slot++)
        DT_TRY(dt_event_create(device, &x->done[slot]));
    return group->overlap ? dt_event_create(device, &x->product) : DT_OK;
}

void dt_exchange_finish(struct dt_exchange *x)
{
    dt_event_destroy(x->product);
    for (int slot = 0; slot < DT_EXCHANGE_SLOTS; slot++)
        dt_event_destroy(x->done[slot]);
    *x = (struct dt_exchange){0};
}

static dt_status begin(struct dt_exchange *x, struct dt_stream *stream)
{
    bool with_product = x->sums_product;
    x->sums_product = false;
    if (with_product)
        return dt_stream_wait(x->group.network, x->product);
    return dt_stream_follow(x->group.network, stream);
}

dt_status dt_all_reduce_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                              void *buffer, size_t count_elems, enum dt_dtype dtype)
{
    DT_TRY(begin(x, stream));
    DT_TRY(dt_all_reduce(among, buffer, count_elems, dtype, DT_SUM, x->group.network));
    return dt_event_record(x->done[slot], x->group.network);
}

dt_status dt_reduce_scatter_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                                  void *all, void *own, size_t count_elems, enum dt_dtype dtype)
{
    DT_TRY(begin(x, stream));
    DT_TRY(dt_reduce_scatter(among, all, own, count_elems, dtype, DT_SUM, x->group.network));
    return dt_event_record(x->done[slot], x->group.network);
}

dt_status dt_all_gather_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                              const void *own, void *all, size_t count_elems, enum dt_dtype dtype)
{
    DT_TRY(begin(x, stream));
    DT_TRY(dt_all_gather(among, own, all, count_elems, dtype, x->group.network));
    return dt_event_record(x->done[slot], x->group.network);
}

dt_status dt_shift_begin(struct dt_exchange *x, enum dt_exchange_slot slot, struct dt_stream *stream, const void *send, void *receive,
                         size_t count_elems, enum dt_dtype dtype)
{
    DT_TRY(begin(x, stream));
    DT_TRY(dt_shift(x->context.comm, send, receive, count_elems, dtype, x->group.network));
    return dt_event_record(x->done[slot], x->group.network);
}

dt_status dt_heads_exchange_begin(struct dt_exchange *x, struct dt_stream *stream, const void *from, void *to, size_t count_elems,
                                  enum dt_dtype dtype)
{
    DT_TRY(begin(x, stream));
    DT_TRY(dt_all_to_all(x->context.comm, from, to, count_elems / (size_t)dt_comm_size(x->context.comm), dtype, x->group.network));
    return dt_event_record(x->done[DT_EXCHANGE_KEYS], x->group.network);
}

dt_status dt_exchange_product_begin(struct dt_exchange *x, struct dt_stream *stream)
{
    return x->product ? dt_event_record(x->product, stream) : DT_OK;
}

dt_status dt_exchange_product_end(struct dt_exchange *x)
{
    bool waits = x->input_comes;
    x->input_comes = false;
    return waits ? dt_exchange_wait(x, DT_EXCHANGE_INPUT) : DT_OK;
}

dt_status dt_exchange_wait(struct dt_exchange *x, enum dt_exchange_slot slot)
{
    return x->group.wait(x->group.context, x->done[slot]);
}
