#include "gpt/cpu/matmul/matmul.h"

#include "gpt/cpu/matmul/tiles.h"
#include "lib/kernels/cpu/team.h"

#include <stdlib.h>

/* The largest block: 16 MiB of packed a, 32 MiB of packed b, and 32 MiB of sums if K is longer than
 * one block's. Each packed tile is multiplied once for each 16 lines of the other operand, which
 * takes 16 cycles; packing takes about 100 cycles a tile. So with these sizes packing is a few
 * percent of the time. */
enum { BLOCK_M = 2048, BLOCK_N = 4096, BLOCK_K = 4096 };

struct gpt_matmul {
    const struct gpt_matmul_ops *ops;
    const struct dt_simd *simd;
    int threads;
    struct dt_cpu_scratch a, b, partial, row_sums;
};

dt_status gpt_matmul_create(const struct gpt_matmul_ops *ops, const struct dt_simd *simd, int threads, struct gpt_matmul **out)
{
    struct gpt_matmul *matmul = calloc(1, sizeof *matmul);
    *out = matmul;
    DT_TRY(dt_allocated(matmul, "cpu kernels: no host memory"));
    matmul->ops = ops;
    matmul->simd = simd;
    matmul->threads = threads;
    return DT_OK;
}

void gpt_matmul_destroy(struct gpt_matmul *matmul)
{
    if (!matmul)
        return;
    dt_cpu_scratch_free(&matmul->a);
    dt_cpu_scratch_free(&matmul->b);
    dt_cpu_scratch_free(&matmul->partial);
    dt_cpu_scratch_free(&matmul->row_sums);
    free(matmul);
}

const struct gpt_matmul_ops *gpt_matmul_ops_of(const struct gpt_matmul *matmul)
{
    return matmul->ops;
}

/* ---- one block, on all threads ---- */

struct packing_part {
    const struct gpt_matmul_ops *ops;
    struct gpt_matmul_packing packing;
};

static void pack_part(void *argument, int thread, int threads)
{
    const struct packing_part *p = argument;
    struct dt_cpu_share share = dt_cpu_share(gpt_matmul_strips(p->packing.lines), 1, thread, threads);
    p->ops->pack(&p->packing, share.first, share.end);
}

struct block_part {
    const struct gpt_matmul_ops *ops;
    struct gpt_matmul_block block;
};

static void block_part(void *argument, int thread, int threads)
{
    const struct block_part *p = argument;
    struct dt_cpu_share share = dt_cpu_share(gpt_matmul_groups(p->block.m) * gpt_matmul_strips(p->block.n), 1, thread, threads);
    p->ops->multiply(&p->block, share.first, share.end);
}

/* The start of a block, and its size within the product. */
struct place {
    size_t row, column, depth, m, n, k;
};

static void pack_a(struct gpt_matmul *matmul, const struct gpt_cpu_product *p, const struct place *at)
{
    const uint16_t *a = p->a;
    struct packing_part part = {matmul->ops,
                                {.from = p->transpose_a ? a + at->depth * p->m + at->row : a + at->row * p->k + at->depth,
                                 .stride = p->transpose_a ? p->m : p->k,
                                 .lines = at->m,
                                 .k = at->k,
                                 .k_runs = !p->transpose_a,
                                 .gelu = p->gelu == GPT_CPU_OPERAND_A,
                                 .to = matmul->a.data,
                                 .sums = p->row_sums && at->column == 0 ? matmul->row_sums.data : NULL,
                                 .add_to_sums = at->depth > 0}};
    dt_cpu_parallel(matmul->threads, pack_part, &part);
}

