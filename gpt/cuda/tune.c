/* Timing the algorithms of cuBLASLt for a product.
 *
 * Each product has its operands at the next place of memory that is larger than the GPU's L2 cache,
 * so that, as in a training step, none of them is in the cache. The algorithms take turns, so that
 * a change of the GPU's clock affects all of them; the median of the turns counts. */
#include "gpt/cuda/linear_plan.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 5, MOST_CALLS = 1 << 14, BLOCK_BYTES = 256 };

/* Time of one turn; and the gain over the library's first algorithm that another one needs, so that
 * two tunings of the same machine agree. */
static const int64_t least_ns = 2000000;
static const double least_gain = 0.02;

/* Many copies of one product's operands, one after another. */
struct places {
    struct dt_buffer memory;
    size_t stride_bytes;
    size_t count;
    size_t b_offset, d_offset, extra_offset, gelu_offset;
};

struct bench {
    struct dt_kernels base;
    struct gpt_kernels *k;
    struct dt_stream *stream;
    struct dt_event *start, *end;
    enum dt_dtype dtype;
    size_t cache_bytes;
    const struct gpt_cuda_product_shape *shape;
    struct gpt_cuda_plan *plan;
    struct places places;
    size_t calls; /* so far; determines the next place */
};

/* ---- operands ---- */

