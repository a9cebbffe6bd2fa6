/* Kernels of the sim device: they accept all arguments and compute nothing. The callers allocate
 * the same memory as on other devices. If the device has costs (lib/device/sim.h), each kernel adds
 * its work to the recorded program. */
#include "gpt/cost/kept.h"
#include "gpt/kernels.h"
#include "lib/cost/cost.h"
#include "lib/device/sim.h"

#include <math.h>
#include <stdlib.h>

/* A matrix product and its time. Kept because a stage calls the same few products very often. */
struct known_product {
    double batch, seconds;
    size_t m, n, inner, left_elems, right_elems;
    double fp8_speed; /* of dt_fp8_recipe; 0: not in FP8 */
};

enum { KNOWN_PRODUCTS = 64 };

struct gpt_kernels {
    const struct dt_model *model;
    const struct dt_costs *costs; /* NULL: all kernels are free */
    int shift;                    /* from GPT_KERNEL_... to the profile's numbers */
    double element_bytes;
    bool counts_workspace;                         /* the device stands for a GPU */
    struct known_product products[KNOWN_PRODUCTS]; /* hash table, indexed by the hash of the shape; m 0: empty */
};

static dt_status cost_create(struct dt_kernels *base, const struct dt_model *model, struct gpt_kernels **out)
{
    *out = calloc(1, sizeof **out);
    DT_TRY(dt_allocated(*out, "kernels of the sim device: no memory"));
    (*out)->model = model;
    (*out)->costs = dt_sim_costs_of(base->device);
    (*out)->shift = (*out)->costs ? (*out)->costs->shift : 0;
    (*out)->element_bytes = (double)dt_dtype_bytes(model->dtype);
    (*out)->counts_workspace = dt_sim_stands_for_gpu(base->device);
    return DT_OK;
}

static void cost_destroy(struct gpt_kernels *kernels)
{
    free(kernels);
}

/* ---- the work of a kernel in the recorded program ---- */

static enum dt_variant dropped(const struct gpt_dropout *dropout)
{
    return dropout->probability > 0 ? DT_VARIANT_DROPOUT : DT_VARIANT_PLAIN;
}

/* A kernel over [rows, columns]; columns 1: an elementwise kernel. */
static dt_status by_rows(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, enum dt_variant variant, double rows,
                         double columns)
{
    return dt_cost_memory_bound(k->costs, stream, &(struct dt_cost_call){k->shift + kind, variant, k->model->dtype, {rows, columns, 1}},
                                rows * columns, 0);
}

/* A kernel over the token rows [samples * positions, d] and `entries` rows of the two tables. */
static dt_status lookup(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t samples, size_t table_rows,
                        const struct gpt_dropout *dropout)
{
    double rows = (double)(samples * gpt_positions_count(&dropout->positions, k->model)), d = gpt_of(k->model)->hidden,
           entries = (double)table_rows;
    return dt_cost_memory_bound(k->costs, stream,
                                &(struct dt_cost_call){k->shift + kind, dropped(dropout), k->model->dtype, {rows, d, entries}}, rows * d,
                                entries * d);
}

static double seconds_of(const struct gpt_kernels *k, const struct known_product *p)
{
    double m = (double)p->m, n = (double)p->n, inner = (double)p->inner;
    if (p->fp8_speed > 0)
        return dt_cost_fp8_product_s(k->costs, m, n, inner, p->left_elems, p->right_elems, p->fp8_speed);
    return dt_cost_product_s(k->costs, p->batch, m, n, inner, p->left_elems, p->right_elems, (size_t)k->element_bytes);
}

