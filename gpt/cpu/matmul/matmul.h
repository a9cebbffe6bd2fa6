/* Products of bf16 matrices by the processor's tile unit, with what follows a product done where its sums are stored.
 *
 * Source  K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008: operands are packed into
 * the order in which they are read, a block of one stays in a near cache while the other streams past it. Here:
 *
 *   strip   32 lines (rows of op(a), columns of op(b)) over all of a block's K: for each 32 of K two tiles of 1 KiB, one after the other
 *   group   GPT_MATMUL_GROUP strips of a against one strip of b: 256 of K at a time, so that 16 KiB of b stay in the first-level cache
 *           while the strips of a come from the second level; the group's sums (16 KiB) stay near, too, until their K is complete
 *   chunk   as many groups of a as half a megabyte holds: they meet each strip of b before the next chunk
 *   block   what is packed at a time (matmul.c): at most 2048 x 4096 of c, and 4096 of K. A longer K leaves fp32 sums in between.
 *
 * Each element of c is made by one thread in the same order, so that results do not depend on the number of threads. Sums are fp32, as the
 * tile unit makes them; c is rounded once.
 *
 * Operands are packed for each product, weights too: a step without micro-batches needs each weight once in each of two orders, so that a
 * packed copy would be used once. What is packed lies in scratch memory beside the ledger, as oneDNN's own does, so predictions of memory
 * stay as they are.
 *
 * The sizes follow measurements of the inner loop alone on a Xeon with AMX. Of whole products there nothing is measured yet. */
#ifndef GPT_CPU_MATMUL_H
#define GPT_CPU_MATMUL_H

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/matmul/product.h"

enum { GPT_MATMUL_STRIP = 32, GPT_MATMUL_GROUP = 4 };

/* Strips of one operand, from `lines` x k elements of bf16: element (line, i) is from[line * stride + i] where k runs along memory, and
 * from[i * stride + line] where lines do. What is missing of the last strip and of the last 32 of k becomes zero. */
struct gpt_matmul_packing {
    const uint16_t *from;
    size_t stride, lines, k;
    bool k_runs, as_b; /* the tiles of b hold pairs of its rows in turns */
    bool gelu;         /* elements go through GELU */
    char *to;          /* [strips][k / 32][2] tiles */
    float *sums;       /* [strips * 32] or NULL: of each line's elements; only where lines run along memory */
    bool add_to_sums;
};

/* One block of c, or the part of its sums over one block of K. */
struct gpt_matmul_block {
    const char *a, *b; /* packed */
    size_t k_tiles;
    size_t m, n;    /* of c's block */
    float *partial; /* NULL: K is complete here. [m strips][n strips][32][32]: begun with `first`, stored with `last` */
    bool first, last;
    /* What is stored: [m, n] at c, in rows of ldc elements. */
    uint16_t *c;
    size_t ldc;
    const uint16_t *bias;    /* [n], added; or NULL */
    const uint16_t *gelu_of; /* laid out as c: the sum is multiplied by gelu'(gelu_of); or NULL */
    bool accumulate;         /* c's old value is added */
    /* Laid out as c: added to the sum after dropout; or NULL. The block's first row and column count in the masks. */
    const uint16_t *residual;
    struct gpt_dropout_rows dropout;
    size_t first_row, first_column;
};

/* The inner loops, once for each tile unit. They neither allocate nor fail. */
struct gpt_matmul_ops {
    const char *name; /* "amx", "twin" */
    void (*pack)(const struct gpt_matmul_packing *p, size_t first_strip, size_t end_strip);
    /* The groups of strips of a times the strips of b: items in the order chunk, strip of b, group. */
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

/* The loops of this name; NULL where this processor, or the system for this process, does not have their instructions. */
const struct gpt_matmul_ops *gpt_matmul_ops_for(const char *name);

struct gpt_matmul; /* scratch memory: at most 80 MiB, and not more than the largest product so far needed */

/* simd: bf16's loops. Owner: the caller, who destroys. Both tables outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_matmul_create(const struct gpt_matmul_ops *ops, const struct dt_simd *simd, int threads, struct gpt_matmul **out);
void gpt_matmul_destroy(struct gpt_matmul *matmul); /* takes NULL */
const struct gpt_matmul_ops *gpt_matmul_ops_of(const struct gpt_matmul *matmul);

/* All of the product, of bf16 matrices. Runs now, as gpt_cpu_multiply. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_matmul_run(struct gpt_matmul *matmul, const struct gpt_cpu_product *product);

#endif
