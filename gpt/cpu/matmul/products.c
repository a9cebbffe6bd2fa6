/* The choice of how to compute products, and the passes before and after those of oneDNN. */
#include "gpt/cpu/matmul/products.h"

#include "gpt/cpu/matmul/matmul.h"
#include "gpt/cpu/matmul/product_onednn.h"
#include "lib/kernels/cpu/team.h"

#include <stdlib.h>
#include <string.h>

#define PRODUCTS_VARIABLE "DTBENCH_CPU_PRODUCTS"

struct gpt_cpu_products {
    struct gpt_matmul *tiles; /* exactly one of the two exists */
    struct gpt_onednn *onednn;
    const struct dt_simd *flat;
    struct gpt_simd simd;
    enum gpt_mlp_kind mlp; /* the activation that GELU stands for */
    size_t element_bytes;
    int threads;
    struct dt_cpu_scratch sums;
};

/* *out: the tile unit to use, or NULL for oneDNN. */
static dt_status choose(enum dt_dtype dtype, const struct gpt_matmul_ops **out)
{
    const char *wanted = getenv(PRODUCTS_VARIABLE);
    bool given = wanted && *wanted, tiles = given && (strcmp(wanted, "amx") == 0 || strcmp(wanted, "twin") == 0);
    *out = NULL;
    if (given && !tiles && strcmp(wanted, "onednn") != 0)
        return dt_fail(DT_ERR_INVALID, PRODUCTS_VARIABLE " is \"%s\": it can be onednn, amx or twin", wanted);
    if (dtype != DT_BF16 || (given && !tiles))
        return DT_OK;
    *out = gpt_matmul_ops_for(tiles ? wanted : "amx");
    if (tiles && !*out)
        return dt_fail(DT_ERR_UNAVAILABLE,
                       PRODUCTS_VARIABLE "=%s: this processor has no AMX for bf16, or the system does not let this process use it", wanted);
    return DT_OK;
}

dt_status gpt_cpu_products_create(enum dt_dtype dtype, enum dt_cpu_isa isa, enum gpt_mlp_kind mlp, int threads,
                                  struct gpt_cpu_products **out)
{
    const struct gpt_matmul_ops *ops;
    *out = NULL;
    DT_TRY(choose(dtype, &ops));
    DT_DESTROYED(gpt_cpu_products_destroy) struct gpt_cpu_products *products = calloc(1, sizeof *products);
    DT_TRY(dt_allocated(products, "cpu kernels: no host memory"));
    products->flat = dt_simd_for(isa, dtype);
    products->simd = gpt_simd_of(isa, dtype, mlp);
    products->mlp = mlp;
    products->element_bytes = dt_dtype_bytes(dtype);
    products->threads = threads;
    DT_TRY(ops ? gpt_matmul_create(ops, products->flat, threads, &products->tiles)
               : gpt_onednn_create(dtype, products->flat, threads, &products->onednn));
    *out = DT_PASSED_ON(products);
    return DT_OK;
}

void gpt_cpu_products_destroy(struct gpt_cpu_products *products)
{
    if (!products)
        return;
    gpt_matmul_destroy(products->tiles);
    gpt_onednn_destroy(products->onednn);
    dt_cpu_scratch_free(&products->sums);
    free(products);
}

const char *gpt_cpu_products_name(const struct gpt_cpu_products *products)
{
    return products->tiles ? gpt_matmul_ops_of(products->tiles)->name : "onednn";
}

/* ---- passes around oneDNN's products ---- */

struct pass {
    const struct gpt_cpu_products *products;
    const struct gpt_cpu_product *product;
    float *sums; /* [m] */
};

/* One thread sums up a share of the columns of a as stored, over all its rows, so no sum depends on
 * the number of threads. */
static void row_sums_part(void *argument, int thread, int threads)
{
    const struct pass *p = argument;
    size_t m = p->product->m, bytes = p->products->element_bytes;
    struct dt_cpu_share share = dt_cpu_share(m, 64, thread, threads);
    size_t count = share.end - share.first;
    if (count == 0)
        return;
    char *to = (char *)p->product->row_sums + share.first * bytes;
    float *sums = p->sums + share.first;
    p->products->flat->column_sums(sums, (const char *)p->product->a + share.first * bytes, p->product->k, count, m);
    (p->product->accumulate ? p->products->flat->narrow_add : p->products->flat->narrow)(to, sums, count);
}

static void gelu_gradient_part(void *argument, int thread, int threads)
{
    const struct pass *p = argument;
    struct dt_cpu_share share = dt_cpu_share(p->product->m * p->product->n, 256, thread, threads);
    size_t offset_bytes = share.first * p->products->element_bytes;
    p->products->simd.gelu_gradient((char *)p->product->c + offset_bytes, (const char *)p->product->gelu_of + offset_bytes,
                                    share.end - share.first);
}

static void gelu_part(void *argument, int thread, int threads)
{
    const struct pass *p = argument;
    const struct gpt_cpu_product *product = p->product;
    bool is_a = product->gelu == GPT_CPU_OPERAND_A;
    struct dt_cpu_share share = dt_cpu_share((is_a ? product->m : product->n) * product->k, 256, thread, threads);
    size_t offset_bytes = share.first * p->products->element_bytes;
    p->products->simd.gelu((char *)product->active + offset_bytes, (const char *)(is_a ? product->a : product->b) + offset_bytes,
                           share.end - share.first);
}

static void residual_part(void *argument, int thread, int threads)
{
    const struct pass *p = argument;
    const struct gpt_cpu_product *product = p->product;
    size_t row_bytes = product->n * p->products->element_bytes;
    struct dt_cpu_share share = dt_cpu_share(product->m, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        struct gpt_dropout_row row = gpt_dropout_row_of(&product->dropout, r);
        void *c = (char *)product->c + r * row_bytes;
        p->products->simd.dropout_residual(c, (const char *)product->residual + r * row_bytes, c, product->n, &row);
    }
}

/* Multiply, after applying GELU to an operand if the product asks for it. */
static dt_status multiply(struct gpt_cpu_products *products, const struct gpt_cpu_product *product, struct pass *pass)
{
    struct gpt_cpu_product active = *product;
    if (product->gelu != GPT_CPU_NO_OPERAND) {
        dt_cpu_parallel(products->threads, gelu_part, pass);
        *(product->gelu == GPT_CPU_OPERAND_A ? &active.a : &active.b) = product->active;
    }
    active.gelu = GPT_CPU_NO_OPERAND;
    active.gelu_of = NULL;
    return products->tiles ? gpt_matmul_run(products->tiles, &active) : gpt_onednn_multiply(products->onednn, &active);
}

/* The tile code has only the exact form of GELU. */
dt_status gpt_cpu_multiply(struct gpt_cpu_products *products, const struct gpt_cpu_product *product)
{
    bool apart = products->mlp != GPT_MLP_GELU && (product->gelu != GPT_CPU_NO_OPERAND || product->gelu_of);
    if (products->tiles && !apart)
        return gpt_matmul_run(products->tiles, product);
    struct pass pass = {.products = products, .product = product};
    if (product->row_sums && !products->tiles) {
        DT_TRY(dt_cpu_scratch_reserve(&products->sums, product->m * sizeof(float)));
        pass.sums = products->sums.data;
        dt_cpu_parallel(products->threads, row_sums_part, &pass);
    }
    DT_TRY(multiply(products, product, &pass));
    if (product->gelu_of)
        dt_cpu_parallel(products->threads, gelu_gradient_part, &pass);
    if (product->residual && !products->tiles)
        dt_cpu_parallel(products->threads, residual_part, &pass);
    return DT_OK;
}
