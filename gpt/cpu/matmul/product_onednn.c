#include "gpt/cpu/matmul/product_onednn.h"

#include "gpt/cpu/matmul/onednn.h"
#include "lib/base/grow.h"
#include "lib/kernels/cpu/team.h"

#include <stdlib.h>
#include <string.h>

/* One oneDNN matmul, ready to run. Products that differ only in their pointers share it. */
struct primitive {
    struct gpt_cpu_product shape; /* all pointers NULL, except that `bias` says whether there is one */
    enum dt_dtype dtype;
    bool convert; /* oneDNN has no fast implementation: convert to fp32. `matmul` is NULL */
    dnnl_primitive_t matmul;
    dnnl_memory_t a, b, bias, c, scratch;
    size_t scratch_bytes;
};

struct gpt_onednn {
    enum dt_dtype dtype;
    const struct dt_simd *simd;
    int threads;
    struct dt_onednn onednn;
    struct primitive *primitives;
    int count;
    struct dt_cpu_scratch scratchpad, blocks; /* oneDNN's scratchpad; fp32 blocks of operands that are converted */
};

static dt_status dnnl_failed(const char *what, dnnl_status_t status, const struct gpt_cpu_product *p)
{
    return dt_fail(status == dnnl_out_of_memory ? DT_ERR_HOST_MEMORY : DT_ERR_DEVICE,
                   "oneDNN: %s for a product of [%zu, %zu] and [%zu, %zu]: status %d", what, p->m, p->k, p->k, p->n, (int)status);
}

dt_status gpt_onednn_create(enum dt_dtype dtype, const struct dt_simd *simd, int threads, struct gpt_onednn **out)
{
    *out = NULL;
    struct gpt_onednn *products = calloc(1, sizeof *products);
    DT_TRY(dt_allocated(products, "cpu kernels: no host memory"));
    products->dtype = dtype;
    products->simd = simd;
    products->threads = threads;
    dnnl_status_t status = dt_onednn_create(&products->onednn);
    if (status != dnnl_success) {
        gpt_onednn_destroy(products);
        return dt_fail(DT_ERR_DEVICE, "oneDNN: no cpu engine: status %d", (int)status);
    }
    *out = products;
    return DT_OK;
}

static void destroy_primitive(struct primitive *p)
{
    dnnl_memory_t memories[] = {p->a, p->b, p->bias, p->c, p->scratch};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (p->matmul)
        dnnl_primitive_destroy(p->matmul);
}

void gpt_onednn_destroy(struct gpt_onednn *products)
{
    if (!products)
        return;
    for (int i = 0; i < products->count; i++)
        destroy_primitive(&products->primitives[i]);
    dt_onednn_destroy(&products->onednn);
    free(products->primitives);
    dt_cpu_scratch_free(&products->scratchpad);
    dt_cpu_scratch_free(&products->blocks);
    free(products);
}

/* ---- primitives ---- */

static dnnl_status_t make_attributes(dnnl_primitive_attr_t *out, bool accumulate)
{
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    DT_THEN(status, dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user));
    return status == dnnl_success && accumulate ? dt_onednn_accumulate(*out) : status;
}

/* oneDNN's reference implementations are correct, but slower than converting by orders of
 * magnitude. */
static bool is_reference(const_dnnl_primitive_desc_t desc)
{
    const char *name = "";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) == 0;
}

/* Create memory objects for the operands and the scratchpad of `desc`; a product without bias has
 * one less. */
static dnnl_status_t make_memories(struct gpt_onednn *products, struct primitive *p, const_dnnl_primitive_desc_t desc)
{
    const struct {
        dnnl_memory_t *memory;
        dnnl_query_t operand;
        int index;
    } all[] = {{&p->a, dnnl_query_src_md, 0},
               {&p->b, dnnl_query_weights_md, 0},
               {&p->c, dnnl_query_dst_md, 0},
               {&p->scratch, dnnl_query_scratchpad_md, 0},
               {&p->bias, dnnl_query_weights_md, 1}};
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < (p->shape.bias ? 5 : 4) && status == dnnl_success; i++)
        status = dt_onednn_memory(products->onednn.engine, desc, all[i].operand, all[i].index, all[i].memory,
                                  all[i].memory == &p->scratch ? &p->scratch_bytes : NULL);
    return status;
}