static double product_s(struct gpt_kernels *k, double fp8_speed, double batch, size_t m, size_t n, size_t inner, size_t left_elems,
                        size_t right_elems)
{
    uint64_t shape = ((((m * 31 + n) * 31 + inner) * 31 + left_elems) * 31 + right_elems) * 2 + (fp8_speed > 0);
    struct known_product *known = &k->products[(shape * 0x9E3779B97F4A7C15u >> 32) % KNOWN_PRODUCTS]; /* Knuth's multiplicative hash */
    if (known->m != m || known->n != n || known->inner != inner || known->left_elems != left_elems || known->right_elems != right_elems ||
        known->batch != batch || known->fp8_speed != fp8_speed) {
        *known = (struct known_product){batch, 0, m, n, inner, left_elems, right_elems, fp8_speed};
        known->seconds = seconds_of(k, known);
    }
    return known->seconds;
}

/* The number of products into which the framework divides one of dtbench's: up to three for q, k
 * and v, two for gate and up. All have the mean size. */
static int parts_of(const struct gpt_kernels *k, int joined)
{
    int most = k->costs->profile.gemm.qkv_products;
    return joined > most ? most : joined > 1 ? joined : 1;
}

static const struct dt_fp8_recipe *recipe_of(const struct gpt_kernels *k, int joined)
{
    return dt_fp8_recipe(joined > 0 ? k->model->fp8 : DT_FP8_NONE);
}

/* What a product in FP8 casts first: a tensor of `elems` elements as `first` says, and a weight of
 * weight_elems as `second` says. */
static struct dt_fp8_cast casts(struct dt_fp8_cast first, double elems, struct dt_fp8_cast second, double weight_elems)
{
    return (struct dt_fp8_cast){first.kernels + second.kernels, first.bytes * elems + second.bytes * weight_elems};
}

/* One of the three products of a weight [out, in], as `parts` equal pieces of piece_s seconds each.
 * Adds the profile's extra passes over `elems` and over the weight, and the bytes of casts. */
static dt_status product(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t out, size_t in, int parts,
                         double piece_s, double elems, struct dt_fp8_cast cast)
{
    const struct dt_kernel_cost *cost = &k->costs->profile.kernels[k->shift + kind];
    double weight_passes = kind == GPT_KERNEL_LINEAR_WEIGHT_GRADIENT && k->costs->new_gradients ? 0 : cost->other_passes;
    double bytes = (cost->passes * elems + weight_passes * (double)out * (double)in) * k->element_bytes;
    double beside_s = bytes > 0 ? dt_cost_memory_s(k->costs, 0, bytes) : 0;
    beside_s += dt_cost_memory_s(k->costs, cast.kernels, cast.bytes);
    return dt_cost_work(k->costs, stream, k->shift + kind, cost->launches * parts + cast.kernels, piece_s * parts + beside_s);
}

/* ---- the kernels ---- */

/* Kernels that the list marks UNCOSTED are free. Those that are fused with a product have a cost,
 * below. */
