/* The linear layers' entries: each is one product of cuBLASLt with what belongs to it as its epilogue, or beside it in kernels of our own
 * where cuBLASLt has no such epilogue for a shape, or where that has been timed to be faster.
 *
 * The floor of each is 2 m n k operations on the tensor cores; operands and result are read and written once. */
#include "gpt/cuda/linear_plan.h"

#include <stdlib.h>

dt_status gpt_cuda_linear_create(struct gpt_kernels *k)
{
    struct gpt_cuda_linear *linear = calloc(1, sizeof *linear);
    if (!linear)
        return dt_fail(DT_ERR_HOST_MEMORY, "cuda kernels: no host memory");
    k->linear = linear;
    dt_status status = gpt_cublaslt_load(&linear->lt);
    if (status < 0)
        goto fail;
    cublasStatus_t created = linear->lt.create(&linear->handle);
    if (created != CUBLAS_STATUS_SUCCESS) {
        status = dt_fail(DT_ERR_DEVICE, "cuBLASLt cannot start: %s", linear->lt.get_status_string(created));
        goto fail;
    }
    status = dt_cuda_own_alloc(k->device, GPT_CUDA_WORKSPACE_BYTES, &linear->workspace);
    if (status < 0)
        goto fail;
    status = dt_event_create_timed(k->device, &linear->start);
    if (status < 0)
        goto fail;
    status = dt_event_create_timed(k->device, &linear->end);
    if (status < 0)
        goto fail;
    return DT_OK;
fail:
    gpt_cuda_linear_destroy(k);
    return status;
}

void gpt_cuda_linear_destroy(struct gpt_kernels *k)
{
    struct gpt_cuda_linear *linear = k->linear;
    if (!linear)
        return;
    gpt_cuda_plans_destroy(linear);
    dt_event_destroy(linear->start);
    dt_event_destroy(linear->end);
    dt_cuda_own_free(k->device, linear->workspace);
    if (linear->handle)
        linear->lt.destroy(linear->handle);
    free(linear);
    k->linear = NULL;
}

/* ---- the epilogue in the product, or apart from it ---- */

struct run {
    struct gpt_kernels *k;
    struct dt_stream *stream;
    struct gpt_cuda_plan *plan;
    const struct gpt_cuda_product *product;
};

static dt_status run_together(void *context)
{
    struct run *r = context;
    return gpt_cuda_plan_run(r->k, r->stream, r->plan, r->product);
}

/* d is m x n column-major, that is n rows of m here; op(b) of a weight gradient is dy [k, n]. */
static dt_status run_apart(void *context)
{
    struct run *r = context;
    const struct gpt_cuda_product *p = r->product;
    struct gpt_cuda_product plain = *p;
    struct gpt_cuda_plan *plan;
    plain.epilogue = GPT_CUDA_PLAIN;
    DT_TRY(gpt_cuda_plan_find(r->k, r->stream, &plain, &plan)); /* may try algorithms on d, and so comes before the bias */
    if (p->epilogue == GPT_CUDA_BIAS) {
        DT_TRY(gpt_cuda_repeat_row(r->k, r->stream, p->d, p->bias, p->n, p->m));
        plain.accumulate = true;
    }
    DT_TRY(gpt_cuda_plan_run(r->k, r->stream, plan, &plain));
    switch (p->epilogue) {
    case GPT_CUDA_BIAS_GRADIENT: return gpt_cuda_column_sums(r->k, r->stream, p->bias_gradient, p->b, p->k, p->n, false);
    case GPT_CUDA_GELU_GRADIENT: return gpt_cuda_gelu_gradient(r->k, r->stream, &(struct gpt_gelu_gradient){p->d, p->hidden, p->m * p->n});
    default: return DT_OK;
    }
}

/* Whether the epilogue's work is done apart, once and for all. A bias that is added costs cuBLASLt nothing; of the others both ways are
 * timed. In a capture nothing can be. */
static dt_status decide(struct run *r)
{
    int64_t together_ns, apart_ns;
    r->plan->apart = !r->plan->possible;
    if (r->plan->possible && r->product->epilogue != GPT_CUDA_BIAS && !dt_cuda_capturing(r->k->device)) {
        DT_TRY(gpt_cuda_time_ns(r->k, r->stream, run_together, r, &together_ns));
        DT_TRY(gpt_cuda_time_ns(r->k, r->stream, run_apart, r, &apart_ns));
        r->plan->apart = apart_ns < together_ns;
    }
    r->plan->decided = true;
    return DT_OK;
}

static dt_status run(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_product *product)
{
    struct run r = {.k = k, .stream = stream, .product = product};
    DT_TRY(gpt_cuda_plan_find(k, stream, product, &r.plan));
    if (product->epilogue == GPT_CUDA_PLAIN)
        return run_together(&r);
    if (!r.plan->decided)
        DT_TRY(decide(&r));
    return r.plan->apart ? run_apart(&r) : run_together(&r);
}

/* ---- the entries ---- */

GPT_KERNEL_FUNCTION(gpt_cuda_linear, gpt_linear)
{
    struct gpt_cuda_product product = gpt_cuda_product_forward(a);
    return run(k, stream, &product);
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_input_gradient, gpt_linear_input_gradient)
{
    struct gpt_cuda_product product = gpt_cuda_product_input_gradient(a);
    return run(k, stream, &product);
}

/* cuBLASLt's epilogue has GELU's tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), whose derivative is off by at most 8.7e-4.
 * Over hidden values that are spread evenly or normally, whatever their scale, that is at most 6e-4 of the gradient's norm: a sixth of what
 * rounding to bf16 may cost (2^-8), but more than rounding to fp16 may (2^-11). So bf16 takes it where it is faster, and fp16 and fp32 have
 * the exact derivative from a kernel of their own. */
GPT_KERNEL_FUNCTION(gpt_cuda_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    struct gpt_cuda_product product = gpt_cuda_product_gelu_input_gradient(a);
    struct run r = {.k = k, .stream = stream, .product = &product};
    return k->model.dtype == DT_BF16 ? run(k, stream, &product) : run_apart(&r);
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_weight_gradient, gpt_linear_weight_gradient)
{
    struct gpt_cuda_product product = gpt_cuda_product_weight_gradient(a);
    DT_TRY(run(k, stream, &product));
    if (!a->db || product.epilogue == GPT_CUDA_BIAS_GRADIENT)
        return DT_OK;
    return gpt_cuda_column_sums(k, stream, a->db, a->dy, a->rows, a->out, true);
}
