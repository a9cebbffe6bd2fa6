/* The cost of kernels on a described device: the formulas; those of products are in gemm.c.
 * Seconds, bytes and element counts; nothing is queued. */
#pragma once

#include "lib/cost/fp8.h"
#include "lib/cost/profile.h"
#include "lib/device/device.h"

#include <stdbool.h>

/* A GPU's rates from the cluster file, for the model's dtype. */
struct dt_cost_hardware {
    double peak_flops; /* per second */
    double fp8_flops;  /* the same for FP8; 0: the GPU has none */
    double memory_bytes_per_s;
};

/* The costs of a simulated device's kernels (struct dt_sim_device's costs). */
struct dt_costs {
    struct dt_profile profile;
    struct dt_cost_hardware hardware;
    double interpreter_sharers;           /* ranks that share one interpreter, which serves one at a time; at least 1 */
    int measured_ranks, measured_threads; /* which of the profile's measurements are used; unused if it has none */
    int shift;                            /* added to the family's kernel numbers to get the profile's (lib/cost/priced.h) */
    double fp8_weight_part; /* part of each weight that a rank casts before an FP8 product: its shard, or a micro-batch's part */
    bool new_gradients;     /* a unit's gradients are new each time: there is nothing to add them to */
    bool keys_again;        /* backward computes k's product and rope again */
};

/* `batch` products [m, k] x [k, n], whose operands' and output's rows are left_elems and
 * right_elems long in memory.
 *
 * The larger of two times. Memory: each operand and the output is transferred once. Arithmetic:
 * with the fastest of the library's tiles, whole tiles at the GPU's peak, times peak_fraction,
 * times the loss of smaller tiles, which reuse loaded elements less, times k / (k + half_k)
 * (filling and draining a tile's pipeline), times the average share of multiprocessors that work
 * over the waves of tiles. If that is below least_fill, the inner dimension may be split. Rows that
 * do not begin at 16-byte boundaries limit peak_fraction's share in batches, and cost one product
 * (batch 1) a part of its speed.
 * Source  NVIDIA, "Matrix Multiplication Background User's Guide", sections 2 and 3: tiles and
 *         their reuse, tile and wave quantisation, alignment; cuBLAS documentation, cublasLtMatmul:
 *         split-K and its reduction. */
double dt_cost_product_s(const struct dt_costs *costs, double batch, double m, double n, double k, size_t left_elems, size_t right_elems,
                         size_t element_bytes);

/* One product of FP8 operands, with a 16-bit output: the same with the GPU's FP8 rate, times
 * fp8_peak_fraction and `speed`. Filling and draining a tile's pipeline takes the same time as with
 * 16-bit operands, so half_k is longer by the ratio of the rates. */
double dt_cost_fp8_product_s(const struct dt_costs *costs, double m, double n, double k, size_t left_elems, size_t right_elems,
                             double speed);

/* A convolution as one product, whose operands are not matrices in memory: moved_elems are
 * transferred. row_elems: of the shortest rows that are read, the channels of an image.
 * Source  Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014, section 3. */
double dt_cost_implicit_product_s(const struct dt_costs *costs, double m, double n, double k, size_t row_elems, double moved_elems,
                                  size_t element_bytes);

/* Time to transfer `bytes` bytes of memory in `launches` kernels. */
double dt_cost_memory_s(const struct dt_costs *costs, double launches, double bytes);

/* Bytes that an update reads and writes per parameter: parameter, gradient and optimizer state. */
double dt_cost_update_bytes(const struct dt_profile *profile, size_t element_bytes, bool adam, size_t state_bytes);

/* The time of a product or attention in a step, divided by that of the same alone; 1 if the profile
 * does not say. */
double dt_cost_in_step(const struct dt_costs *costs);

/* Keep the profile's measured products in this dtype, and compare them with the formula
 * (lib/cost/rates.h). */
void dt_product_rates_settle(struct dt_costs *costs, enum dt_dtype dtype);

/* ---- add a kernel's work to the program of a simulated device (lib/device/sim.h); `costs` NULL:
 * nothing is added ---- */

/* One call: a kernel by its number, its variant, and its shape (enum dt_shape). */
struct dt_cost_call {
    int kernel;
    enum dt_variant variant;
    enum dt_dtype dtype;
    double shape[3];
};

/* `launches` kernels that take `seconds` together. The framework's interpreter issues each
 * operation of forward and of the optimizer; its compiled engine issues backward. */
dt_status dt_cost_work(const struct dt_costs *costs, struct dt_stream *stream, int kernel, double launches, double seconds);
/* Queue a call with the time from the profile's measurements. *out_found: this kernel was measured;
 * otherwise nothing is queued. */
dt_status dt_cost_measured(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, bool *out_found);
/* Queue a kernel that is limited by memory: its passes over elems, and its other passes over
 * other_elems. */
dt_status dt_cost_memory_bound(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, double elems,
                               double other_elems);
