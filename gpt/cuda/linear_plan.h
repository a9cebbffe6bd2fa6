/* Plans: how each product is computed by cuBLASLt. A plan is made when a shape first appears, and stays. Which algorithm it takes is what a
 * tuning says, where there is one that knows the product, and else what the heuristic names first. */
#ifndef GPT_CUDA_LINEAR_PLAN_H
#define GPT_CUDA_LINEAR_PLAN_H

#include "gpt/cuda/cublaslt.h"
#include "gpt/cuda/kernels.h"
#include "gpt/cuda/product.h"
#include "gpt/cuda/tuning.h"

/* Most products run with the first; a run asks for the second number in case that cuBLASLt refuses some, a tuning for all. */
enum { GPT_CUDA_MOST_NAMED = 32, GPT_CUDA_NAMED_FOR_A_RUN = 6 };

struct gpt_cuda_plan {
    struct gpt_cuda_plan *next;
    struct gpt_cuda_product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t named[GPT_CUDA_MOST_NAMED]; /* [named_count] by the heuristic, best first; decided: the tuning's before them */
    int named_count, refused;                        /* refused: how many of them cuBLASLt did not run; the next one is used */
    bool decided;
};

struct gpt_cuda_linear {
    struct gpt_cublaslt lt;
    cublasLtHandle_t handle;
    void *workspace; /* [GPT_CUDA_WORKSPACE_BYTES] */
    struct gpt_cuda_plan *plans;
    int most_named;                 /* algorithms to ask the heuristic for */
    const struct dt_tuning *tuning; /* NULL: none; then the next two say nothing */
    char gpu[128], library[GPT_CUBLASLT_NAME_BYTES];
};

/* What cuBLAS itself takes on Hopper; smaller GPUs are content with less, and have it to spare. */
enum { GPT_CUDA_WORKSPACE_BYTES = 32 << 20 };

/* The plan for a product of this shape. Errors: DT_ERR_DEVICE for a plain product that cuBLASLt cannot do, DT_ERR_HOST_MEMORY. */
dt_status gpt_cuda_plan_find(struct gpt_kernels *k, const struct gpt_cuda_product *p, struct gpt_cuda_plan **out);
/* Whether cuBLASLt has an algorithm for this shape with this epilogue. */
static inline bool gpt_cuda_plan_is_possible(const struct gpt_cuda_plan *plan)
{
    return plan->refused < plan->named_count;
}

/* Queues the product, with the first algorithm named that cuBLASLt does not refuse. Errors: DT_ERR_DEVICE; the plan may be impossible
 * then. */
dt_status gpt_cuda_plan_run(struct gpt_kernels *k, struct dt_stream *stream, struct gpt_cuda_plan *plan, const struct gpt_cuda_product *p);

/* The same with algorithm `index` of plan->named alone. *taken false: cuBLASLt refuses it, and nothing is queued. Errors: DT_ERR_DEVICE. */
dt_status gpt_cuda_plan_try(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_plan *plan, int index,
                            const struct gpt_cuda_product *p, bool *taken);

void gpt_cuda_plans_destroy(struct gpt_cuda_linear *linear);

#endif
