#include "gpt/cuda/linear_plan.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == GPT_ALGORITHM_BYTES, "a tuning's file has another number of bytes for an algorithm");

static dt_status failed(const struct gpt_cuda_linear *linear, cublasStatus_t status, const char *what,
                        const struct gpt_cuda_product_shape *s)
{
    return dt_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? DT_ERR_OOM : DT_ERR_DEVICE, "cuBLASLt: %s [%zu, %zu] x [%zu, %zu]: %s", what,
                   s->m, s->k, s->k, s->n, linear->lt.get_status_string(status));
}

/* ---- descriptions ---- */

static cudaDataType_t data_type(enum dt_dtype dtype)
{
    return dtype == DT_FP32 ? CUDA_R_32F : dtype == DT_FP16 ? CUDA_R_16F : CUDA_R_16BF;
}

static const struct epilogue {
    cublasLtEpilogue_t name;
    bool extra, gelu_input; /* the arrays that the epilogue has */
} epilogues[GPT_CUDA_EPILOGUE_COUNT] = {
    [GPT_CUDA_PLAIN] = {CUBLASLT_EPILOGUE_DEFAULT, false, false},
    [GPT_CUDA_BIAS] = {CUBLASLT_EPILOGUE_BIAS, true, false},
    [GPT_CUDA_BIAS_GRADIENT] = {CUBLASLT_EPILOGUE_BGRADB, true, false}, /* sums over k, of the second operand */
    [GPT_CUDA_RELU] = {CUBLASLT_EPILOGUE_RELU, false, false},
    [GPT_CUDA_BIAS_RELU] = {CUBLASLT_EPILOGUE_RELU_BIAS, true, false},
    [GPT_CUDA_GELU] = {CUBLASLT_EPILOGUE_GELU_AUX, false, true},
    [GPT_CUDA_BIAS_GELU] = {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true},
    [GPT_CUDA_GELU_GRADIENT] = {CUBLASLT_EPILOGUE_DGELU, false, true},
    [GPT_CUDA_GELU_BIAS_GRADIENT] = {CUBLASLT_EPILOGUE_DGELU_BGRAD, true, true},
};

/* The epilogue's arrays. The heuristic reads their alignment from the addresses. */
static cublasStatus_t set_arrays(const struct gpt_cublaslt *lt, const struct gpt_cuda_plan *plan, const void *extra, const void *gelu_input)
{
    const struct epilogue *epilogue = &epilogues[plan->shape.epilogue];
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (epilogue->extra)
        status = lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &extra, sizeof extra);
    if (epilogue->gelu_input && status == CUBLAS_STATUS_SUCCESS)
        status = lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &gelu_input, sizeof gelu_input);
    return status;
}

/* Sums are fp32 in every dtype. fp32 operands are multiplied in fp32, not in TF32 with its 10 bits,
 * because this dtype is for comparisons with the CPU. */
