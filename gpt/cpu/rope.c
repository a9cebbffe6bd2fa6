/* Rotary position embedding: the table of angles, and the pass over q and k. */
#include "gpt/cpu/kernels.h"
#include "gpt/position.h"

#include <math.h>
#include <stdlib.h>

dt_status gpt_cpu_rope_table(const struct dt_model *model, float **out)
{
    size_t T = (size_t)gpt_of(model)->block_size, half = (size_t)gpt_head_width(model) / 2;
    *out = NULL;
    if (gpt_of(model)->position != GPT_POSITION_ROPE)
        return DT_OK;
    if (gpt_head_width(model) % 2)
        return dt_fail(DT_ERR_INVALID, "rope: heads of %d features have no pairs", gpt_head_width(model));
    float *table = malloc(T * 2 * half * sizeof *table);
    DT_TRY(dt_allocated(table, "rope: no host memory for the angles of %zu positions", T));
    for (size_t i = 0; i < half; i++) {
        double frequency = gpt_rope_frequency(model, (int)i);
        for (size_t t = 0; t < T; t++) {
            table[t * 2 * half + i] = (float)cos((double)t * frequency);
            table[t * 2 * half + half + i] = (float)sin((double)t * frequency);
        }
    }
    *out = table;
    return DT_OK;
}

static void rope_rows(const void *kernels, const void *arguments, size_t first, size_t end)
{
    const struct gpt_kernels *k = kernels;
    const struct gpt_rope *a = arguments;
    size_t T = (size_t)gpt_of(&k->model)->block_size, half = (size_t)gpt_head_width(&k->model) / 2;
    for (size_t r = first; r < end; r++) {
        const float *cosines = k->rope + gpt_place_of(&a->positions, T, r).position * 2 * half;
        k->simd.rope(gpt_cpu_row(k, a->x, r, a->columns), a->heads, half, cosines, cosines + half, a->inverse ? -1 : 1);
    }
}

GPT_KERNEL_FUNCTION(gpt_cpu_rope, gpt_rope)
{
    if (!k->rope)
        return dt_fail(DT_ERR_INVALID, "rope: these kernels were created for a model without rope");
    return gpt_cpu_submit_rows(k, stream, "rope", rope_rows, a->rows, a, sizeof *a);
}