/* The place of an array of `bytes` after *at, not better aligned than the shape says. */
static size_t place_array(size_t *at, size_t bytes, uint32_t alignment_bytes)
{
    size_t offset = *at + (alignment_bytes < 16 ? alignment_bytes : 0);
    *at = (offset + bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    return offset;
}

static bool has_gelu(const struct gpt_cuda_product_shape *s)
{
    return s->epilogue >= GPT_CUDA_GELU;
}

static dt_status make_places(struct bench *b)
{
    const struct gpt_cuda_product_shape *s = b->shape;
    size_t bytes = dt_dtype_bytes(b->dtype), at = 0;
    struct places *p = &b->places;
    *p = (struct places){.count = 0};
    place_array(&at, s->m * s->k * bytes, s->a_bytes); /* a is the first array: its offset is a_bytes or 0, as in product_at */
    p->b_offset = place_array(&at, s->k * s->n * bytes, s->b_bytes);
    p->d_offset = place_array(&at, s->m * s->n * bytes, s->d_bytes);
    p->extra_offset = place_array(&at, (s->m > s->n ? s->m : s->n) * bytes, s->extra_bytes);
    p->gelu_offset = place_array(&at, has_gelu(s) ? s->m * s->n * bytes : 0, 16);
    p->stride_bytes = at;
    p->count = 2 * b->cache_bytes / at + 2;
    DT_TRY(dt_alloc(b->stream, DT_WORKSPACE, p->count * at, &p->memory));
    return dt_kernels_initialise(
        &b->base, b->stream,
        &(struct dt_initial){.to = p->memory.data, .count = p->count * at / bytes, .seed = 1, .tensor_id = 1, .scale = 0.1f});
}

static struct gpt_cuda_product product_at(const struct bench *b, size_t index)
{
    const struct gpt_cuda_product_shape *s = b->shape;
    char *place = (char *)b->places.memory.data + index % b->places.count * b->places.stride_bytes;
    void *extra = place + b->places.extra_offset;
    return (struct gpt_cuda_product){
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .transpose_a = s->transpose_a,
        .transpose_b = s->transpose_b,
        .epilogue = s->epilogue,
        .a = place + (s->a_bytes < 16 ? s->a_bytes : 0),
        .b = place + b->places.b_offset,
        .d = place + b->places.d_offset,
        .bias = s->epilogue == GPT_CUDA_BIAS || s->epilogue == GPT_CUDA_BIAS_RELU || s->epilogue == GPT_CUDA_BIAS_GELU ? extra : NULL,
        .bias_gradient = s->epilogue == GPT_CUDA_BIAS_GRADIENT || s->epilogue == GPT_CUDA_GELU_BIAS_GRADIENT ? extra : NULL,
        .gelu_input = has_gelu(s) ? place + b->places.gelu_offset : NULL,
    };
}

/* ---- one algorithm ---- */

/* *ns: time of `times` products in a row; *taken as in gpt_cuda_plan_try. */
static dt_status run_turn(struct bench *b, int algorithm, int times, int64_t *ns, bool *taken)
{
    *taken = true;
    DT_TRY(dt_event_record(b->start, b->stream));
    for (int i = 0; i < times && *taken; i++) {
        struct gpt_cuda_product product = product_at(b, b->calls++);
        DT_TRY(gpt_cuda_plan_try(b->k, b->stream, b->plan, algorithm, &product, taken));
    }
    DT_TRY(dt_event_record(b->end, b->stream));
    DT_TRY(dt_stream_synchronize(b->stream));
    return dt_event_elapsed_ns(b->start, b->end, ns);
}

/* The number of products in a turn, measured with the library's first algorithm that runs; 0: none
 * does. */
static dt_status find_calls(struct bench *b, int *times)
{
    bool taken = false;
    int64_t ns = 0;
    *times = 1;
    for (int first = 0; first < b->plan->named_count && !taken; first++) {
        DT_TRY(run_turn(b, first, 1, &ns, &taken)); /* the first call loads the kernel */
        while (taken && ns < least_ns && *times < MOST_CALLS) {
            *times *= 2;
            DT_TRY(run_turn(b, first, *times, &ns, &taken));
        }
    }
    *times = taken ? *times : 0;
    return DT_OK;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* seconds [named_count] of one product by each algorithm; negative: it was refused. */
static dt_status time_all(struct bench *b, int times, double *seconds)
{
    double turns[GPT_CUDA_MOST_NAMED][TURNS];
    bool taken;
    int64_t ns;
    for (int a = 0; a < b->plan->named_count; a++) {
        DT_TRY(run_turn(b, a, 1, &ns, &taken));
        seconds[a] = taken ? 0 : -1;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int a = 0; a < b->plan->named_count; a++) {
            if (seconds[a] < 0)
                continue;
            DT_TRY(run_turn(b, a, times, &ns, &taken));
            turns[a][turn] = (double)ns * 1e-9 / times;
        }
    }
    for (int a = 0; a < b->plan->named_count; a++) {
        if (seconds[a] < 0)
            continue;
        qsort(turns[a], TURNS, sizeof turns[a][0], by_time);
        seconds[a] = turns[a][TURNS / 2];
    }
    return DT_OK;
}

/* The fastest algorithm, or the first that runs if no other gains enough; -1: none runs. *first is
 * the first that runs. */
static int choose(const double *seconds, int count, int *first)
{
    int best = -1;
    *first = -1;
    for (int a = 0; a < count; a++) {
        if (seconds[a] < 0)
            continue;
        *first = *first < 0 ? a : *first;
        best = best < 0 || seconds[a] < seconds[best] ? a : best;
    }
    return best >= 0 && seconds[best] > seconds[*first] * (1 - least_gain) ? *first : best;
}

/* ---- one product ---- */

static dt_status keep(const struct bench *b, struct dt_tuning *t, const double *seconds)
{
    int first, chosen = choose(seconds, b->plan->named_count, &first);
    if (chosen < 0)
        return DT_OK;
    struct gpt_tuned_product found = {.product = {b->dtype, *b->shape}};
    memcpy(found.gpu, b->k->linear->gpu, sizeof found.gpu);
    memcpy(found.library, b->k->linear->library, sizeof found.library);
    gpt_algorithm_to_text(&b->plan->named[chosen], found.algorithm);
    found.place = chosen;
    found.us = seconds[chosen] * 1e6;
    found.first_us = seconds[first] * 1e6;
    t->measured.products++;
    t->measured.changed += chosen != first;
    t->measured.us += found.us;
    t->measured.first_us += found.first_us;
    memcpy(t->measured.gpu, found.gpu, sizeof found.gpu);
    memcpy(t->measured.library, found.library, sizeof found.library);
    return gpt_tuning_add(t, &found);
}

static dt_status measure(struct bench *b, struct dt_tuning *t)
{
    double seconds[GPT_CUDA_MOST_NAMED];
    int times;
    struct gpt_cuda_product product = product_at(b, 0);
    DT_TRY(gpt_cuda_plan_find(b->k, &product, &b->plan));
    DT_TRY(find_calls(b, &times));
    if (times > 0) {
        DT_TRY(time_all(b, times, seconds));
        return keep(b, t, seconds);
    }
    struct gpt_cuda_product apart = gpt_cuda_product_apart(&product); /* linear.c then computes it so */
    struct gpt_cuda_product_shape shape = gpt_cuda_product_shape(&apart);
    return product.epilogue == GPT_CUDA_PLAIN ? DT_OK : gpt_tuning_list(t, b->dtype, &shape);
}

static dt_status measure_one(struct bench *b, struct dt_tuning *t, int index)
{
    struct gpt_cuda_product_shape shape = t->listed[index].shape; /* a copy, because the list may grow and move */
    b->shape = &shape;
    dt_status status = make_places(b);
    DT_THEN(status, measure(b, t));
    dt_free(b->stream, &b->places.memory);
    return status;
}

/* ---- all listed products ---- */

static dt_status open_bench(struct bench *b, struct dt_device *device)
{
    struct cudaDeviceProp properties;
    struct dt_device_info info;
    struct dt_model least =
        gpt_model_of(b->dtype, &(struct gpt_model){.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 8});
    DT_TRY(dt_cuda_status(cudaGetDeviceProperties(&properties, dt_cuda_ordinal(device)), "tuning: the GPU's properties"));
    b->cache_bytes = properties.l2CacheSize > 0 ? (size_t)properties.l2CacheSize : 0;
    DT_TRY(dt_stream_create(device, "tuning", &b->stream));
    DT_TRY(dt_event_create_timed(device, &b->start));
    DT_TRY(dt_event_create_timed(device, &b->end));
    DT_TRY(dt_kernels_init(&b->base, device, b->dtype));
    DT_TRY(gpt_kernels_cuda.create(&b->base, &least, &b->k));
    dt_device_info(device, &info);
    memcpy(b->k->linear->gpu, info.name, sizeof info.name);
    gpt_cublaslt_name(&b->k->linear->lt, b->k->linear->library);
    b->k->linear->most_named = GPT_CUDA_MOST_NAMED;
    return DT_OK;
}

static void close_bench(struct bench *b)
{
    gpt_kernels_cuda.destroy(b->k);
    dt_kernels_finish(&b->base);
    dt_event_destroy(b->end);
    dt_event_destroy(b->start);
    dt_stream_destroy(b->stream);
}

static dt_status measure_dtype(struct dt_tuning *t, struct dt_device *device, enum dt_dtype dtype, const struct dt_tune_hooks *hooks,
                               int *done)
{
    struct bench b = {.dtype = dtype};
    dt_status status = open_bench(&b, device);
    for (int i = 0; i < t->listed_count && status == DT_OK; i++) {
        if (t->listed[i].dtype != dtype)
            continue;
        status = measure_one(&b, t, i);
        if (status == DT_OK && hooks && hooks->measured)
            status = hooks->measured(hooks->context, ++*done, t->listed_count);
    }
    close_bench(&b);
    return status;
}

static bool has_dtype(const struct dt_tuning *t, enum dt_dtype dtype)
{
    for (int i = 0; i < t->listed_count; i++)
        if (t->listed[i].dtype == dtype)
            return true;
    return false;
}

dt_status gpt_cuda_tune(struct dt_tuning *t, struct dt_device *device, const struct dt_tune_hooks *hooks)
{
    int done = 0;
    const struct dt_device_kind *kind = dt_device_kind_of(device);
    if (!kind->gpus)
        return dt_fail(DT_ERR_UNAVAILABLE, "tuning: device \"%s\" offers no choice of algorithms; it needs a GPU", kind->name);
    memset(&t->measured, 0, sizeof t->measured);
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        if (has_dtype(t, dtype))
            DT_TRY(measure_dtype(t, device, dtype, hooks, &done));
    return DT_OK;
}
