/* What kernels cost on a described device: the formulas behind gpt/cost/backend.c; products are in product.c. Seconds, bytes and element
 * counts; nothing is queued. */
#ifndef GPT_COST_COST_H
#define GPT_COST_COST_H

#include "gpt/cost/profile.h"
#include "gpt/layout.h"

#include <stdbool.h>

/* What a cluster file says of a GPU, for the model's dtype. */
struct gpt_cost_hardware {
    double peak_flops; /* per second */
    double memory_bytes_per_s;
};

/* What the kernels of a simulated device are given (struct dt_sim_device's costs). */
struct gpt_costs {
    struct gpt_cost_profile profile;
    struct gpt_cost_hardware hardware;
    double interpreter_sharers;           /* ranks that share one interpreter, which works for one at a time; at least 1 */
    int measured_ranks, measured_threads; /* which of the profile's measurements hold; unused where it has none */
};

/* `batch` products [m, k] x [k, n], whose operands' and output's rows are left_elems and right_elems long in memory.
 *
 * The larger of two times. Memory: each operand and the output crosses it once. Arithmetic: with the fastest of the library's tiles, whole
 * tiles at the GPU's peak, times peak_fraction, times what a smaller tile loses because it reuses less of what it loads, times k / (k +
 * half_k) (filling and draining a tile's pipeline), times the share of multiprocessors that work on average over the waves of tiles. Where
 * that is below least_fill, the inner dimension may be split. Rows that do not begin at 16-byte boundaries limit peak_fraction's share
 * in batches, and cost one product (batch 1) a part of its speed.
 * Source  NVIDIA, "Matrix Multiplication Background User's Guide", sections 2 and 3: tiles and their reuse, tile and wave quantisation,
 *         alignment; cuBLAS documentation, cublasLtMatmul: split-K and its reduction. */
double gpt_cost_product_s(const struct gpt_costs *costs, double batch, double m, double n, double k, size_t left_elems, size_t right_elems,
                          size_t element_bytes);

/* `bytes` crossing the memory in `launches` kernels. */
double gpt_cost_memory_s(const struct gpt_costs *costs, double launches, double bytes);

/* Bytes that the profile's framework keeps for backward of a layer beside what dtbench does, for `samples` samples; 0 where it keeps no
 * more. Attention and the first half of the MLP carry half a block's each. Where `ranks` share the layer each has its part; a block that is wider than GPT's is taken to keep
 * more in proportion; but of a block's
 * 34 bytes a token and d in 16 bits, 10 are of the residual stream, which is whole on every rank without sequence_parallel.
 * Source  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, equations 1 to 4. */
size_t gpt_cost_kept_bytes(const struct gpt_cost_profile *profile, const struct dt_model *model, enum gpt_layer_kind layer, size_t samples,
                           int ranks, bool sequence_parallel);

/* What an update moves of each parameter: parameters and gradients, and Adam's moments and master weights, read and written. */
double gpt_cost_update_bytes(const struct gpt_cost_profile *profile, size_t element_bytes, bool adam);

#endif
