/* Reading profiles (lib/cost/profile.h): the table of their constants, with the kernels of all
 * families of models. */
#pragma once

#include "lib/cost/profile.h"
#include "lib/model/model.h"

struct cJSON;
struct dt_schema;

/* The first rows of the table are not constants: name, gpu, basis, error. */
enum { PROFILE_LABELS = 7 };

/* Read a profile. Errors: DT_ERR_IO, DT_ERR_INVALID with file and JSON path. */
dt_status profile_read(const char *path, struct dt_profile *out);
/* The same from text, named `source` in errors. */
dt_status profile_parse(const char *text, size_t length, const char *source, struct dt_profile *out);

/* The bound on the relative error of eight of ten of the profile's step times; NAN: unknown. If the
 * profile gives only the median and nine of ten, it is interpolated between them as for a normal
 * error: 0.674, 1.282 and 1.645 standard deviations (tables of the normal distribution). */
double profile_eight(const struct dt_profile *profile);

/* The table of constants. */
const struct dt_table *profile_table(void);
const struct dt_schema *profile_schema(void);

/* All kernels by number. *offset (may be NULL) is added to a family's own kernel number to get
 * it. */
const struct dt_priced_list *profile_kernels(void);
int profile_shift(const struct dt_model_family *family);

/* The keys of an entry of a profile's "measured". */
const struct dt_list *measured_table(void);
/* array NULL: an empty list. `where` begins every error: the file and the list's path. Errors:
 * DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status measured_read(const struct cJSON *array, const char *where, struct dt_measured_list *out);
/* Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status measured_write(const struct dt_measured_list *list, struct cJSON **out);

/* RMS norms as separate operations of PyTorch: passes over fp32 data count twice. Forward casts,
 * squares, adds up, multiplies, casts back and multiplies with the gain; backward has the
 * derivative of each, 46 passes in 17 launches. The passes of forward are not among them: dtbench
 * runs forward again there, while PyTorch keeps its results.
 * Source  huggingface/transformers, models/llama/modeling_llama.py, LlamaRMSNorm; PyTorch,
 *         tools/autograd/derivatives.yaml. */
void profile_norm_in_operations(struct dt_profile *profile);

/* SwiGLU and rope as separate operations of PyTorch. SwiGLU: silu (2) and a product (3); backward
 * has two derivatives of the product and silu's (3 each). Rope of q and of k: casts to fp32 (3),
 * multiplies complex numbers (4), casts back (3), and the same backward. again: backward computes
 * SwiGLU's output again (activation selective_op), and the output of the block's last product is
 * kept, which compiled code drops since no backward reads it.
 * Source  pytorch/torchtitan, torchtitan/models/llama/model.py, FeedForward and apply_rotary_emb, and
 *         torchtitan/parallelisms/parallelize_llama.py, _save_list;
 *         PyTorch, tools/autograd/derivatives.yaml. */
void profile_gate_and_rope_in_operations(struct dt_profile *profile, bool again);

/* Unfused attention's softmax without dropout as separate operations, in fp32: forward casts (3),
 * fills the mask in (4.5: its bytes are read, too), takes the softmax (4) and casts back (3);
 * backward has the derivatives, of which the softmax's reads both its result and the gradient (3,
 * 6, 4.5, 3).
 * Source  Aleph-Alpha/scaling, src/scaling/core/nn/masked_softmax/masked_softmax.py,
 *         MaskedSoftmaxTorch with softmax_in_fp32. */
void profile_softmax_in_operations(struct dt_profile *profile);

/* The memory of an Adam that is not fused, where ZeRO has put all parameters of a rank into one
 * tensor: the root of the second moment and its quotient with a correction exist at once, 4 bytes of
 * a parameter each.
 * Source  PyTorch 1.13.1, torch/optim/adamw.py, _single_tensor_adamw; InternLM/InternEvo of November
 *         2023 (commit 7776693), internlm/train/training_internlm.py, initialize_optimizer, and
 *         requirements/torch.txt. */
void profile_adam_in_operations(struct dt_profile *profile);

/* The products of an older cuBLAS, where the profile knows them: those of Hopper, in 8 and 16 bits,
 * have been faster since CUDA 12.6 update 2.
 * Source  NVIDIA, CUDA Toolkit 12.9.1 Release Notes, cuBLAS: Release 12.6 Update 2. */
void profile_older_products(struct dt_profile *profile);

/* The rate of the attention kernel that `notes` name ("kernel=cudnn"), where a profile's is
 * FlashAttention-2's; 1: they name none. All under a causal mask, heads of 128.
 * Source  flash_attentionv1: A100, forward and backward, sequences of 2,048 to 16,384 tokens
 *         (Dao-AILab/flash-attention, assets/flash2_a100_fwd_bwd_benchmark.png). cudnn (9,
 *         Transformer Engine's on Hopper) and flash_attention3: H100, forward, 1,024 to 16,384
 *         tokens, medians (assets/flash3_fp16_fwd.png); backward is taken to gain as much. */
double profile_attention_rate(const char *notes);
