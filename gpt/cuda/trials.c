/* Trials of the kernels for Hopper's warpgroups. A kernel and those that it replaces run once on the
 * same random operands. The kernel is used if all results are the same up to rounding.
 *
 * A trial is small: it has a few tiles more than a block's shared memory has places for, rows and
 * columns that do not fill the last tile, and no more of them than the model itself. */
#include "gpt/cuda/linear_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ATTENTION_POSITIONS = 662, GELU_ROWS = 150, GELU_IN = 392, GELU_OUT = 328, MOST_RESULTS = 3, PLACE_BYTES = 256 };

static const char *const names[] = {"attention", "attention gradient", "gelu gradient", NULL}; /* by bit */

struct result {
    const char *name;
    size_t elems;
    enum dt_dtype dtype;
};

struct trial {
    unsigned kernel;      /* its bit */
    size_t operand_elems; /* normal deviates of the model's dtype */
    struct result results[MOST_RESULTS];
    int result_count;
    size_t offset[MOST_RESULTS], bytes; /* of the results in memory, one after the other, and of all of them */
    struct dt_model model;              /* in place of the kernels' own */
    dt_status (*run)(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *trial, char *operands, char *results);
};

static const char *name_of(const struct trial *t)
{
    int bit = 0;
    while (t->kernel >> bit != 1)
        bit++;
    return names[bit];
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void add_result(struct trial *t, const char *name, size_t elems, enum dt_dtype dtype)
{
    t->offset[t->result_count] = t->bytes;
    t->results[t->result_count++] = (struct result){name, elems, dtype};
    t->bytes += (elems * dt_dtype_bytes(dtype) + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES;
}

/* ---- attention: one sample, and at most two heads, of the same head of keys ---- */

static size_t attention_heads(const struct dt_model *m)
{
    return least((size_t)(gpt_of(m)->heads / gpt_kv_heads(m)), 2);
}

static struct gpt_dropout attention_dropout(const struct dt_model *m)
{
    return (struct gpt_dropout){.seed = 1, .probability = gpt_of(m)->dropout};
}

static dt_status forward(struct gpt_kernels *k, struct dt_stream *stream, const void *qkv, void *out, void *lse)
{
    return gpt_cuda_attention(k, stream,
                              &(struct gpt_attention_forward){.qkv = qkv,
                                                              .out = out,
                                                              .lse = lse,
                                                              .samples = 1,
                                                              .heads = {0, attention_heads(&k->model)},
                                                              .kv_heads = {0, 1},
                                                              .dropout = attention_dropout(&k->model)});
}

static dt_status run_attention(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t, char *operands, char *results)
{
    return forward(k, stream, operands, results, results + t->offset[1]);
}

/* Both backwards read the results of the same forward, which is not on trial here. They are after
 * qkv and dout in the operands' memory. */
static dt_status run_attention_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t, char *operands,
                                        char *results)
{
    size_t head_bytes = (size_t)gpt_of(&k->model)->block_size * (size_t)gpt_head_width(&k->model) * dt_dtype_bytes(k->model.dtype);
    size_t out_bytes = attention_heads(&k->model) * head_bytes;
    char *dout = operands + out_bytes + 2 * head_bytes, *out = dout + out_bytes, *lse = out + out_bytes;
    DT_TRY(forward(k, stream, operands, out, lse));
    return gpt_cuda_attention_gradient(k, stream,
                                       &(struct gpt_attention_backward){.dout = dout,
                                                                        .out = out,
                                                                        .qkv = operands,
                                                                        .lse = (float *)lse,
                                                                        .dqkv = results + t->offset[0],
                                                                        .samples = 1,
                                                                        .heads = {0, attention_heads(&k->model)},
                                                                        .kv_heads = {0, 1},
                                                                        .dropout = attention_dropout(&k->model)});
}

static bool has_attention(const struct dt_model *m)
{
    const struct gpt_model *g = gpt_of(m);
    return g->attention == GPT_ATTENTION_FUSED && g->block_size > 0 && g->heads > 0 && g->hidden % g->heads == 0 && gpt_kv_heads(m) > 0 &&
           g->heads % gpt_kv_heads(m) == 0 && gpt_head_width(m) % 8 == 0 && gpt_head_width(m) <= 128;
}

static struct trial attention_trial(const struct dt_model *m, bool gradient)
{
    struct gpt_model small = *gpt_of(m);
    small.block_size = (int)least((size_t)small.block_size, ATTENTION_POSITIONS);
    size_t T = (size_t)small.block_size, width = (size_t)gpt_head_width(m), heads = attention_heads(m);
    size_t qkv = T * (heads + 2) * width, out = T * heads * width, lse = T * heads;
    struct trial t = {.kernel = gradient ? GPT_CUDA_HOPPER_ATTENTION_GRADIENT : GPT_CUDA_HOPPER_ATTENTION,
                      .operand_elems = qkv + (gradient ? 2 * out + 2 * lse : 0), /* lse is in fp32 */
                      .model = gpt_model_of(m->dtype, &small),
                      .run = gradient ? run_attention_gradient : run_attention};
    if (gradient) {
        add_result(&t, "gradients", qkv, m->dtype);
    } else {
        add_result(&t, "output", out, m->dtype);
        add_result(&t, "lse", lse, DT_FP32);
    }
    return t;
}

/* ---- the gradient through GELU ---- */

static size_t gelu_in(const struct dt_model *m)
{
    return least((size_t)gpt_ffn(m), GELU_IN) / 8 * 8;
}

static size_t gelu_out(const struct dt_model *m)
{
    return least((size_t)gpt_of(m)->hidden, GELU_OUT) / 8 * 8;
}

static dt_status run_gelu(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t, char *operands, char *results)
{
    size_t in = gelu_in(&k->model), out = gelu_out(&k->model), bytes = dt_dtype_bytes(k->model.dtype);
    char *dy = operands, *w = dy + GELU_ROWS * out * bytes, *hidden = w + out * in * bytes;
    return gpt_cuda_gelu_gradient_sums(k, stream,
                                       &(struct gpt_gelu_gradient_sums){.product = {{dy, w, results, GELU_ROWS, in, out, 1}, hidden},
                                                                        .active = results + t->offset[1],
                                                                        .db = results + t->offset[2]});
}

static bool has_gelu(const struct dt_model *m)
{
    return gpt_of(m)->mlp == GPT_MLP_GELU && gelu_in(m) > 0 && gelu_out(m) > 0;
}

static struct trial gelu_trial(const struct dt_model *m)
{
    size_t in = gelu_in(m), out = gelu_out(m);
    struct trial t = {.kernel = GPT_CUDA_HOPPER_GELU, .operand_elems = GELU_ROWS * (in + out) + in * out, .model = *m, .run = run_gelu};
    add_result(&t, "input gradient", GELU_ROWS * in, m->dtype);
    add_result(&t, "activation", GELU_ROWS * in, m->dtype);
    add_result(&t, "bias gradient", in, m->dtype);
    return t;
}

/* ---- comparing ---- */

static double value_at(enum dt_dtype dtype, const void *array, size_t i)
{
    if (dtype == DT_FP32)
        return ((const float *)array)[i];
    unsigned short bits = ((const unsigned short *)array)[i];
    return dtype == DT_FP16 ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

/* How far rounding may move a result from another way to compute it, as a part of the array's
 * largest value. Both ways round twice: attention its weights and its output, the other kernels the
 * product and its derivative's factor. That is four units of roundoff, of 2^-11 in fp16 and 2^-8 in
 * bf16. An lse is a sum in fp32 with exponentials that are right to 2^-22. */
static double tolerance_of(enum dt_dtype dtype)
{
    return dtype == DT_FP16 ? 0x1p-9 : dtype == DT_BF16 ? 0x1p-6 : 0x1p-16;
}

static bool agree(const struct result *r, const void *own, const void *plain, double *difference, double *bound)
{
    double highest = 0;
    *difference = 0;
    for (size_t i = 0; i < r->elems; i++) {
        double there = value_at(r->dtype, plain, i), apart = fabs(value_at(r->dtype, own, i) - there);
        highest = fmax(highest, fabs(there));
        *difference = apart <= *difference ? *difference : apart; /* NaN stays */
        if (isnan(apart))
            break;
    }
    *bound = tolerance_of(r->dtype) * highest;
    return *difference <= *bound;
}

/* both: the results of the kernel itself, and of those that it replaces. */
static void judge(struct dt_trials *trials, const struct trial *t, const char *both)
{
    double difference, bound;
    for (int i = 0; i < t->result_count; i++) {
        const struct result *r = &t->results[i];
        if (agree(r, both + t->offset[i], both + t->bytes + t->offset[i], &difference, &bound))
            continue;
        trials->in_use &= ~t->kernel;
        if (!*trials->doubt)
            snprintf(trials->doubt, sizeof trials->doubt,
                     "Hopper's own kernel of %s is not used: in a trial its %s was off by %.3g, and rounding explains %.3g", name_of(t),
                     r->name, difference, bound);
        return;
    }
}

/* ---- a trial ---- */

/* A kernel that cannot be launched is not used. */
static dt_status run_own(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t, char *operands, char *results, bool *ran)
{
    struct dt_trials *trials = &k->base->trials;
    trials->in_use |= t->kernel;
    dt_status status = t->run(k, stream, t, operands, results);
    *ran = status == DT_OK;
    if (*ran || (status != DT_ERR_DEVICE && status != DT_ERR_UNAVAILABLE))
        return status;
    trials->in_use &= ~t->kernel;
    if (!*trials->doubt)
        snprintf(trials->doubt, sizeof trials->doubt, "Hopper's own kernel of %s is not used: %.150s", name_of(t), dt_error_message());
    return DT_OK;
}

/* memory: the operands, and the results twice; host [2 * t->bytes]. */
static dt_status run_both(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t, char *memory, char *host)
{
    size_t operands_bytes = t->operand_elems * dt_dtype_bytes(k->model.dtype);
    char *own = memory + (operands_bytes + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES, *plain = own + t->bytes;
    struct dt_initial operands = {.to = memory, .count = t->operand_elems, .seed = 1, .tensor_id = 1, .scale = 2};
    bool ran;
    DT_TRY(dt_kernels_initialise(k->base, stream, &operands));
    DT_TRY(t->run(k, stream, t, memory, plain));
    DT_TRY(run_own(k, stream, t, memory, own, &ran));
    DT_TRY(dt_copy_to_host(stream, host, own, 2 * t->bytes));
    DT_TRY(dt_stream_synchronize(stream));
    if (ran)
        judge(&k->base->trials, t, host);
    return DT_OK;
}

/* The memory is not of the device's pool, since records count what a step has there. */
static dt_status try_one(struct gpt_kernels *k, struct dt_stream *stream, const struct trial *t)
{
    struct dt_model own_model = k->model;
    void *memory = NULL;
    char *host = malloc(2 * t->bytes);
    DT_TRY(dt_allocated(host, "cuda kernels: no host memory"));
    dt_status status =
        dt_cuda_own_alloc(k->base->device, t->operand_elems * dt_dtype_bytes(k->model.dtype) + PLACE_BYTES + 2 * t->bytes, &memory);
    k->model = t->model;
    DT_THEN(status, run_both(k, stream, t, memory, host));
    k->model = own_model;
    gpt_cuda_plans_destroy(k->linear); /* no product of a trial is one of the run's */
    dt_cuda_own_free(k->base->device, memory);
    free(host);
    return status;
}

dt_status gpt_cuda_try_hopper(struct gpt_kernels *k)
{
    enum dt_warpgroup_kernels wanted = dt_cuda_warpgroup_kernels(k->base->device);
    struct dt_trials *trials = &k->base->trials;
    struct dt_stream *stream;
    bool attention = has_attention(&k->model), gelu = has_gelu(&k->model);
    if (wanted == DT_WARPGROUPS_NEVER || k->model.dtype == DT_FP32 || (!attention && !gelu))
        return DT_OK;
    *trials = (struct dt_trials){.names = names};
    if (wanted == DT_WARPGROUPS_ALWAYS) {
        trials->in_use =
            (attention ? GPT_CUDA_HOPPER_ATTENTION | GPT_CUDA_HOPPER_ATTENTION_GRADIENT : 0) | (gelu ? GPT_CUDA_HOPPER_GELU : 0);
        return DT_OK;
    }
    DT_TRY(dt_stream_create(k->base->device, "trials", &stream));
    dt_status status = DT_OK;
    for (int gradient = 0; attention && gradient < 2 && status == DT_OK; gradient++) {
        struct trial t = attention_trial(&k->model, gradient);
        status = try_one(k, stream, &t);
    }
    if (gelu && status == DT_OK) {
        struct trial t = gelu_trial(&k->model);
        status = try_one(k, stream, &t);
    }
    dt_stream_destroy(stream);
    if (status == DT_ERR_DEVICE)
        return dt_fail(status, "%s; this was a trial of Hopper's own kernels, which \"warpgroup_kernels\": false avoids",
                       dt_error_message());
    return status;
}