static cublasStatus_t describe(const struct gpt_cublaslt *lt, struct gpt_cuda_plan *plan, const struct gpt_cuda_product *p,
                               const struct gpt_kernels *k)
{
    enum dt_dtype dtype = k->model.dtype;
    int32_t multiprocessors = dt_cuda_product_multiprocessors(k->base->device);
    cudaDataType_t type = data_type(dtype);
    cublasOperation_t op_a = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogues[p->epilogue].name;
    int64_t gelu_rows = (int64_t)p->m;
    size_t rows_a = gpt_cuda_product_stored_rows_a(p), rows_b = gpt_cuda_product_stored_rows_b(p);

    cublasStatus_t status = lt->matmul_desc_create(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    DT_THEN(status, lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    DT_THEN(status, lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    DT_THEN(status, lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (status == CUBLAS_STATUS_SUCCESS && multiprocessors < dt_cuda_multiprocessors(k->base->device))
        status =
            lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &multiprocessors, sizeof multiprocessors);
    if (status == CUBLAS_STATUS_SUCCESS && epilogues[p->epilogue].gelu_input)
        status = lt->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &gelu_rows, sizeof gelu_rows);
    if (status == CUBLAS_STATUS_SUCCESS) /* addresses with exactly this alignment */
        status = set_arrays(lt, plan, (const void *)(uintptr_t)plan->shape.extra_bytes, (const void *)16);
    DT_THEN(status, lt->matrix_layout_create(&plan->a, type, rows_a, p->transpose_a ? p->m : p->k, (int64_t)rows_a));
    DT_THEN(status, lt->matrix_layout_create(&plan->b, type, rows_b, p->transpose_b ? p->k : p->n, (int64_t)rows_b));
    DT_THEN(status, lt->matrix_layout_create(&plan->d, type, p->m, p->n, (int64_t)p->m));
    return status;
}

static void destroy(const struct gpt_cublaslt *lt, struct gpt_cuda_plan *plan)
{
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->d};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            lt->matrix_layout_destroy(layouts[i]);
    if (plan->operation)
        lt->matmul_desc_destroy(plan->operation);
    free(plan);
}

void gpt_cuda_plans_destroy(struct gpt_cuda_linear *linear)
{
    for (struct gpt_cuda_plan *plan = linear->plans, *next; plan; plan = next) {
        next = plan->next;
        destroy(&linear->lt, plan);
    }
    linear->plans = NULL;
}

/* ---- the choice of an algorithm ---- */

static cublasStatus_t set_preference(const struct gpt_cublaslt *lt, cublasLtMatmulPreference_t preference,
                                     const struct gpt_cuda_product_shape *shape)
{
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint32_t value;
    } all[] = {
        /* sums of a split inner dimension are added in fp32: no rounding in between, and the same
         * order in every run */
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape->a_bytes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape->b_bytes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape->d_bytes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape->d_bytes},
    };
    uint64_t workspace_bytes = GPT_CUDA_WORKSPACE_BYTES;
    cublasStatus_t status =
        lt->matmul_preference_set_attribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes);
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == CUBLAS_STATUS_SUCCESS; i++)
        status = lt->matmul_preference_set_attribute(preference, all[i].attribute, &all[i].value, sizeof all[i].value);
    return status;
}

/* Sets plan->named to the algorithms that the heuristic names, best first; none if it knows none.
 * Nothing is timed, so the same product is computed the same way in every run, bit for bit. */
static cublasStatus_t ask(const struct gpt_cuda_linear *linear, struct gpt_cuda_plan *plan)
{
    const struct gpt_cublaslt *lt = &linear->lt;
    cublasLtMatmulHeuristicResult_t found[GPT_CUDA_MOST_NAMED];
    cublasLtMatmulPreference_t preference = NULL;
    int count = 0;
    cublasStatus_t status = lt->matmul_preference_create(&preference);
    DT_THEN(status, set_preference(lt, preference, &plan->shape));
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = lt->matmul_algo_get_heuristic(linear->handle, plan->operation, plan->a, plan->b, plan->d, plan->d, preference,
                                               linear->most_named, found, &count);
        /* how the heuristic reports that it has none for this combination */
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
            status = CUBLAS_STATUS_SUCCESS;
            count = 0;
        }
    }
    if (preference)
        lt->matmul_preference_destroy(preference);
    for (int i = 0; i < count && plan->named_count < GPT_CUDA_MOST_NAMED; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            plan->named[plan->named_count++] = found[i].algo;
    return status;
}

/* Puts the tuning's algorithm first in plan->named, if the tuning has the product. If cuBLASLt does
 * not accept it, this is an error, because the file is wrong. */
static dt_status ask_tuning(const struct gpt_cuda_linear *linear, struct gpt_cuda_plan *plan, enum dt_dtype dtype)
{
    const struct gpt_listed_product product = {dtype, plan->shape};
    const struct gpt_tuned_product *known = linear->tuning ? gpt_tuning_find(linear->tuning, linear->gpu, linear->library, &product) : NULL;
    cublasLtMatmulHeuristicResult_t result;
    if (!known)
        return DT_OK;
    gpt_algorithm_from_text(known->algorithm, &plan->named[0]);
    cublasStatus_t status =
        linear->lt.matmul_algo_check(linear->handle, plan->operation, plan->a, plan->b, plan->d, plan->d, &plan->named[0], &result);
    DT_THEN(status, result.state);
    if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize > GPT_CUDA_WORKSPACE_BYTES)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status != CUBLAS_STATUS_SUCCESS)
        return dt_fail(
            DT_ERR_DEVICE, "%s: cuBLASLt does not take the algorithm of product [%zu, %zu] x [%zu, %zu] (%s): run dtbench tune again",
            linear->tuning->name, plan->shape.m, plan->shape.k, plan->shape.k, plan->shape.n, linear->lt.get_status_string(status));
    plan->named_count = 1;
    plan->decided = true;
    return DT_OK;
}

