/* Each function calls the device's backend, inside a span. */
#include "lib/device/span.h"
#include "lib/kernels/backend.h"

dt_status dt_kernels_init(struct dt_kernels *k, struct dt_device *device, enum dt_dtype dtype)
{
    static const struct dt_kernel_backend *const backends[DT_DEVICE_KINDS] = {
        [DT_DEVICE_CPU] = &dt_kernels_cpu, [DT_DEVICE_CUDA] = &dt_kernels_cuda, [DT_DEVICE_SIM] = &dt_kernels_sim};
    *k = (struct dt_kernels){.backend = backends[dt_device_kind_of(device)->index], .device = device, .dtype = dtype, .rate = 1};
    return k->backend->init ? k->backend->init(k) : DT_OK;
}

void dt_kernels_finish(struct dt_kernels *k)
{
    if (k->backend && k->backend->finish)
        k->backend->finish(k);
    k->backend = NULL;
}

/* Queue `call` between the begin and the end of a span. */
#define SPAN(name, on_host, call)                                                                                                          \
    do {                                                                                                                                   \
        DT_TRY(dt_span_begin(stream, name, DT_SPAN_COMPUTE, 0, NULL));                                                                     \
        DT_TRY((on_host ? k->backend->host : k->backend->calls)->call);                                                                    \
        return dt_span_end(stream);                                                                                                        \
    } while (0)

dt_status dt_kernels_begin_step(struct dt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int step)
{
    k->first_sample = first_sample;
    SPAN("begin_step", false, begin_step(k, stream, step));
}

dt_status dt_kernels_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    *to = 0;
    return k->backend->calls->overflows(k, stream, to); /* a copy, which is a span itself */
}

dt_status dt_kernels_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                                 size_t count)
{
    SPAN(on_host ? "squares_host" : "squares", on_host, add_squares(k, stream, on_host, dtype, x, count));
}

dt_status dt_kernels_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to)
{
    SPAN("sum_squares", on_host, sum_squares(k, stream, on_host, to));
}

dt_status dt_kernels_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                 const float *squares)
{
    SPAN("settle_norm", on_host, settle_norm(k, stream, on_host, rule, squares));
}

dt_status dt_kernels_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to)
{
    return k->backend->calls->norm(k, stream, to); /* a copy, which is a span itself */
}

dt_status dt_kernels_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from)
{
    return k->backend->calls->set_norm(k, stream, from);
}

dt_status dt_kernels_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                             enum dt_dtype from_dtype, size_t count)
{
    SPAN(to_dtype == DT_FP32 ? "widen" : "narrow", false, convert(k, stream, to, to_dtype, from, from_dtype, count));
}

dt_status dt_kernels_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    const char *device = u->adam ? "adam" : "sgd", *host = u->adam ? "adam_host" : "sgd_host";
    SPAN(u->on_host ? host : device, u->on_host, update(k, stream, u));
}

dt_status dt_kernels_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count)
{
    SPAN(on_host ? "add_host" : "add", on_host, add(k, stream, on_host, to, from, count));
}

dt_status dt_kernels_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype,
                              const void *from, size_t count)
{
    SPAN(on_host ? "add_host" : "add", on_host, add_wide(k, stream, on_host, to, dtype, from, count));
}

dt_status dt_kernels_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    SPAN("fill", false, fill(k, stream, to, count, value));
}

dt_status dt_kernels_initialise(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *initial)
{
    if (initial->init == DT_INIT_ZERO || initial->init == DT_INIT_ONE)
        return dt_kernels_fill(k, stream, initial->to, initial->count, initial->init == DT_INIT_ONE ? 1 : 0);
    SPAN("draw", false, draw(k, stream, initial));
}