static dnnl_status_t make_matmul(struct gpt_onednn *products, struct primitive *p, dnnl_primitive_attr_t attributes)
{
    const struct gpt_cpu_product *s = &p->shape;
    const dnnl_data_type_t type = p->dtype == DT_BF16 ? dnnl_bf16 : dnnl_f32;
    const struct gpt_onednn_matrix a = {type, s->m, s->k, s->transpose_a, false}, b = {type, s->k, s->n, s->transpose_b, false},
                                   bias = {type, 1, s->n, false, false}, c = {type, s->m, s->n, false, false};
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = gpt_onednn_matmul(products->onednn.engine, &a, &b, s->bias ? &bias : NULL, &c, attributes, &desc);
    if (p->dtype != DT_FP32 && (status == dnnl_unimplemented || (status == dnnl_success && is_reference(desc)))) {
        p->convert = true;
        dnnl_primitive_desc_destroy(desc);
        return dnnl_success;
    }
    DT_THEN(status, dnnl_primitive_create(&p->matmul, desc));
    DT_THEN(status, make_memories(products, p, desc));
    dnnl_primitive_desc_destroy(desc);
    return status;
}

static bool same_shape(const struct gpt_cpu_product *a, const struct gpt_cpu_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->accumulate == b->accumulate && !a->bias == !b->bias;
}

/* A step has about ten shapes, so a linear search takes no measurable time. */
static dt_status find_primitive(struct gpt_onednn *products, enum dt_dtype dtype, const struct gpt_cpu_product *product,
                                struct primitive **out)
{
    for (int i = 0; i < products->count; i++) {
        *out = &products->primitives[i];
        if ((*out)->dtype == dtype && same_shape(&(*out)->shape, product))
            return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ONE_MORE(products->primitives, products->count), "cpu kernels: no host memory"));
    struct primitive *p = &products->primitives[products->count];
    *p = (struct primitive){.shape = *product, .dtype = dtype, .convert = dtype == DT_FP16};
    if (!p->convert) {
        dnnl_primitive_attr_t attributes = NULL;
        dnnl_status_t status = make_attributes(&attributes, product->accumulate);
        DT_THEN(status, make_matmul(products, p, attributes));
        dnnl_primitive_attr_destroy(attributes);
        if (status != dnnl_success) {
            destroy_primitive(p);
            return dnnl_failed("no matmul", status, product);
        }
    }
    products->count++;
    *out = p;
    return DT_OK;
}

static dt_status run_primitive(struct gpt_onednn *products, struct primitive *p, const struct gpt_cpu_product *product)
{
    DT_TRY(dt_cpu_scratch_reserve(&products->scratchpad, p->scratch_bytes));
    /* oneDNN only reads src, weights and bias, but its interface lacks the const. */
    const dnnl_exec_arg_t all[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}, {DNNL_ARG_SCRATCHPAD, p->scratch}, {DNNL_ARG_BIAS, p->bias}};
    void *const data[] = {(void *)product->a, (void *)product->b, product->c, products->scratchpad.data, (void *)product->bias};
    int count = product->bias ? 5 : 4;
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < count && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(all[i].memory, data[i]);
    DT_THEN(status, dnnl_primitive_execute(p->matmul, products->onednn.stream, count, all));
    DT_THEN(status, dnnl_stream_wait(products->onednn.stream));
    return status == dnnl_success ? DT_OK : dnnl_failed("running matmul", status, product);
}

/* ---- operands converted to fp32 ---- */

/* Convert rows x columns to or from dense fp32. In the model's dtype the rows are `stride` elements
 * apart. */