#define FREE(entry, arguments)                                                                                                             \
    static GPT_KERNEL_FUNCTION(cost_##entry, arguments)                                                                                    \
    {                                                                                                                                      \
        return DT_OK;                                                                                                                      \
    }
FREE(tokens, gpt_tokens)
FREE(move, gpt_move)

static GPT_KERNEL_FUNCTION(cost_embedding, gpt_embedding)
{
    return lookup(k, stream, GPT_KERNEL_EMBEDDING, a->samples, a->vocab.count + a->positions.count, &a->dropout);
}

static GPT_KERNEL_FUNCTION(cost_embedding_gradient, gpt_embedding_gradient)
{
    return lookup(k, stream, GPT_KERNEL_EMBEDDING_GRADIENT, a->samples, a->vocab.count + a->positions.count, &a->dropout);
}

/* Columns of q, k and v together, by the number of heads. */
static double head_columns(const struct gpt_kernels *k, size_t heads, size_t kv_heads)
{
    return (double)(heads + 2 * kv_heads) * gpt_head_width(k->model);
}

/* Kernels over rows. */
#define OVER_ROWS(entry, arguments, kind, variant, rows, columns)                                                                          \
    static GPT_KERNEL_FUNCTION(cost_##entry, arguments)                                                                                    \
    {                                                                                                                                      \
        return by_rows(k, stream, GPT_KERNEL_##kind, variant, (double)(rows), (double)(columns));                                          \
    }
OVER_ROWS(layer_norm, gpt_norm, LAYER_NORM, DT_VARIANT_PLAIN, a->rows, a->d)
OVER_ROWS(layer_norm_gradient, gpt_norm_gradient, LAYER_NORM_GRADIENT, DT_VARIANT_PLAIN, a->rows, a->d)
OVER_ROWS(rms_norm, gpt_norm, RMS_NORM, DT_VARIANT_PLAIN, a->rows, a->d)
OVER_ROWS(rms_norm_gradient, gpt_norm_gradient, RMS_NORM_GRADIENT, DT_VARIANT_PLAIN, a->rows, a->d)
OVER_ROWS(head_norm, gpt_head_norm, HEAD_NORM, DT_VARIANT_PLAIN, a->rows, head_columns(k, a->heads, a->kv_heads))
OVER_ROWS(head_norm_gradient, gpt_head_norm_gradient, HEAD_NORM_GRADIENT, DT_VARIANT_PLAIN, a->rows, head_columns(k, a->heads, a->kv_heads))
OVER_ROWS(swiglu, gpt_swiglu, SWIGLU, DT_VARIANT_PLAIN, a->rows, a->f)
OVER_ROWS(swiglu_gradient, gpt_swiglu_gradient, SWIGLU_GRADIENT, DT_VARIANT_PLAIN, a->rows, a->f)
OVER_ROWS(rope_once, gpt_rope, ROPE, DT_VARIANT_PLAIN, a->rows, gpt_head_width(k->model) * (double)a->heads)
OVER_ROWS(gelu, gpt_gelu, GELU, DT_VARIANT_PLAIN, a->count, 1)
OVER_ROWS(gelu_gradient, gpt_gelu_gradient, GELU_GRADIENT, DT_VARIANT_PLAIN, a->count, 1)
OVER_ROWS(dropout_residual, gpt_dropout_residual, DROPOUT_RESIDUAL, dropped(&a->dropout), a->rows, gpt_of(k->model)->hidden)
OVER_ROWS(dropout_gradient, gpt_dropout_gradient, DROPOUT_GRADIENT, dropped(&a->dropout), a->rows, gpt_of(k->model)->hidden)
OVER_ROWS(loss, gpt_loss, LOSS, DT_VARIANT_PLAIN, a->rows, gpt_of(k->model)->vocab_size)
/* Each of the two kernels has half the cost of loss, on this rank's columns. */
OVER_ROWS(loss_part, gpt_loss_part, LOSS, DT_VARIANT_PLAIN, (double)a->rows / 2, a->vocab.count)
OVER_ROWS(loss_gradient, gpt_loss_gradient, LOSS, DT_VARIANT_PLAIN, (double)a->rows / 2, a->vocab.count)
#undef OVER_ROWS

/* ---- products ---- */

/* Queue one of the three products of a weight [out, in] if it was measured. *parts: the number of
 * pieces in which the caller must queue it; 0: it is queued already, or free. */
static dt_status begin_linear(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, enum dt_variant variant,
                              size_t rows, size_t out, size_t in, int joined, int *parts)
{
    const struct dt_cost_call c = {k->shift + kind, variant, k->model->dtype, {(double)rows, (double)out, (double)in}};
    bool measured;
    *parts = 0;
    if (!k->costs)
        return DT_OK;
    DT_TRY(dt_cost_measured(k->costs, stream, &c, &measured));
    *parts = measured ? 0 : parts_of(k, joined);
    return DT_OK;
}

static GPT_KERNEL_FUNCTION(cost_linear, gpt_linear)
{
    int parts;
    DT_TRY(begin_linear(k, stream, GPT_KERNEL_LINEAR, DT_VARIANT_PLAIN, a->rows, a->out, a->in, a->joined, &parts));
    if (parts == 0)
        return DT_OK;
    size_t out = a->out / (size_t)parts;
    const struct dt_fp8_recipe *recipe = recipe_of(k, a->joined);
    double weight_elems = k->costs->fp8_weight_part * (double)a->out * (double)a->in;
    return product(k, stream, GPT_KERNEL_LINEAR, a->out, a->in, parts, product_s(k, recipe->speed, 1, a->rows, out, a->in, a->in, out),
                   (double)a->rows * (double)a->out, casts(recipe->input, (double)a->rows * (double)a->in, recipe->weight, weight_elems));
}

/* Backward turns each layer's gradients back once. Before that come k's product and rope where a
 * framework computes them again; a->heads are those of q and k. */
static GPT_KERNEL_FUNCTION(cost_rope, gpt_rope)
{
    if (a->inverse && k->costs && k->costs->keys_again) {
        size_t kv_heads = a->heads * (size_t)gpt_kv_heads(k->model) / (size_t)(gpt_of(k->model)->heads + gpt_kv_heads(k->model));
        DT_TRY(cost_linear(
            k, stream,
            &(struct gpt_linear){
                .rows = a->rows, .in = (size_t)gpt_of(k->model)->hidden, .out = kv_heads * (size_t)gpt_head_width(k->model), .joined = 1}));
        DT_TRY(cost_rope_once(k, stream, a));
    }
    return cost_rope_once(k, stream, a);
}

static GPT_KERNEL_FUNCTION(cost_linear_input_gradient, gpt_linear_input_gradient)
{
    int parts;
    DT_TRY(begin_linear(k, stream, GPT_KERNEL_LINEAR_INPUT_GRADIENT, DT_VARIANT_PLAIN, a->rows, a->out, a->in, a->joined, &parts));
    if (parts == 0)
        return DT_OK;
    size_t out = a->out / (size_t)parts;
    const struct dt_fp8_recipe *recipe = recipe_of(k, a->joined);
    return product(k, stream, GPT_KERNEL_LINEAR_INPUT_GRADIENT, a->out, a->in, parts,
                   product_s(k, recipe->speed, 1, a->rows, a->in, out, out, a->in), (double)a->rows * (double)a->in,
                   casts(recipe->gradient, (double)a->rows * (double)a->out, recipe->weight_again, (double)a->out * (double)a->in));
}

static GPT_KERNEL_FUNCTION(cost_linear_weight_gradient, gpt_linear_weight_gradient)
{
    enum dt_variant variant = a->accumulate ? DT_VARIANT_ACCUMULATE : DT_VARIANT_PLAIN;
    int parts;
    DT_TRY(begin_linear(k, stream, GPT_KERNEL_LINEAR_WEIGHT_GRADIENT, variant, a->rows, a->out, a->in, a->joined, &parts));
    if (parts == 0)
        return DT_OK;
    size_t out = a->out / (size_t)parts;
    /* some frameworks make a weight's gradient in a separate buffer before they add it */
    struct dt_buffer apart;
    double apart_bytes = k->costs->profile.memory.gradient_copies * k->element_bytes * (double)out * (double)a->in;
    DT_TRY(dt_alloc(stream, DT_WORKSPACE, (size_t)apart_bytes, &apart));
    dt_free(stream, &apart);
    const struct dt_fp8_recipe *recipe = recipe_of(k, a->joined);
    return product(k, stream, GPT_KERNEL_LINEAR_WEIGHT_GRADIENT, a->out, a->in, parts,
                   product_s(k, recipe->speed, 1, out, a->in, a->rows, out, a->in), (double)a->rows * (double)a->out,
                   casts(recipe->input_again, (double)a->rows * (double)a->in, (struct dt_fp8_cast){0}, 0));
}

/* The frameworks that profiles describe compute these in several kernels. */
static GPT_KERNEL_FUNCTION(cost_linear_gelu_input_gradient, gpt_linear_gelu_input_gradient)
{
    DT_TRY(cost_linear_input_gradient(k, stream, &a->linear));
    return cost_gelu_gradient(k, stream, &(struct gpt_gelu_gradient){a->linear.dx, a->hidden, a->linear.rows * a->linear.in});
}

static GPT_KERNEL_FUNCTION(cost_linear_gelu_weight_gradient, gpt_linear_gelu_weight_gradient)
{
    DT_TRY(cost_gelu(k, stream, &(struct gpt_gelu){a->active, a->linear.x, a->linear.rows * a->linear.in}));
    return cost_linear_weight_gradient(k, stream, &a->linear);
}

/* The workspace of a GPU's kernels, allocated while they run. */
static dt_status use_workspace(const struct gpt_kernels *k, struct dt_stream *stream, size_t bytes)
{
    struct dt_buffer workspace;
    if (!bytes || !k->counts_workspace)
        return DT_OK;
    DT_TRY(dt_alloc(stream, DT_WORKSPACE, bytes, &workspace));
    dt_free(stream, &workspace);
    return DT_OK;
}

/* Attention: for each head to_square products that make [T, T], from_square that read it, and the
 * profile's passes. Fused attention stores no [T, T] array and skips what the causal mask hides. */
static dt_status attention(struct gpt_kernels *k, struct dt_stream *stream, enum gpt_kernel_kind kind, size_t samples, size_t heads,
                           size_t kv_heads, const struct gpt_dropout *dropout, int to_square, int from_square,
                           const struct gpt_piece *piece)
{
    enum { JOINING_PASSES = 3 }; /* read the old result and the new one, write their sum */
    bool measured;
    size_t queries = gpt_positions_count(&piece->queries, k->model),
           keys = piece->queries.count ? queries * (size_t)piece->key_ranks : queries;
    size_t arrays = kind == GPT_KERNEL_ATTENTION_GRADIENT ? 2 : 1; /* keys, and their gradients */
    DT_TRY(use_workspace(k, stream, arrays * gpt_ordered_bytes(k->model, piece, samples, kv_heads)));
    if (!k->costs)
        return DT_OK;
    double batch = (double)samples * (double)heads;
    const struct dt_cost_call c = {
        k->shift + kind,
        gpt_of(k->model)->attention == GPT_ATTENTION_UNFUSED ? DT_VARIANT_UNFUSED : dropped(dropout),
        k->model->dtype,
        {batch, sqrt((double)queries * (double)keys), (double)gpt_of(k->model)->hidden / gpt_of(k->model)->heads}};
    DT_TRY(dt_cost_measured(k->costs, stream, &c, &measured));
    if (measured)
        return DT_OK;
    const struct dt_kernel_cost *cost = &k->costs->profile.kernels[k->shift + kind];
    const struct dt_model *model = k->model;
    size_t width = (size_t)(gpt_of(model)->hidden / gpt_of(model)->heads);
    double square = batch * (double)queries * (double)keys;
    /* mean over q, k, v and the output, which differ if k and v have fewer rows */
    double rows = (2 * (double)heads * (double)queries + 2 * (double)kv_heads * (double)keys) / (4 * (double)heads);
    bool fused = gpt_of(model)->attention == GPT_ATTENTION_FUSED;
    double products_s = to_square * product_s(k, 0, batch, queries, keys, width, width, width) +
                        from_square * product_s(k, 0, batch, queries, width, keys, keys, width);
    double fused_peak = k->costs->profile.gemm.fused_peak_fraction;
    if (fused && fused_peak > 0) /* one fused kernel: the inner dimension of its products does not limit its speed */
        products_s = (to_square + from_square) * 2 * square * (double)width / (k->costs->hardware.peak_flops * fused_peak) *
                     (1 + k->costs->profile.gemm.fused_half_t / (double)keys);
    double joined_elems = piece->joins ? batch * (double)width * JOINING_PASSES * (double)queries : 0;
    double rate = fused ? dt_attention_rate(&k->costs->profile.attention_rates, model->dtype, kind == GPT_KERNEL_ATTENTION_GRADIENT,
                                            (double)keys, (double)width)
                        : 0;
    if (rate > 0) /* the mask leaves half of the squares */
        return dt_cost_work(k->costs, stream, k->shift + kind, 1,
                            (to_square + from_square) * square * (double)width * dt_cost_in_step(k->costs) / rate +
                                dt_cost_memory_s(k->costs, 0, joined_elems * k->element_bytes));
    double elems = batch * (double)width * cost->passes * rows + joined_elems;
    double bytes = (elems + (fused ? 0 : cost->other_passes * square)) * k->element_bytes;
    double launches = fused ? 1 : cost->launches;
    return dt_cost_work(k->costs, stream, k->shift + kind, launches,
                        products_s * (fused ? k->costs->profile.gemm.fused_attention : 1) + dt_cost_memory_s(k->costs, launches, bytes));
}

static GPT_KERNEL_FUNCTION(cost_attention, gpt_attention_forward)
{
    return attention(k, stream, GPT_KERNEL_ATTENTION, a->samples, a->heads.count, a->kv_heads.count, &a->dropout, 1, 1, &a->piece);
}

/* The gradients dV, dQ and dK read one [T, T] array each, and dP makes one. Without stored weights
 * the scores are computed again. */
static GPT_KERNEL_FUNCTION(cost_attention_gradient, gpt_attention_backward)
{
    bool fused = gpt_of(k->model)->attention == GPT_ATTENTION_FUSED;
    return attention(k, stream, GPT_KERNEL_ATTENTION_GRADIENT, a->samples, a->heads.count, a->kv_heads.count, &a->dropout, fused ? 2 : 1, 3,
                     &a->piece);
}

static GPT_KERNEL_FUNCTION(cost_linear_residual, gpt_linear_residual)
{
    const struct gpt_linear *linear = &a->linear;
    if (a->active)
        DT_TRY(cost_gelu(k, stream, &(struct gpt_gelu){a->active, linear->x, linear->rows * linear->in}));
    DT_TRY(cost_linear(k, stream, linear));
    return cost_dropout_residual(k, stream, &(struct gpt_dropout_residual){a->residual, linear->y, linear->y, linear->rows, a->dropout});
}

static size_t cost_besides_bytes(const struct gpt_kernels *k, enum gpt_layer_kind layer, double samples, int ranks, bool sequence_parallel)
{
    return k->costs ? gpt_cost_kept_bytes(&k->costs->profile, k->model, layer, samples, ranks, sequence_parallel) : 0;
}

#define ROW(entry, ...) .entry = cost_##entry,
const struct gpt_kernel_table gpt_kernels_cost = {.name = "cost",
                                                  .create = cost_create,
                                                  .destroy = cost_destroy,
                                                  .besides_bytes = cost_besides_bytes,
                                                  GPT_KERNELS(ROW, GPT_NO_KERNEL_ROW, ROW)};

/* ---- the constants of these kernels in profiles ---- */

#define PRICED(entry, arguments, kind, phase, shape, ...) {#entry, DT_PHASE_##phase, DT_SHAPE_##shape},
static const struct dt_priced kernels[] = {GPT_KERNELS(PRICED, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)};

#define KEYS(entry, arguments, kind, phase, shape, element, own_passes)                                                                    \
    DT_PRICED_KEYS(entry, GPT_KERNEL_##kind - DT_PRICED_SHARED, element, own_passes)
#define OTHER_KEY(entry, kind, key, text) DT_PRICED_OTHER_KEY(entry, GPT_KERNEL_##kind - DT_PRICED_SHARED, key, text)
static const struct dt_field keys[] = {GPT_KERNELS(KEYS, OTHER_KEY, GPT_NO_KERNEL_ROW)};

const struct dt_pricing gpt_pricing = {
    .kernels = kernels, .count = sizeof kernels / sizeof *kernels, .keys = keys, .key_count = sizeof keys / sizeof *keys};
