/* Causal self-attention on the CPU: the threads' scratch memory, and the division of work by
 * samples and heads. */
#include "gpt/cpu/attention/tile.h"

#include <stdlib.h>

/* Give out `bytes` of the scratch at *offset. With memory NULL, only count them. */
static void *take(char *memory, size_t *offset, size_t bytes)
{
    void *piece = memory ? memory + *offset : NULL;
    /* one cache line more, so that buffers of equal size do not all start at the same place of a
     * page */
    *offset += (bytes + 63) / 64 * 64 + 64;
    return piece;
}

/* Place the buffers of one thread's scratch in `memory`. With memory NULL, only count the bytes. */
static size_t lay_out(const struct gpt_cpu_attention *a, char *memory, struct gpt_attention_scratch *s)
{
    size_t element = 4 / (size_t)a->ops->depth, offset = 0;
    size_t rows = (size_t)a->padded_rows, width = (size_t)a->padded_width, panels = (width + 63) / 64 * 64;
    size_t tile = GPT_TILE_ROWS * (size_t)a->chunk;
    s->rows = take(memory, &offset, rows * width * element);
    s->keys = take(memory, &offset, rows * width * element);
    s->values = take(memory, &offset, rows * panels * element);
    s->keys_plain = take(memory, &offset, rows * panels * element);
    s->query = take(memory, &offset, GPT_TILE_ROWS * width * element);
    s->query_transposed = take(memory, &offset, GPT_TILE_ROWS * width * element);
    s->dout = take(memory, &offset, GPT_TILE_ROWS * width * element);
    s->dout_transposed = take(memory, &offset, GPT_TILE_ROWS * width * element);
    s->scores = take(memory, &offset, tile * sizeof(float));
    s->dprobabilities = take(memory, &offset, tile * sizeof(float));
    s->probabilities = take(memory, &offset, tile * element);
    s->dscores = take(memory, &offset, tile * element);
    s->dscores_panels = take(memory, &offset, tile * element);
    s->output = take(memory, &offset, GPT_TILE_ROWS * width * sizeof(float));
    s->dkeys = take(memory, &offset, rows * width * sizeof(float));
    s->dvalues = take(memory, &offset, rows * width * sizeof(float));
    for (int i = 0; i < 3; i++)
        s->row[i] = take(memory, &offset, GPT_TILE_ROWS * sizeof(float));
    s->turns = take(memory, &offset, (rows / (size_t)a->chunk + 1) * sizeof *s->turns);
    return (offset + 4095) / 4096 * 4096;
}

dt_status gpt_cpu_attention_create_with(const struct dt_model *model, int threads, const struct gpt_tile_ops *ops,
                                        struct gpt_cpu_attention **out)
{
    *out = NULL;
    if (threads < 1 || gpt_of(model)->heads < 1 || gpt_of(model)->hidden < 1 || gpt_of(model)->hidden % gpt_of(model)->heads ||
        gpt_of(model)->block_size < 1)
        return dt_fail(DT_ERR_INVALID,
                       "attention: hidden %d, heads %d, block size %d, %d threads: heads must divide hidden, all be positive",
                       gpt_of(model)->hidden, gpt_of(model)->heads, gpt_of(model)->block_size, threads);
    if (gpt_kv_heads(model) < 1 || gpt_of(model)->heads % gpt_kv_heads(model))
        return dt_fail(DT_ERR_INVALID, "attention: %d heads for %d heads of keys and values, which must divide them", gpt_of(model)->heads,
                       gpt_kv_heads(model));
    DT_DESTROYED(gpt_cpu_attention_destroy) struct gpt_cpu_attention *a = calloc(1, sizeof *a);
    DT_TRY(dt_allocated(a, "attention: out of memory"));
    a->model = *model;
    a->ops = ops;
    a->threads = threads;
    a->group = gpt_of(model)->heads / gpt_kv_heads(model);
    a->width = gpt_of(model)->hidden / gpt_of(model)->heads;
    a->padded_width = gpt_tile_round(a->width);
    a->padded_rows = (gpt_of(model)->block_size + GPT_TILE_ROWS - 1) / GPT_TILE_ROWS * GPT_TILE_ROWS;
    a->chunk = gpt_of(model)->attention == GPT_ATTENTION_UNFUSED || a->padded_rows < GPT_TILE_KEYS ? a->padded_rows : GPT_TILE_KEYS;
    a->scratch = calloc((size_t)threads, sizeof *a->scratch);
    size_t bytes = a->scratch ? lay_out(a, NULL, a->scratch) : 0;
    a->scratch_bytes = bytes * (size_t)threads;
    a->memory = a->scratch ? aligned_alloc(4096, a->scratch_bytes) : NULL;
    DT_TRY(dt_allocated(a->memory, "attention: no memory for the scratch of %d threads", threads));
    for (int i = 0; i < threads; i++)
        lay_out(a, (char *)a->memory + bytes * (size_t)i, &a->scratch[i]);
    *out = DT_PASSED_ON(a);
    return DT_OK;
}