struct conversion {
    const struct dt_simd *simd;
    const void *from;
    void *to;
    size_t rows, columns, stride;
    bool add;
};

static void widen_part(void *argument, int thread, int threads)
{
    const struct conversion *c = argument;
    struct dt_cpu_share share = dt_cpu_share(c->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++)
        c->simd->widen((float *)c->to + r * c->columns, (const char *)c->from + r * c->stride * 2, c->columns);
}

static void narrow_part(void *argument, int thread, int threads)
{
    const struct conversion *c = argument;
    struct dt_cpu_share share = dt_cpu_share(c->rows, 1, thread, threads);
    for (size_t r = share.first; r < share.end; r++) {
        void *to = (char *)c->to + r * c->stride * 2;
        const float *from = (const float *)c->from + r * c->columns;
        (c->add ? c->simd->narrow_add : c->simd->narrow)(to, from, c->columns);
    }
}

/* Convert `here` of an operand's `whole` rows of a (or columns of b), from `first` on. The block is
 * stored transposed if the operand is. in_rows: they are the operand's stored rows, of k elements
 * each; otherwise its stored columns. */
static void widen_block(const struct gpt_onednn *products, float *to, const void *from, size_t first, size_t here, size_t whole, size_t k,
                        bool in_rows)
{
    struct conversion c = {.simd = products->simd, .to = to};
    c.from = (const char *)from + first * (in_rows ? k : 1) * 2;
    c.rows = in_rows ? here : k;
    c.columns = in_rows ? k : here;
    c.stride = in_rows ? k : whole;
    dt_cpu_parallel(products->threads, widen_part, &c);
}

/* Compute c in blocks as large as 64 MiB of fp32 allow. k is never divided, so every sum is rounded
 * once. */
static dt_status multiply_in_fp32(struct gpt_onednn *products, const struct gpt_cpu_product *p)
{
    enum { MOST_FLOATS = 16 << 20, MOST = 2048, LEAST = 16 };
    size_t block = MOST, m = gpt_smaller(p->m, block), n = gpt_smaller(p->n, block);
    while (block > LEAST && (m + n) * p->k + m * n + n > MOST_FLOATS) {
        block /= 2;
        m = gpt_smaller(p->m, block);
        n = gpt_smaller(p->n, block);
    }
    DT_TRY(dt_cpu_scratch_reserve(&products->blocks, ((m + n) * p->k + m * n + n) * sizeof(float)));
    float *a = products->blocks.data, *b = a + m * p->k, *c = b + n * p->k, *bias = c + m * n;

    for (size_t row = 0; row < p->m; row += m) {
        struct gpt_cpu_product part = *p;
        part.m = gpt_smaller(m, p->m - row);
        part.accumulate = false;
        widen_block(products, a, p->a, row, part.m, p->m, p->k, !p->transpose_a);
        for (size_t column = 0; column < p->n; column += n) {
            struct primitive *primitive;
            part.n = gpt_smaller(n, p->n - column);
            widen_block(products, b, p->b, column, part.n, p->n, p->k, p->transpose_b);
            if (p->bias)
                products->simd->widen(bias, (const char *)p->bias + column * 2, part.n);
            part.a = a;
            part.b = b;
            part.bias = p->bias ? bias : NULL;
            part.c = c;
            DT_TRY(find_primitive(products, DT_FP32, &part, &primitive));
            DT_TRY(run_primitive(products, primitive, &part));
            struct conversion back = {products->simd, c, (char *)p->c + (row * p->n + column) * 2, part.m, part.n, p->n, p->accumulate};
            dt_cpu_parallel(products->threads, narrow_part, &back);
        }
    }
    return DT_OK;
}

dt_status gpt_onednn_multiply(struct gpt_onednn *products, const struct gpt_cpu_product *product)
{
    struct primitive *primitive;
    DT_TRY(find_primitive(products, products->dtype, product, &primitive));
    return primitive->convert ? multiply_in_fp32(products, product) : run_primitive(products, primitive, product);
}
