/* Matrix products on oneDNN.
 *
 * bf16 and fp32 are multiplied directly, accumulated in fp32 and rounded once. Two cases are
 * converted to fp32 a block at a time, multiplied in fp32 and rounded once: fp16, which oneDNN
 * cannot multiply here, and bf16 on processors for which oneDNN has only slow reference code. */
#pragma once

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/matmul/product.h"

struct gpt_onednn; /* primitives by shape, created when first needed, and their scratch memory */

/* Owner: the caller, who destroys. Errors: DT_ERR_DEVICE, DT_ERR_HOST_MEMORY. */
dt_status gpt_onednn_create(enum dt_dtype dtype, const struct dt_simd *simd, int threads, struct gpt_onednn **out);
void gpt_onednn_destroy(struct gpt_onednn *products); /* takes NULL */

/* The product itself, with bias and accumulate; ignores all other operations before or after it.
 * Errors: as gpt_cpu_multiply. */
dt_status gpt_onednn_multiply(struct gpt_onednn *products, const struct gpt_cpu_product *product);
