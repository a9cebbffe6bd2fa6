/* The linear layers' entries: each is one product of cuBLASLt with its bias as the epilogue. If
 * cuBLASLt lacks the epilogue for a shape, separate kernels here do its work.
 *
 * The floor of each is 2 m n k operations on the tensor cores; operands and result are read and
 * written once. */
#include "gpt/cuda/linear_plan.h"

#include <stdlib.h>
#include <string.h>

dt_status gpt_cuda_linear_create(struct gpt_kernels *k)
{
    struct gpt_cuda_linear *linear = calloc(1, sizeof *linear);
    DT_TRY(dt_allocated(linear, "cuda kernels: no host memory"));
    k->linear = linear;
    linear->most_named = GPT_CUDA_NAMED_FOR_A_RUN;
    DT_TRY(gpt_cublaslt_load(&linear->lt));
    cublasStatus_t created = linear->lt.create(&linear->handle);
    if (created != CUBLAS_STATUS_SUCCESS)
        return dt_fail(DT_ERR_DEVICE, "cuBLASLt cannot start: %s", linear->lt.get_status_string(created));
    return dt_cuda_own_alloc(k->base->device, GPT_CUDA_WORKSPACE_BYTES, &linear->workspace);
}

void gpt_cuda_linear_destroy(struct gpt_kernels *k)
{
    struct gpt_cuda_linear *linear = k->linear;
    if (!linear)
        return;
    gpt_cuda_plans_destroy(linear);
    dt_cuda_own_free(k->base->device, linear->workspace);
    if (linear->handle)
        linear->lt.destroy(linear->handle);
    free(linear);
    k->linear = NULL;
}

/* ---- tuned algorithms ---- */

dt_status gpt_cuda_use_tuning(struct gpt_kernels *k, const struct dt_tuning *tuning)
{
    struct dt_device_info info;
    struct gpt_cuda_linear *linear = k->linear;
    dt_device_info(k->base->device, &info);
    memcpy(linear->gpu, info.name, sizeof info.name);
    gpt_cublaslt_name(&linear->lt, linear->library);
    DT_TRY(gpt_tuning_check(tuning, linear->gpu, linear->library));
    linear->tuning = tuning;
    return DT_OK;
}

void gpt_cuda_tuned(const struct gpt_kernels *k, struct dt_tuned *out)
{
    *out = (struct dt_tuned){0};
    for (const struct gpt_cuda_plan *plan = k->linear->plans; plan; plan = plan->next) {
        out->products += gpt_cuda_plan_is_possible(plan);
        out->decided += plan->decided && plan->refused == 0;
    }
}

/* ---- the epilogue fused with the product, or separate ---- */

/* d is m x n column-major, which is n rows of m here; op(b) of a weight gradient is dy [k, n]. */
static dt_status run_apart(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_product *p)
{
    struct gpt_cuda_product plain = gpt_cuda_product_apart(p);
    struct gpt_cuda_plan *plan;
    DT_TRY(gpt_cuda_plan_find(k, &plain, &plan));
    if (p->epilogue == GPT_CUDA_BIAS) {
        DT_TRY(dt_cuda_repeat_row(k->base, stream, p->d, p->bias, p->n, p->m));
        plain.accumulate = true;
    }
    DT_TRY(gpt_cuda_plan_run(k, stream, plan, &plain));
    return p->epilogue == GPT_CUDA_BIAS_GRADIENT ? gpt_cuda_column_sums(k, stream, p->bias_gradient, p->b, p->k, p->n, false) : DT_OK;
}

/* *ran false: cuBLASLt lacks the epilogue for this shape, and nothing is queued. */
static dt_status run_in_one(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_product *product, bool *ran)
{
    struct gpt_cuda_plan *plan;
    DT_TRY(gpt_cuda_plan_find(k, product, &plan));
    dt_status status = gpt_cuda_plan_is_possible(plan) ? gpt_cuda_plan_run(k, stream, plan, product) : DT_OK;
    *ran = gpt_cuda_plan_is_possible(plan);
    return *ran || product->epilogue == GPT_CUDA_PLAIN ? status : DT_OK;
}

static dt_status run(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_product *product)
{
    bool ran;
    DT_TRY(run_in_one(k, stream, product, &ran));
    return ran ? DT_OK : run_apart(k, stream, product);
}

/* ---- the entries ---- */

