/* The cuda device's kernels: the object and the table. */
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
    char name[GPT_CUBLASLT_NAME_BYTES];
    gpt_cublaslt_name(&lt, name);
    snprintf(text, text_bytes, "%s", name);
    return true;
}

static void cuda_destroy(struct gpt_kernels *k)
{
    if (!k)
        return;
    gpt_cuda_linear_destroy(k);
    dt_cuda_own_free(k->base->device, k->rope);
    dt_cuda_scratch_free(k->base->device, &k->scratch);
    dt_cuda_own_free(k->base->device, k->arrivals);
    free(k);
}

DT_DESTROYS(cuda_destroy, struct gpt_kernels)

/* Write the data that kernels expect in device memory. */
static dt_status fill_memory(struct gpt_kernels *k)
{
    struct dt_stream *stream;
    DT_TRY(dt_stream_create(k->base->device, "kernels", &stream));
    dt_status status = dt_zero(stream, k->arrivals, GPT_CUDA_ARRIVALS * sizeof *k->arrivals);
    DT_THEN(status, gpt_cuda_rope_create(k, stream));
    DT_THEN(status, dt_stream_synchronize(stream));
    dt_stream_destroy(stream);
    return status;
}

static dt_status cuda_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    *out = NULL;
    DT_DESTROYED(cuda_destroy) struct gpt_kernels *k = calloc(1, sizeof *k);
    DT_TRY(dt_allocated(k, "cuda kernels: no host memory"));
    k->model = *model;
    k->base = base;
    void *arrivals = NULL;
    DT_TRY(gpt_cuda_attention_check(k));
    DT_TRY(dt_cuda_own_alloc(base->device, GPT_CUDA_ARRIVALS * sizeof *k->arrivals, &arrivals));
    k->arrivals = arrivals;
    DT_TRY(fill_memory(k));
    DT_TRY(gpt_cuda_linear_create(k));
    DT_TRY(gpt_cuda_try_hopper(k));
    *out = DT_PASSED_ON(k);
    return DT_OK;
}

#define ROW(entry, ...) .entry = gpt_cuda_##entry,
const struct gpt_kernel_table gpt_kernels_cuda = {.name = "cuda",
                                                  .available = cuda_available,
                                                  .create = cuda_create,
                                                  .destroy = cuda_destroy,
                                                  .use_tuning = gpt_cuda_use_tuning,
                                                  .tuned = gpt_cuda_tuned,
                                                  GPT_FUSED_KERNELS(ROW) GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};
