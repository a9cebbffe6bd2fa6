/* Products of bf16 matrices by the processor's tile unit. Operations that follow a product are done
 * where its sums are stored.
 *
 * Source  K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
 *         TOMS 34(3), 2008: operands are packed in the order in which they are read. A block of one
 *         operand stays in a near cache while the other streams past it. Here:
 *
 *   strip   32 lines (rows of op(a), columns of op(b)) over the whole K of a block: for each 32 of
 *           K two tiles of 1 KiB, one after the other
 *   group   GPT_MATMUL_GROUP strips of a times one strip of b, 256 of K at a time: 16 KiB of b stay
 *           in the first-level cache, the strips of a are read from the second-level cache, and the
 *           group's sums (16 KiB) stay near until their K is complete
 *   chunk   as many groups of a as fit into half a megabyte; they are multiplied by each strip of b
 *           before the next chunk
 *   block   what is packed at a time (matmul.c): at most 2048 x 4096 of c, and 4096 of K. With a
 *           longer K the fp32 sums are stored in between.
 *
 * One thread computes each element of c, always in the same order, so results do not depend on the
 * number of threads. Sums are fp32, as the tile unit computes them; c is rounded once.
 *
 * Operands, including weights, are packed for each product: a step without micro-batches uses each
 * packed copy of a weight only once, because it needs each weight once in each of two orders.
 * Packed operands are in scratch memory that the ledger does not count, as oneDNN's scratch memory
 * is, so predictions of memory are the same.
 *
 * The sizes follow measurements of the inner loop alone on a Xeon with AMX. Whole products have not
 * been measured there yet. */
#pragma once

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/matmul/product.h"

enum { GPT_MATMUL_STRIP = 32, GPT_MATMUL_GROUP = 4 };

/* Packing of the strips of one operand, from `lines` x k elements of bf16. Element (line, i) is
 * from[line * stride + i] if k_runs, that is if k is contiguous in memory, and from[i * stride +
 * line] if lines are. The last strip and the last 32 of k are padded with zeros. */
struct gpt_matmul_packing {
    const uint16_t *from;
    size_t stride, lines, k;
    bool k_runs, as_b; /* as_b: the tiles are of b, which interleave pairs of its rows */
    bool gelu;         /* apply GELU to the elements */
    char *to;          /* [strips][k / 32][2] tiles */
    float *sums;       /* [strips * 32] or NULL: sums of each line's elements; only if lines are contiguous in memory */
    bool add_to_sums;
};

/* One block of c, or the part of its sums over one block of K. */
struct gpt_matmul_block {
    const char *a, *b; /* packed */
    size_t k_tiles;
    size_t m, n;    /* size within c's block */
    float *partial; /* NULL: K is complete in this block. [m strips][n strips][32][32]: `first` starts the sums, `last` stores them */
    bool first, last;
    /* The result: [m, n] at c, in rows of ldc elements. */
    uint16_t *c;
    size_t ldc;
    const uint16_t *bias;    /* [n], added; or NULL */
    const uint16_t *gelu_of; /* laid out as c: the sum is multiplied by gelu'(gelu_of); or NULL */
    bool accumulate;         /* add to c's old value */
    /* Laid out as c: added to the sum after dropout; or NULL. first_row and first_column are the
     * block's place in the masks. */
    const uint16_t *residual;
    struct gpt_dropout_rows dropout;
    size_t first_row, first_column;
};

/* The inner loops, one table for each tile unit. They do not allocate and do not fail. */
struct gpt_matmul_ops {
    const char *name; /* "amx", "twin" */
    void (*pack)(const struct gpt_matmul_packing *p, size_t first_strip, size_t end_strip);
    /* Multiply the groups of strips of a by the strips of b, from first_item to end_item: items in
     * the order chunk, strip of b, group. */
    void (*multiply)(const struct gpt_matmul_block *block, size_t first_item, size_t end_item);
};

static inline size_t gpt_matmul_strips(size_t lines)
{
    return (lines + GPT_MATMUL_STRIP - 1) / GPT_MATMUL_STRIP;
}

static inline size_t gpt_matmul_groups(size_t lines)
{
    return (gpt_matmul_strips(lines) + GPT_MATMUL_GROUP - 1) / GPT_MATMUL_GROUP;
}

/* The loops of this name; NULL if this processor, or the system for this process, lacks the
 * instructions. */
const struct gpt_matmul_ops *gpt_matmul_ops_for(const char *name);

struct gpt_matmul; /* scratch memory: at most 80 MiB, and no more than the largest product so far needed */

/* simd: the loops for bf16. Owner: the caller, who destroys. Both tables must outlive it. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status gpt_matmul_create(const struct gpt_matmul_ops *ops, const struct dt_simd *simd, int threads, struct gpt_matmul **out);
void gpt_matmul_destroy(struct gpt_matmul *matmul); /* takes NULL */
const struct gpt_matmul_ops *gpt_matmul_ops_of(const struct gpt_matmul *matmul);

/* The whole product, of bf16 matrices. Runs now, as gpt_cpu_multiply. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status gpt_matmul_run(struct gpt_matmul *matmul, const struct gpt_cpu_product *product);
