/* What kernels cost on a described device: the formulas; those of products are in product.c. Seconds, bytes and element
 * counts; nothing is queued. */
#ifndef LIB_COST_COST_H
#define LIB_COST_COST_H

#include "lib/cost/fp8.h"
#include "lib/cost/profile.h"

#include <stdbool.h>

/* What a cluster file says of a GPU, for the model's dtype. */
struct dt_cost_hardware {
    double peak_flops; /* per second */
    double fp8_flops;  /* the same of products in FP8; 0: it has none */
    double memory_bytes_per_s;
};

/* What the kernels of a simulated device are given (struct dt_sim_device's costs). */
struct dt_costs {
    struct dt_profile profile;
    struct dt_cost_hardware hardware;
    double interpreter_sharers;           /* ranks that share one interpreter, which works for one at a time; at least 1 */
    int measured_ranks, measured_threads; /* which of the profile's measurements hold; unused where it has none */
    int shift;              /* from the numbers that the model's family has for its kernels to those of the profile (lib/cost/priced.h) */
    double fp8_weight_part; /* of each weight that a rank casts before a product in FP8: its shard, or what falls to each micro-batch */
    bool new_gradients;     /* the gradients of a unit are made new each time: there is nothing to add them to */
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
double dt_cost_product_s(const struct dt_costs *costs, double batch, double m, double n, double k, size_t left_elems, size_t right_elems,
                         size_t element_bytes);

/* One product of FP8 operands, with a 16-bit output: the same with the GPU's rate in FP8, times fp8_peak_fraction and `speed`. Filling and draining
 * a tile's pipeline takes as long as with 16-bit operands, so that half_k is longer by the ratio of the rates. */
double dt_cost_fp8_product_s(const struct dt_costs *costs, double m, double n, double k, size_t left_elems, size_t right_elems,
                             double speed);

/* The same of a convolution as one product, whose operands are not in memory as matrices: moved_elems cross it. row_elems: of the shortest rows
 * that are read, the channels of an image.
 * Source  Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014, section 3. */
double dt_cost_implicit_product_s(const struct dt_costs *costs, double m, double n, double k, size_t row_elems, double moved_elems,
                                  size_t element_bytes);

/* `bytes` crossing the memory in `launches` kernels. */
double dt_cost_memory_s(const struct dt_costs *costs, double launches, double bytes);

/* What an update moves of each parameter: parameters and gradients, and the state that the optimizer keeps of it, read and written. */
double dt_cost_update_bytes(const struct dt_profile *profile, size_t element_bytes, bool adam, size_t state_bytes);

/* What a product or attention takes in a step, over the same alone; 1 where the profile does not tell. */
double dt_cost_in_step(const struct dt_costs *costs);

/* Keep of the profile's measured products those in this dtype, and hold them against the formula (lib/cost/rates.h). */
void dt_product_rates_settle(struct dt_costs *costs, enum dt_dtype dtype);

#endif