static void pack_b(struct gpt_matmul *matmul, const struct gpt_cpu_product *p, const struct place *at)
{
    const uint16_t *b = p->b;
    struct packing_part part = {matmul->ops,
                                {.from = p->transpose_b ? b + at->column * p->k + at->depth : b + at->depth * p->n + at->column,
                                 .stride = p->transpose_b ? p->k : p->n,
                                 .lines = at->n,
                                 .k = at->k,
                                 .k_runs = p->transpose_b,
                                 .as_b = true,
                                 .gelu = p->gelu == GPT_CPU_OPERAND_B,
                                 .to = matmul->b.data}};
    dt_cpu_parallel(matmul->threads, pack_part, &part);
}

static void multiply_block(struct gpt_matmul *matmul, const struct gpt_cpu_product *p, const struct place *at)
{
    size_t place = at->row * p->n + at->column;
    struct block_part part = {matmul->ops,
                              {.a = matmul->a.data,
                               .b = matmul->b.data,
                               .k_tiles = (at->k + TILE_DEPTH - 1) / TILE_DEPTH,
                               .m = at->m,
                               .n = at->n,
                               .partial = p->k > BLOCK_K ? matmul->partial.data : NULL,
                               .first = at->depth == 0,
                               .last = at->depth + at->k == p->k,
                               .c = (uint16_t *)p->c + place,
                               .ldc = p->n,
                               .bias = p->bias ? (const uint16_t *)p->bias + at->column : NULL,
                               .gelu_of = p->gelu_of ? (const uint16_t *)p->gelu_of + place : NULL,
                               .accumulate = p->accumulate,
                               .residual = p->residual ? (const uint16_t *)p->residual + place : NULL,
                               .dropout = p->dropout,
                               .first_row = at->row,
                               .first_column = at->column}};
    dt_cpu_parallel(matmul->threads, block_part, &part);
}

/* ---- all blocks of a product ---- */

static void store_row_sums(const struct gpt_matmul *matmul, const struct gpt_cpu_product *p, const struct place *at)
{
    uint16_t *to = (uint16_t *)p->row_sums + at->row;
    (p->accumulate ? matmul->simd->narrow_add : matmul->simd->narrow)(to, matmul->row_sums.data, at->m);
}

static dt_status reserve(struct gpt_matmul *matmul, const struct gpt_cpu_product *p)
{
    size_t m = gpt_matmul_strips(gpt_smaller(p->m, BLOCK_M)) * GPT_MATMUL_STRIP,
           n = gpt_matmul_strips(gpt_smaller(p->n, BLOCK_N)) * GPT_MATMUL_STRIP;
    size_t k = (gpt_smaller(p->k, BLOCK_K) + TILE_DEPTH - 1) / TILE_DEPTH * TILE_DEPTH;
    DT_TRY(dt_cpu_scratch_reserve(&matmul->a, m * k * sizeof(uint16_t)));
    DT_TRY(dt_cpu_scratch_reserve(&matmul->b, n * k * sizeof(uint16_t)));
    DT_TRY(dt_cpu_scratch_reserve(&matmul->row_sums, p->row_sums ? m * sizeof(float) : 0));
    return dt_cpu_scratch_reserve(&matmul->partial, p->k > BLOCK_K ? m * n * sizeof(float) : 0);
}

dt_status gpt_matmul_run(struct gpt_matmul *matmul, const struct gpt_cpu_product *p)
{
    DT_TRY(reserve(matmul, p));
    for (size_t column = 0; column < p->n; column += BLOCK_N)
        for (size_t row = 0; row < p->m; row += BLOCK_M) {
            struct place at = {
                .row = row, .column = column, .m = gpt_smaller(p->m - row, BLOCK_M), .n = gpt_smaller(p->n - column, BLOCK_N)};
            for (; at.depth < p->k; at.depth += BLOCK_K) {
                at.k = gpt_smaller(p->k - at.depth, BLOCK_K);
                pack_a(matmul, p, &at);
                if (row == 0 || p->k > BLOCK_K) /* otherwise it was packed for the first row */
                    pack_b(matmul, p, &at);
                multiply_block(matmul, p, &at);
            }
            if (p->row_sums && column == 0)
                store_row_sums(matmul, p, &at);
        }
    return DT_OK;
}
