/* The GPT of the study: presets, parameter and operation counts.
 *
 * minGPT's pre-norm decoder: learned token and position embeddings, dropout; per block x + dropout(proj(attention(norm(x)))) and
 * x + dropout(down(gelu(up(norm(x))))), every projection with bias; final layer norm; an untied head without bias.
 * Source  Li et al., "PyTorch Data Parallel Best Practices on Google Cloud", 2022, Table 1; karpathy/minGPT. */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include "lib/model/model.h"

/* The study's Table 1, GPTSmall to GPT1T; the last entry has a NULL name. */
extern const struct dt_model_preset gpt_presets[];

/* L(12d^2 + 13d) + 2Vd + Td + 2d */
uint64_t gpt_parameter_count(const struct dt_model *model);

/* Multiply-adds counted as 2, per token, forward only: every matrix product that a step does (linears, head, and attention's two products
 * over the full T x T square, as PaLM's appendix B and the usual MFU count do). Backward is twice that. */
double gpt_forward_flops_per_token(const struct dt_model *model);
/* 3 * forward * tokens: the numerator of TFLOP/s and MFU. Recomputation is not counted. */
double gpt_step_flops(const struct dt_model *model, uint64_t tokens);

#endif