GPT_KERNEL_FUNCTION(gpt_cuda_linear, gpt_linear)
{
    struct gpt_cuda_product product = gpt_cuda_product_forward(a);
    return run(k, stream, &product);
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_residual, gpt_linear_residual)
{
    struct gpt_linear plain = a->linear;
    bool ran = false;
    if (a->active) {
        DT_TRY(gpt_cuda_gelu(k, stream, &(struct gpt_gelu){a->active, plain.x, plain.rows * plain.in}));
        plain.x = a->active;
    }
    struct gpt_cuda_product sum = gpt_cuda_product_residual(a, plain.x);
    if (a->dropout.probability == 0 && ((uintptr_t)a->residual - (uintptr_t)plain.y) % 16 == 0)
        DT_TRY(run_in_one(k, stream, &sum, &ran));
    if (ran)
        return DT_OK;
    DT_TRY(gpt_cuda_linear(k, stream, &plain));
    return gpt_cuda_dropout_residual(k, stream, &(struct gpt_dropout_residual){a->residual, plain.y, plain.y, plain.rows, a->dropout});
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_input_gradient, gpt_linear_input_gradient)
{
    struct gpt_cuda_product product = gpt_cuda_product_input_gradient(a);
    return run(k, stream, &product);
}

/* cuBLASLt's epilogues have only GELU's tanh form. The exact form is a separate kernel in every
 * dtype, because the derivative of the tanh form differs by more than the rounding of fp16. relu is
 * an epilogue of cuBLASLt; its result for NaN is not documented. */
GPT_KERNEL_FUNCTION(gpt_cuda_linear_gelu, gpt_linear_gelu)
{
    const struct gpt_linear *linear = &a->linear;
    bool ran = false, relu = a->active == linear->y;
    struct gpt_cuda_product product = relu ? gpt_cuda_product_relu(linear) : gpt_cuda_product_gelu(a);
    if (relu || gpt_cuda_product_takes_gelu(&k->model, linear->out, linear->y))
        DT_TRY(run_in_one(k, stream, &product, &ran));
    if (ran)
        return DT_OK;
    DT_TRY(gpt_cuda_linear(k, stream, linear));
    return gpt_cuda_gelu(k, stream, &(struct gpt_gelu){a->active, linear->y, linear->rows * linear->out});
}

/* *ran false: the product was computed without GELU's gradient. */
static dt_status gelu_gradient_product(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_linear_gelu_input_gradient *a,
                                       void *db, bool *ran)
{
    struct gpt_cuda_product product = gpt_cuda_product_gelu_gradient(a, db);
    *ran = false;
    if (gpt_cuda_product_takes_gelu(&k->model, a->linear.in, a->hidden))
        DT_TRY(run_in_one(k, stream, &product, ran));
    return *ran ? DT_OK : gpt_cuda_linear_input_gradient(k, stream, &a->linear);
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    struct gpt_gelu_gradient_sums alone = {.product = *a};
    bool ran;
    if (gpt_cuda_gelu_gradient_fits(k, &alone))
        return gpt_cuda_gelu_gradient_in_one(k, stream, &alone);
    DT_TRY(gelu_gradient_product(k, stream, a, NULL, &ran));
    return ran ? DT_OK
               : gpt_cuda_gelu_gradient(k, stream, &(struct gpt_gelu_gradient){a->linear.dx, a->hidden, a->linear.rows * a->linear.in});
}

/* The sums are made together with dx, so the weight gradient is a plain product. An epilogue cannot
 * add to old sums. */
GPT_KERNEL_FUNCTION(gpt_cuda_gelu_gradient_sums, gpt_gelu_gradient_sums)
{
    const struct gpt_linear_input_gradient *p = &a->product.linear;
    const void *hidden = a->product.hidden;
    bool ran;
    if (gpt_cuda_gelu_gradient_fits(k, a))
        return gpt_cuda_gelu_gradient_in_one(k, stream, a);
    DT_TRY(gelu_gradient_product(k, stream, &a->product, a->accumulate ? NULL : a->db, &ran));
    if (!ran)
        return gpt_cuda_gelu_gradient_sums_of(k, stream, p->dx, hidden, a->db, a->active, p->rows, p->in, a->accumulate);
    if (a->active)
        DT_TRY(gpt_cuda_gelu(k, stream, &(struct gpt_gelu){a->active, hidden, p->rows * p->in}));
    return a->db && a->accumulate ? gpt_cuda_column_sums(k, stream, a->db, p->dx, p->rows, p->in, true) : DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_weight_gradient, gpt_linear_weight_gradient)
{
    struct gpt_cuda_product product = gpt_cuda_product_weight_gradient(a);
    DT_TRY(run(k, stream, &product));
    if (!a->db || product.epilogue == GPT_CUDA_BIAS_GRADIENT)
        return DT_OK;
    return gpt_cuda_column_sums(k, stream, a->db, a->dy, a->rows, a->out, true);
}

GPT_KERNEL_FUNCTION(gpt_cuda_linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient)
{
    struct gpt_linear_weight_gradient plain = a->linear;
    plain.x = a->active;
    DT_TRY(gpt_cuda_gelu(k, stream, &(struct gpt_gelu){a->active, a->linear.x, plain.rows * plain.in}));
    return gpt_cuda_linear_weight_gradient(k, stream, &plain);
}
