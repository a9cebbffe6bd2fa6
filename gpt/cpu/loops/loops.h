/* The cpu kernels' inner loops: one thread's share of the work, for one instruction set and one
 * dtype.
 *
 * loops.c is compiled once for each pair. Untyped pointers are to memory of the table's dtype.
 * Nothing here fails, allocates or starts threads. */
#pragma once

#include "gpt/kernels.h"
#include "lib/kernels/cpu/loops.h"

/* The place of a row of d columns in the model's dropout masks. threshold 0: nothing is dropped. */
struct gpt_dropout_row {
    uint64_t seed;
    uint32_t layer_word; /* word 3 of the random counter */
    uint32_t sample, t;
    uint32_t threshold;
    float scale;
};

/* The masks of all rows of a call. Row r of the call is row first_row + r of the rows that begin
 * with sample first_sample; `positions` says which positions a sample has. */
struct gpt_dropout_rows {
    uint64_t seed;
    uint32_t layer_word, first_sample, threshold;
    size_t first_row, T;
    struct gpt_positions positions;
    float scale;
};

static inline struct gpt_dropout_row gpt_dropout_row_of(const struct gpt_dropout_rows *rows, size_t row)
{
    struct gpt_place place = gpt_place_of(&rows->positions, rows->T, rows->first_row + row);
    return (struct gpt_dropout_row){.seed = rows->seed,
                                    .layer_word = rows->layer_word,
                                    .sample = rows->first_sample + (uint32_t)place.sample,
                                    .t = (uint32_t)place.position,
                                    .threshold = rows->threshold,
                                    .scale = rows->scale};
}

struct gpt_simd {
    void (*gelu)(void *y, const void *x, size_t count);
    void (*gelu_gradient)(void *dy_to_dx, const void *x, size_t count);
    void (*gelu_new)(void *y, const void *x, size_t count); /* the tanh form */
    void (*gelu_new_gradient)(void *dy_to_dx, const void *x, size_t count);
    void (*relu)(void *y, const void *x, size_t count);
    void (*relu_gradient)(void *dy_to_dx, const void *x, size_t count);

    /* One row of d columns. */
    void (*dropout_residual)(void *out, const void *residual, const void *branch, size_t d, const struct gpt_dropout_row *row);
    void (*dropout_gradient)(void *dbranch, const void *dout, size_t d, const struct gpt_dropout_row *row);
    void (*embedding)(void *out, const void *token, const void *position, size_t d, const struct gpt_dropout_row *row);
    void (*dropout_sum)(float *sums, const void *dout, size_t d, const struct gpt_dropout_row *row); /* sums += mask * scale * dout */
    /* bias and dbias may be NULL. */
    void (*layer_norm)(void *y, const void *x, const void *gain, const void *bias, size_t d, float epsilon, float *mean, float *rstd);
    void (*layer_norm_gradient)(void *dx, const void *dy, const void *x, const void *gain, float *dgain, float *dbias, size_t d, float mean,
                                float rstd, bool overwrite); /* dgain, dbias [d] are added to */
    void (*rms_norm)(void *y, const void *x, const void *gain, size_t d, float epsilon, float *rstd);
    void (*rms_norm_gradient)(void *dx, const void *dy, const void *x, const void *gain, float *dgain, size_t d, float rstd,
                              bool overwrite); /* dgain [d] is added to */
    float (*rms_rstd)(const void *x, size_t d, float epsilon);
    void (*swiglu)(void *y, const void *gate, const void *up, size_t count);
    /* y may be NULL. Outputs may be inputs. */
    void (*swiglu_gradient)(void *dgate, void *dup, void *y, const void *dy, const void *gate, const void *up, size_t count);
    /* x [heads, 2 half]: element i of each head turns with element half + i by the angle of
     * cosines[i] and direction * sines[i]. */
    void (*rope)(void *x, size_t heads, size_t half, const float *cosines, const float *sines, float direction);
};

/* What loops.c is compiled into. absent.c replaces the instruction sets that are not in this build;
 * its tables are empty. */
extern const struct gpt_simd gpt_simd_base_fp32, gpt_simd_base_fp16, gpt_simd_base_bf16;
extern const struct gpt_simd gpt_simd_avx2_fp32, gpt_simd_avx2_fp16, gpt_simd_avx2_bf16;
extern const struct gpt_simd gpt_simd_avx512_fp32, gpt_simd_avx512_fp16, gpt_simd_avx512_bf16;
extern const struct gpt_simd gpt_simd_avx512bf16_fp32, gpt_simd_avx512bf16_fp16, gpt_simd_avx512bf16_bf16;

/* NULL when this build or this processor does not have `isa`. */
const struct gpt_simd *gpt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype);

/* The same, which must exist. Its gelu is the form of GELU of the model's mlp. */
static inline struct gpt_simd gpt_simd_of(enum dt_cpu_isa isa, enum dt_dtype dtype, enum gpt_mlp_kind mlp)
{
    struct gpt_simd simd = *gpt_simd_for(isa, dtype);
    if (mlp == GPT_MLP_GELU_NEW || mlp == GPT_MLP_RELU) {
        simd.gelu = mlp == GPT_MLP_RELU ? simd.relu : simd.gelu_new;
        simd.gelu_gradient = mlp == GPT_MLP_RELU ? simd.relu_gradient : simd.gelu_new_gradient;
    }
    return simd;
}
