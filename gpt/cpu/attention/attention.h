/* Causal self-attention on the CPU, fused and unfused. A stream's thread calls these functions.
 *
 * The work is divided by (sample, head), in backward by (sample, kv head). The rest is divided by
 * tiles of queries. The order of operations does not depend on the number of threads, so results do
 * not either. Scratch is linear in T. Fused attention keeps nothing of size T * T: a tile of Br =
 * 64 query rows loops over the keys in chunks of Bc = 256, with an online softmax in forward, and
 * probabilities recomputed from lse in backward.
 * Source  Dao et al., "FlashAttention", NeurIPS 2022, algorithms 1 and 4 (appendix B.4 for
 *         dropout);
 *         Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. */
#pragma once

#include "gpt/kernels.h"

struct gpt_cpu_attention; /* the threads' scratch memory, and the model's sizes and dtype */

/* Allocates scratch memory for `threads` threads (host memory, not in the device's ledger); the
 * functions below allocate nothing. Owner: the caller, who destroys. Errors: DT_ERR_INVALID
 * (sizes), DT_ERR_HOST_MEMORY; *out is then NULL. */
dt_status gpt_cpu_attention_create(const struct dt_model *model, int threads, struct gpt_cpu_attention **out);
void gpt_cpu_attention_destroy(struct gpt_cpu_attention *attention); /* takes NULL */
DT_DESTROYS(gpt_cpu_attention_destroy, struct gpt_cpu_attention)

/* Run now, on the calling thread and an OpenMP team of `threads`. One call at a time for one
 * object. Shapes as in gpt/kernels.h. The model's `attention` says which arrays, fused or unfused,
 * must be given. Errors: DT_ERR_INVALID (an array is missing). */
dt_status gpt_cpu_attention_forward(struct gpt_cpu_attention *attention, const struct gpt_attention_forward *arguments);
dt_status gpt_cpu_attention_backward(struct gpt_cpu_attention *attention, const struct gpt_attention_backward *arguments);
