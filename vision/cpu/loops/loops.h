/* The cpu kernels' inner loops over channels, in addition to those of lib/kernels/cpu/loops.h: one
 * thread's share of the work, for one instruction set and one dtype.
 *
 * loops.c is compiled once for each pair. Untyped pointers are to memory of the table's dtype;
 * matrices are [rows, channels], dense. Nothing here fails, allocates or starts threads. */
#pragma once

#include "lib/base/cpu_isa.h"
#include "lib/base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VISION_TILE_ROWS = 6, VISION_TILE_COLUMNS = 16 }; /* as many sums as fit into the registers of AVX2 together with the factors */

/* A part of the gradient of a convolution's weights, in fp32 whatever the table's dtype:
 *   dw[i * dw_step + j] += sum over all positions of dy[position][i] * x[position][j],   i < rows,
 *   j < VISION_TILE_COLUMNS
 *   dy [lines, positions, VISION_TILE_ROWS]; position p of line l has its x at x + offsets[l] + p *
 *   x_step. */
struct vision_weight_tile {
    float *dw;
    size_t dw_step;
    int rows;
    bool fresh; /* overwrite dw instead of adding to it */
    const float *dy, *x;
    const size_t *offsets;
    size_t lines, positions, x_step;
};

struct vision_loops {
    void (*weight_tile)(const struct vision_weight_tile *tile);
    /* For each channel, over the rows: sums += x - shift, squares += (x - shift)^2. */
    void (*moments)(float *sums, float *squares, const void *x, const float *shift, size_t rows, size_t channels);
    /* y = (x - mean) * scale + bias + residual, then ReLU; residual may be NULL. */
    void (*normalise)(void *y, const void *x, const void *residual, const float *mean, const float *scale, const float *bias, size_t rows,
                      size_t channels, bool relu);
    /* dy becomes 0 where ReLU's output was 0; sums += dy, products += dy * (x - mean). */
    void (*norm_sums)(float *sums, float *products, void *dy, const void *x, const void *residual, const float *mean, const float *scale,
                      const float *bias, size_t rows, size_t channels, bool relu);
    /* dx = of_dy * dy + of_x * (x - mean) + rest; dx may be dy. */
    void (*norm_gradient)(void *dx, const void *dy, const void *x, const float *of_dy, const float *of_x, const float *rest,
                          const float *mean, size_t rows, size_t channels);
    /* One window. Its `count` elements inside of the image are window[i], at places[i]: y is the
     * largest, `chosen` its place. */
    void (*max_pool)(void *y, uint8_t *chosen, const void *const *window, const uint8_t *places, int count, size_t channels);
    /* sums += dy where `chosen` is `place` */
    void (*max_pool_gradient)(float *sums, const void *dy, const uint8_t *chosen, uint8_t place, size_t channels);
    void (*add_scaled)(float *sums, const void *x, float scale, size_t channels); /* sums += scale * x */
    /* Dropout of one position, with random bits of lib/base/random.h; layer_word: word 3 of the
     * random counter. */
    void (*dropout)(void *y, const void *x, size_t channels, uint64_t seed, uint32_t position, uint32_t sample, uint32_t layer_word,
                    float probability);
};

/* What loops.c is compiled into. absent.c replaces the instruction sets that are not in this build;
 * its tables are empty. */
extern const struct vision_loops vision_loops_base_fp32, vision_loops_base_bf16, vision_loops_avx2_fp32, vision_loops_avx2_bf16,
    vision_loops_avx512_fp32, vision_loops_avx512_bf16, vision_loops_avx512bf16_fp32, vision_loops_avx512bf16_bf16;

/* NULL if this build or this processor does not have `isa`. */
const struct vision_loops *vision_loops_for(enum dt_cpu_isa isa, enum dt_dtype dtype);
