/* Plans: how cuBLASLt computes each product. A plan is made when a shape first appears, and kept.
 * Its algorithm is the tuning's, if there is a tuning with this product, and otherwise the first
 * that the heuristic names. */
#pragma once

#include "gpt/cuda/cublaslt.h"
#include "gpt/cuda/kernels.h"
#include "gpt/cuda/product.h"
#include "gpt/cuda/tuning.h"

/* Most products run with the first algorithm. A run asks for GPT_CUDA_NAMED_FOR_A_RUN in case
 * cuBLASLt refuses some; tuning asks for all. */
enum { GPT_CUDA_MOST_NAMED = 32, GPT_CUDA_NAMED_FOR_A_RUN = 6 };

struct gpt_cuda_plan {
    struct gpt_cuda_plan *next;
    struct gpt_cuda_product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    /* [named_count] from the heuristic, best first; decided: the tuning's algorithm is before
     * them */
    cublasLtMatmulAlgo_t named[GPT_CUDA_MOST_NAMED];
    int named_count, refused; /* refused: the number of algorithms that cuBLASLt did not run; the next one is used */
    bool decided;
};

struct gpt_cuda_linear {
    struct gpt_cublaslt lt;
    cublasLtHandle_t handle;
    void *workspace; /* [GPT_CUDA_WORKSPACE_BYTES] */
    struct gpt_cuda_plan *plans;
    int most_named;                 /* algorithms to ask the heuristic for */
    const struct dt_tuning *tuning; /* NULL: none; the next two members are then unused */
    char gpu[128], library[GPT_CUBLASLT_NAME_BYTES];
};

/* The size that cuBLAS itself uses on Hopper; smaller GPUs need less, and have memory for this. */
enum { GPT_CUDA_WORKSPACE_BYTES = 32 << 20 };

/* The plan for a product of this shape. Errors: DT_ERR_DEVICE for a plain product that cuBLASLt
 * cannot compute, DT_ERR_HOST_MEMORY. */
dt_status gpt_cuda_plan_find(struct gpt_kernels *k, const struct gpt_cuda_product *p, struct gpt_cuda_plan **out);
/* Whether cuBLASLt has an algorithm for this shape with this epilogue. */
static inline bool gpt_cuda_plan_is_possible(const struct gpt_cuda_plan *plan)
{
    return plan->refused < plan->named_count;
}

/* Queue the product, with the first named algorithm that cuBLASLt does not refuse. Errors:
 * DT_ERR_DEVICE; the plan may then be impossible. */
dt_status gpt_cuda_plan_run(struct gpt_kernels *k, struct dt_stream *stream, struct gpt_cuda_plan *plan, const struct gpt_cuda_product *p);

/* The same with only algorithm `index` of plan->named. *taken false: cuBLASLt refuses it, and
 * nothing is queued. Errors: DT_ERR_DEVICE. */
dt_status gpt_cuda_plan_try(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_plan *plan, int index,
                            const struct gpt_cuda_product *p, bool *taken);

void gpt_cuda_plans_destroy(struct gpt_cuda_linear *linear);