dt_status gpt_cpu_attention_create(const struct dt_model *model, int threads, struct gpt_cpu_attention **out)
{
    return gpt_cpu_attention_create_with(model, threads, gpt_tile_ops_for(model->dtype, 0), out);
}

void gpt_cpu_attention_destroy(struct gpt_cpu_attention *a)
{
    if (!a)
        return;
    free(a->memory);
    free(a->scratch);
    free(a);
}

/* Every head of a call needs its kv head in the call, and every kv head of the call needs a
 * head. */
static dt_status check_heads(const struct gpt_cpu_attention *a, const struct gpt_part *heads, const struct gpt_part *kv_heads)
{
    size_t group = (size_t)a->group;
    if (heads->count > 0 && heads->first / group == kv_heads->first &&
        (heads->first + heads->count - 1) / group == kv_heads->first + kv_heads->count - 1)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "attention: heads %zu to %zu read other kv heads than the %zu from %zu on", heads->first,
                   heads->first + heads->count, kv_heads->count, kv_heads->first);
}

/* Each worker takes the next (sample, head) when it is free. The result does not depend on which
 * worker computes it. */
dt_status gpt_cpu_attention_forward(struct gpt_cpu_attention *a, const struct gpt_attention_forward *x)
{
    if (gpt_of(&a->model)->attention == GPT_ATTENTION_FUSED ? !x->lse : !x->weights)
        return dt_fail(DT_ERR_INVALID, "attention forward: fused needs lse, unfused needs weights");
    DT_TRY(check_heads(a, &x->heads, &x->kv_heads));
    size_t heads = x->heads.count, pairs = x->samples * heads, next = 0;
#pragma omp parallel for num_threads(a->threads) schedule(static, 1)
    for (int worker = 0; worker < a->threads; worker++) {
        a->scratch[worker].packed = 0;
        for (size_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < pairs;)
            gpt_attention_forward_pair(a, &a->scratch[worker], x, i / heads, (int)(i % heads));
    }
    return DT_OK;
}

/* The same by (sample, kv head), because its gradients are sums over its heads, in their order.
 * After each thread has computed equally many groups, all threads compute the remaining groups
 * together; but with keys of only some ranks one thread computes each group. */
dt_status gpt_cpu_attention_backward(struct gpt_cpu_attention *a, const struct gpt_attention_backward *x)
{
    if (gpt_of(&a->model)->attention == GPT_ATTENTION_FUSED ? !x->lse || !x->out : !x->weights)
        return dt_fail(DT_ERR_INVALID, "attention backward: fused needs out and lse, unfused needs weights");
    DT_TRY(check_heads(a, &x->heads, &x->kv_heads));
    size_t kv_heads = x->kv_heads.count, groups = x->samples * kv_heads, alone = groups - groups % (size_t)a->threads, next = 0;
    if (x->piece.key_ranks < x->piece.ranks)
        alone = groups;
#pragma omp parallel for num_threads(a->threads) schedule(static, 1)
    for (int worker = 0; worker < a->threads; worker++)
        for (size_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < alone;)
            gpt_attention_backward_group(a, &a->scratch[worker], x, i / kv_heads, (int)(i % kv_heads));
    for (size_t i = alone; i < groups; i++)
        gpt_attention_backward_group_shared(a, x, i / kv_heads, (int)(i % kv_heads));
    return DT_OK;
}
