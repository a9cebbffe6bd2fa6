/* The cuda device's table of kernels. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>

static bool cuda_available(char *text, size_t text_bytes)
{
    struct gpt_cublaslt lt;
    if (gpt_cublaslt_load(&lt) < 0) {
        snprintf(text, text_bytes, "%s", dt_error_message());
        return false;
    }
    size_t version = lt.get_version();
    snprintf(text, text_bytes, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return true;
}

static void cuda_destroy(struct gpt_kernels *k)
{
    if (!k)
        return;
    gpt_cuda_linear_destroy(k);
    dt_cuda_own_free(k->device, k->scratch);
    dt_cuda_own_free(k->device, k->step);
    free(k);
}

/* As before the first step. */
static dt_status first_step(struct gpt_kernels *k)
{
    struct dt_stream *stream;
    DT_TRY(dt_stream_create(k->device, "kernels", &stream));
    dt_status status = gpt_cuda_begin_step(k, stream, 0, 1);
    if (status == DT_OK)
        status = dt_stream_synchronize(stream);
    dt_stream_destroy(stream);
    return status;
}

static dt_status cuda_create(struct dt_device *device, const struct gpt_model *model, struct gpt_kernels **out)
{
    *out = NULL;
    struct gpt_kernels *k = calloc(1, sizeof *k);
    if (!k)
        return dt_fail(DT_ERR_HOST_MEMORY, "cuda kernels: no host memory");
    k->model = *model;
    k->device = device;
    k->multiprocessors = dt_cuda_multiprocessors(device);
    void *step;
    dt_status status = dt_cuda_own_alloc(device, sizeof *k->step, &step);
    if (status < 0)
        goto fail;
    k->step = step;
    status = first_step(k);
    if (status == DT_OK)
        status = gpt_cuda_linear_create(k);
    if (status < 0)
        goto fail;
    *out = k;
    return DT_OK;
fail:
    cuda_destroy(k);
    return status;
}

dt_status gpt_cuda_scratch(struct gpt_kernels *k, size_t bytes)
{
    enum { UNIT = 1 << 20 };
    if (bytes <= k->scratch_bytes)
        return DT_OK;
    if (dt_cuda_capturing(k->device))
        return dt_fail(DT_ERR_INVALID, "cuda kernels: %zu bytes of scratch are first asked for while a graph is captured", bytes);
    dt_cuda_own_free(k->device, k->scratch);
    k->scratch = NULL;
    k->scratch_bytes = 0;
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    DT_TRY(dt_cuda_own_alloc(k->device, bytes, &k->scratch));
    k->scratch_bytes = bytes;
    return DT_OK;
}

const struct gpt_kernel_table gpt_kernels_cuda = {
    .name = "cuda",
    .available = cuda_available,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .begin_step = gpt_cuda_begin_step,
    .step_overflows = gpt_cuda_step_overflows,
    .init_normal = gpt_cuda_init_normal,
    .fill = gpt_cuda_fill,
    .tokens = gpt_cuda_tokens,
    .embedding = gpt_cuda_embedding,
    .embedding_gradient = gpt_cuda_embedding_gradient,
    .layer_norm = gpt_cuda_layer_norm,
    .layer_norm_gradient = gpt_cuda_layer_norm_gradient,
    .linear = gpt_cuda_linear_forward,
    .linear_input_gradient = gpt_cuda_linear_input_gradient,
    .linear_gelu_input_gradient = gpt_cuda_linear_gelu_input_gradient,
    .linear_weight_gradient = gpt_cuda_linear_weight_gradient,
    .gelu = gpt_cuda_gelu,
    .gelu_gradient = gpt_cuda_gelu_gradient,
    .attention = gpt_cuda_attention,
    .attention_gradient = gpt_cuda_attention_gradient,
    .dropout_residual = gpt_cuda_dropout_residual,
    .dropout_gradient = gpt_cuda_dropout_gradient,
    .loss = gpt_cuda_loss,
    .sgd = gpt_cuda_sgd,
    .adam = gpt_cuda_adam,
    .add = gpt_cuda_add,
    .kept_bytes = gpt_kernels_keep_nothing,
    .output_bytes = gpt_kernels_hold_nothing,
    .sgd_host = gpt_cuda_sgd_host,
    .adam_host = gpt_cuda_adam_host,
    .add_host = gpt_cuda_add_host,
};
