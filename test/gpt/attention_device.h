/* What the tests of attention do with a device's kernels: one body for every kind of device. */
#pragma once

#include "gpt/position.h"
#include "test/gpt/attention_problem.h"
#include "test/lib/device/device_kind.h"

static struct dt_device *device;
static struct dt_stream *stream;
static const struct gpt_kernel_table *table;
static struct dt_kernels base;
/* Of warpgroups there are kernels for fused attention alone. */
static enum dt_warpgroup_kernels warpgroups = DT_WARPGROUPS_NEVER;

static inline dt_status create_kernels(const struct dt_model *model, struct gpt_kernels **out)
{
    DT_TRY(dt_kernels_init(&base, device, model->dtype));
    return table->create(&base, model, out);
}

static inline void destroy_kernels(struct gpt_kernels *k)
{
    table->destroy(k);
    dt_kernels_finish(&base);
}

static inline bool begin(void)
{
    struct dt_device_options options = {.threads = 2, .warpgroup_kernels = warpgroups};
    dt_status status = dt_device_create(test_device_kind(), &options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    CHECK_OK(dt_stream_create(device, "compute", &stream));
    table = gpt_kernels_for(dt_device_kind_find(test_device_kind()));
    CHECK(table != NULL);
    return true;
}

static inline void end(void)
{
    CHECK_OK(dt_stream_synchronize(stream));
    dt_stream_destroy(stream);
    dt_device_destroy(device);
}

/* A buffer of the device with these bytes of the host's. */
static inline struct dt_buffer on_device(const void *from, size_t bytes)
{
    struct dt_buffer buffer;
    CHECK_OK(dt_alloc(stream, DT_WORKSPACE, bytes, &buffer));
    if (bytes > 0)
        CHECK_OK(dt_copy_from_host(stream, buffer.data, from, bytes));
    return buffer;
}

static inline void back(struct dt_buffer *buffer, void *to)
{
    if (buffer->bytes > 0)
        CHECK_OK(dt_copy_to_host(stream, to, buffer->data, buffer->bytes));
    CHECK_OK(dt_stream_synchronize(stream));
    dt_free(stream, buffer);
}

/* Samples first to first + count of the problem, forward and backward, into their places of the
 * result. The step's own first sample is the problem's but for one, so that both count. */
static inline void run_part(const struct problem *p, struct result *r, size_t first, size_t count)
{
    size_t T = (size_t)gpt_of(&p->model)->block_size, d = (size_t)gpt_of(&p->model)->hidden, bytes = dt_dtype_bytes(p->model.dtype);
    size_t place = first * T * d * bytes, size = count * T * d * bytes, heads = (size_t)gpt_of(&p->model)->heads;
    size_t wide_row = T * (size_t)gpt_qkv_features(&p->model) * bytes, wide_place = first * wide_row, wide_size = count * wide_row;
    struct gpt_dropout dropout = p->dropout;
    dropout.first_sample = 1 + (uint32_t)first;
    char *lse_place = r->lse ? (char *)(r->lse + first * heads * T) : NULL;
    char *weights_place = r->weights ? (char *)r->weights + first * heads * T * T * bytes : NULL;
    struct gpt_kernels *k;
    CHECK_OK(create_kernels(&p->model, &k));
    CHECK_OK(dt_kernels_begin_step(&base, stream, p->dropout.first_sample - 1, 1));
    struct dt_buffer qkv = on_device((char *)p->qkv_memory + wide_place, wide_size), dout = on_device((char *)p->dout_memory + place, size);
    struct dt_buffer out = on_device((char *)r->out + place, size), dqkv = on_device((char *)r->dqkv + wide_place, wide_size);
    struct dt_buffer lse = on_device(lse_place, r->lse ? count * heads * T * sizeof(float) : 0);
    struct dt_buffer weights = on_device(weights_place, r->weights ? count * heads * T * T * bytes : 0);
    CHECK_OK(table->attention(k, stream,
                              &(struct gpt_attention_forward){.qkv = qkv.data,
                                                              .out = out.data,
                                                              .lse = lse.data,
                                                              .weights = weights.data,
                                                              .samples = count,
                                                              .heads = {0, heads},
                                                              .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                                              .dropout = dropout}));
    struct gpt_attention_backward backward = {.dout = dout.data,
                                              .out = out.data,
                                              .qkv = qkv.data,
                                              .lse = lse.data,
                                              .weights = weights.data,
                                              .dqkv = dqkv.data,
                                              .samples = count,
                                              .heads = {0, heads},
                                              .kv_heads = {0, (size_t)gpt_kv_heads(&p->model)},
                                              .dropout = dropout};
    bool turns = gpt_of(&p->model)->position == GPT_POSITION_ROPE;
    CHECK_OK((turns ? table->attention_rope_gradient : table->attention_gradient)(k, stream, &backward));
    back(&out, (char *)r->out + place);
    back(&dqkv, (char *)r->dqkv + wide_place);
    back(&lse, lse_place);
    back(&weights, weights_place);
    dt_free(stream, &qkv);
    dt_free(stream, &dout);
    CHECK_OK(dt_stream_synchronize(stream));
    destroy_kernels(k);
}
