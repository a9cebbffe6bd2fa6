/* Causal self-attention on the CPU, fused and unfused: what its entries call from a stream's thread.
 *
 * Work is divided by (sample, head), backward by (sample, kv head), and what of these is left by tiles of queries: in the same order of
 * operations whatever the number of threads, so results do not depend on it. Scratch is linear in T. Fused keeps nothing of size T * T: a
 * tile of Br = 64 query rows loops over the keys in chunks of Bc = 256, with an online softmax forward and probabilities recomputed from
 * lse backward.
 * Source  Dao et al., "FlashAttention", NeurIPS 2022, algorithms 1 and 4 (appendix B.4 for dropout);
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. */
#ifndef GPT_CPU_ATTENTION_H
#define GPT_CPU_ATTENTION_H

#include "gpt/kernels.h"

struct gpt_cpu_attention; /* the threads' scratch; sizes and dtype are the model's */

/* Scratch for `threads` threads is reserved here (host memory, outside the device's ledger); the calls below allocate nothing.
 * Owner: the caller, who destroys. Errors: DT_ERR_INVALID (sizes), DT_ERR_HOST_MEMORY; *out is then NULL. */
dt_status gpt_cpu_attention_create(const struct dt_model *model, int threads, struct gpt_cpu_attention **out);
void gpt_cpu_attention_destroy(struct gpt_cpu_attention *attention); /* takes NULL */

/* Run now, on the calling thread and an OpenMP team of `threads`; one call at a time for one object. Shapes as in gpt/kernels.h. The fused
 * or unfused arrays must be there as the model's `attention` says. Errors: DT_ERR_INVALID (an array is missing). */
dt_status gpt_cpu_attention_forward(struct gpt_cpu_attention *attention, const struct gpt_attention_forward *arguments);
dt_status gpt_cpu_attention_backward(struct gpt_cpu_attention *attention, const struct gpt_attention_backward *arguments);

#endif
