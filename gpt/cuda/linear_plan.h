/* Plans: how each product is computed by cuBLASLt. A plan is made when a shape first appears, and stays. */
#ifndef GPT_CUDA_LINEAR_PLAN_H
#define GPT_CUDA_LINEAR_PLAN_H

#include "gpt/cuda/cublaslt.h"
#include "gpt/cuda/kernels.h"
#include "gpt/cuda/product.h"

struct gpt_cuda_plan {
    struct gpt_cuda_plan *next;
    struct gpt_cuda_product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    bool possible; /* false: cuBLASLt has nothing for this shape with this epilogue */
    bool apart;    /* the caller's: the epilogue is better done by kernels of its own */
    bool decided;  /* `apart` is known */
};

struct gpt_cuda_linear {
    struct gpt_cublaslt lt;
    cublasLtHandle_t handle;
    void *workspace;              /* [GPT_CUDA_WORKSPACE_BYTES] */
    struct dt_event *start, *end; /* timed */
    struct gpt_cuda_plan *plans;
};

/* What cuBLAS itself takes on Hopper; smaller GPUs are content with less, and have it to spare. */
enum { GPT_CUDA_WORKSPACE_BYTES = 32 << 20 };

/* The plan for a product of this shape. A new one takes what cuBLASLt's heuristic names first; outside of a capture the first few that it
 * names are run and the fastest is taken, on the operands themselves, with p->d as the output where it is overwritten anyway and in memory
 * of its own where it is added to. Waits for `stream` then. Errors: DT_ERR_DEVICE for a plain product that cuBLASLt cannot do;
 * DT_ERR_HOST_MEMORY; those of running. */
dt_status gpt_cuda_plan_find(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_product *p, struct gpt_cuda_plan **out);

/* Queues the product. */
dt_status gpt_cuda_plan_run(struct gpt_kernels *k, struct dt_stream *stream, struct gpt_cuda_plan *plan, const struct gpt_cuda_product *p);

/* Runs `work` some times on `stream` and waits: *out is the time of one, on the device. Not while a graph is captured. */
dt_status gpt_cuda_time_ns(struct gpt_kernels *k, struct dt_stream *stream, dt_status (*work)(void *context), void *context, int64_t *out);

void gpt_cuda_plans_destroy(struct gpt_cuda_linear *linear);

#endif