static cublasStatus_t multiply(const struct gpt_cuda_linear *linear, struct dt_stream *stream, const struct gpt_cuda_plan *plan,
                               const cublasLtMatmulAlgo_t *algorithm, const struct gpt_cuda_product *p)
{
    const struct gpt_cublaslt *lt = &linear->lt;
    float alpha = 1, beta = p->accumulate ? 1 : 0;
    cublasStatus_t status = set_arrays(lt, plan, gpt_cuda_product_extra(p), p->gelu_input);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return lt->matmul(linear->handle, plan->operation, &alpha, p->a, plan->a, p->b, plan->b, &beta, p->c ? p->c : p->d, plan->d, p->d,
                      plan->d, algorithm, linear->workspace, GPT_CUDA_WORKSPACE_BYTES, dt_cuda_stream(stream));
}

/* Whether cuBLASLt has refused an algorithm. Nothing is queued then. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

dt_status gpt_cuda_plan_try(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_plan *plan, int index,
                            const struct gpt_cuda_product *p, bool *taken)
{
    cublasStatus_t status = multiply(k->linear, stream, plan, &plan->named[index], p);
    *taken = status == CUBLAS_STATUS_SUCCESS;
    return *taken || is_refusal(status) ? DT_OK : failed(k->linear, status, "the product", &plan->shape);
}

dt_status gpt_cuda_plan_run(struct gpt_kernels *k, struct dt_stream *stream, struct gpt_cuda_plan *plan, const struct gpt_cuda_product *p)
{
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    for (; plan->refused < plan->named_count; plan->refused++) {
        status = multiply(k->linear, stream, plan, &plan->named[plan->refused], p);
        if (status == CUBLAS_STATUS_SUCCESS)
            return DT_OK;
        if (!is_refusal(status))
            break;
    }
    return failed(k->linear, status, "the product", &plan->shape);
}

dt_status gpt_cuda_plan_find(struct gpt_kernels *k, const struct gpt_cuda_product *p, struct gpt_cuda_plan **out)
{
    struct gpt_cuda_product_shape shape = gpt_cuda_product_shape(p);
    /* a step has some dozens of plans */
    for (*out = k->linear->plans; *out; *out = (*out)->next)
        if (gpt_cuda_product_shapes_equal(&(*out)->shape, &shape))
            return DT_OK;
    struct gpt_cuda_plan *plan = calloc(1, sizeof *plan);
    DT_TRY(dt_allocated(plan, "cuda kernels: no host memory"));
    plan->shape = shape;
    cublasStatus_t described = describe(&k->linear->lt, plan, p, k);
    dt_status decided = described == CUBLAS_STATUS_SUCCESS ? ask_tuning(k->linear, plan, k->model.dtype) : DT_OK;
    if (decided < 0) {
        destroy(&k->linear->lt, plan);
        return decided;
    }
    cublasStatus_t asked = described == CUBLAS_STATUS_SUCCESS ? ask(k->linear, plan) : described;
    if (asked == CUBLAS_STATUS_SUCCESS && plan->named_count == 0 && p->epilogue == GPT_CUDA_PLAIN)
        asked = CUBLAS_STATUS_NOT_SUPPORTED;
    if (asked != CUBLAS_STATUS_SUCCESS) {
        destroy(&k->linear->lt, plan);
        return failed(k->linear, asked, described == CUBLAS_STATUS_SUCCESS ? "no algorithm for" : "describing", &shape);
    }
    plan->next = k->linear->plans;
    k->linear->plans = plan;
    *out = plan;
    return DT_OK;
}
