#include "vision/exchange.h"

dt_status vision_exchange_init(struct vision_exchange *x, const struct dt_stage_options *options, struct dt_device *device)
{
    *x = (struct vision_exchange){.comm = options->together, .group = options->tensor};
    return x->comm ? dt_event_create(device, &x->done) : DT_OK;
}

void vision_exchange_finish(struct vision_exchange *x)
{
    dt_event_destroy(x->done);
    *x = (struct vision_exchange){0};
}

size_t vision_exchange_ranks(const struct vision_exchange *x)
{
    return x->comm ? (size_t)dt_comm_size(x->comm) : 1;
}

float *vision_exchange_own(const struct vision_exchange *x, float *all, size_t count)
{
    return all + (size_t)dt_comm_rank(x->comm) * count;
}

static dt_status end(struct vision_exchange *x)
{
    DT_TRY(dt_event_record(x->done, x->group.network));
    return x->group.wait(x->group.context, x->done);
}

dt_status vision_exchange_gather(struct vision_exchange *x, float *all, size_t count, struct dt_stream *stream)
{
    DT_TRY(dt_stream_follow(x->group.network, stream));
    DT_TRY(dt_all_gather(x->comm, vision_exchange_own(x, all, count), all, count, DT_FP32, x->group.network));
    return end(x);
}

dt_status vision_exchange_sum(struct vision_exchange *x, float *numbers, size_t count, struct dt_stream *stream)
{
    DT_TRY(dt_stream_follow(x->group.network, stream));
    DT_TRY(dt_all_reduce(x->comm, numbers, count, DT_FP32, DT_SUM, x->group.network));
    return end(x);
}
