/* Rotary position embedding: the table of angles, and the pass over q and k. */
#include "gpt/cpu/kernels.h"
#include "gpt/position.h"
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/team.h"

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
    if (!table)
        return dt_fail(DT_ERR_HOST_MEMORY, "rope: no host memory for the angles of %zu positions", T);
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

struct rope_task {
    struct gpt_kernels *k;
    struct gpt_rope a;
};

static void rope_part(void *argument, int thread, int threads)
{
    const struct rope_task *t = argument;
    size_t T = (size_t)gpt_of(&t->k->model)->block_size, half = (size_t)gpt_head_width(&t->k->model) / 2;
    struct dt_cpu_share share = dt_cpu_share(t->a.rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        const float *cosines = t->k->rope + r % T * 2 * half;
        t->k->simd.rope(gpt_cpu_row(t->k, t->a.x, r, t->a.columns), t->a.heads, half, cosines, cosines + half, t->a.inverse ? -1 : 1);
    }
}

static dt_status run_rope(void *arguments)
{
    struct rope_task *t = arguments;
    dt_cpu_parallel(t->k->threads, rope_part, t);
    return DT_OK;
}

GPT_KERNEL_FUNCTION(gpt_cpu_rope, gpt_rope)
{
    struct rope_task t = {k, *a};
    if (!k->rope)
        return dt_fail(DT_ERR_INVALID, "rope: the kernels are of a model without");
    return dt_cpu_submit(stream, "rope", run_rope, &t, sizeof t);
}
