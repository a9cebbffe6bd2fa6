#include "lib/kernels/cpu/host.h"

#include "lib/base/random.h"
#include "lib/kernels/cpu/loops.h"
#include "lib/kernels/cpu/team.h"
#include "lib/kernels/norm.h"

#include <math.h>
#include <stdlib.h>

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* in elements; waking a second thread takes about as long as LEAST_FOR_A_TEAM elements */

struct task {
    struct dt_kernels *k;
    void (*part)(const struct task *t, struct dt_cpu_share share, int thread); /* a thread's share of the work */
    size_t count;
    union {
        struct dt_update update;
        struct dt_initial initial;
        struct {
            void *to;
            const void *from;
            float value;
            enum dt_dtype dtype; /* dtype of `from`, if `to` is fp32 */
        } flat;
        struct {
            void *to;
            const void *from;
            enum dt_dtype to_dtype, from_dtype;
            const struct dt_simd *loops; /* loops for the array that is not fp32 */
        } convert;
        struct {
            enum dt_dtype dtype;
            const void *x;
            double *sums; /* [threads] */
        } squares;
        struct {
            float *squares;
            struct dt_norm_state *state;
            struct dt_norm_rule rule;
            struct dt_norm_state given;
        } norm;
        uint64_t *overflows;
        struct {
            int step;
            float rate;
        };
    };
    struct dt_adam_step adam;
    struct dt_sgd_step sgd;
};

dt_status dt_host_init(struct dt_kernels *k, int threads)
{
    k->host.loops = dt_simd_for(dt_cpu_isa(), k->dtype);
    k->host.threads = threads;
    k->host.step = 1;
    k->host.rate = 1;
    k->host.norm = (struct dt_norm_state){.factor = 1, .loss_scale = 1, .used_scale = 1};
    return k->host.loops ? DT_OK : dt_fail(DT_ERR_UNAVAILABLE, "kernels: this build has no loops for %s", dt_cpu_isa_name(dt_cpu_isa()));
}

/* ---- a thread's share ---- */

/* The first element of a thread's share in an array of the kernels' dtype. */
static void *place(const struct task *t, const void *array, struct dt_cpu_share share)
{
    return (char *)array + share.first * dt_dtype_bytes(t->k->dtype);
}

static void fill_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    t->k->host.loops->fill(place(t, t->flat.to, share), share.end - share.first, t->flat.value);
}

static void add_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    t->k->host.loops->add(place(t, t->flat.to, share), place(t, t->flat.from, share), share.end - share.first);
}

static void convert_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    char *to = (char *)t->convert.to + share.first * dt_dtype_bytes(t->convert.to_dtype);
    const char *from = (const char *)t->convert.from + share.first * dt_dtype_bytes(t->convert.from_dtype);
    if (t->convert.to_dtype == DT_FP32)
        t->convert.loops->widen((float *)to, from, share.end - share.first);
    else
        t->convert.loops->narrow(to, (const float *)from, share.end - share.first);
}

static void add_wide_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    const char *from = (const char *)t->flat.from + share.first * dt_dtype_bytes(t->flat.dtype);
    dt_simd_for(dt_cpu_isa(), t->flat.dtype)->widen_add((float *)t->flat.to + share.first, from, share.end - share.first);
}

static void squares_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    const char *x = (const char *)t->squares.x + share.first * dt_dtype_bytes(t->squares.dtype);
    t->squares.sums[thread] = dt_simd_for(dt_cpu_isa(), t->squares.dtype)->squares(x, share.end - share.first);
}

static void update_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    const struct dt_update *u = &t->update;
    const struct dt_simd *loops = t->k->host.loops;
    void *params = place(t, u->params, share);
    size_t first = share.first, count = share.end - first;
    const void *grads = u->wide_grads ? (const float *)u->grads + first : place(t, u->grads, share);
    float *moment = u->first_moment ? u->first_moment + first : NULL, *master = u->master ? u->master + first : NULL;
    size_t left_out;
    if (u->adam)
        left_out = loops->adam(params, grads, moment, u->second_moment + first, master, count, &t->adam);
    else if (moment || master || u->weight_decay > 0 || u->wide_grads)
        left_out = loops->momentum(params, grads, moment, master, count, &t->sgd);
    else
        left_out = loops->sgd(params, grads, count, t->sgd.learning_rate * t->sgd.gradient_scale);
    if (left_out)
        __atomic_fetch_add(&t->k->host.overflows, left_out, __ATOMIC_RELAXED);
}

/* count elements from element `first` of the tensor on. */
static void draw(const struct task *t, char *to, size_t count, uint64_t first)
{
    const struct dt_initial *a = &t->initial;
    const struct dt_simd *loops = t->k->host.loops;
    if (a->init == DT_INIT_NORMAL) {
        loops->normal(to, count, a->seed, a->tensor_id, first, a->scale);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float value = dt_random_uniform(a->seed, a->tensor_id, first + i) * a->scale;
        loops->narrow(to + i * dt_dtype_bytes(t->k->dtype), &value, 1);
    }
}

static void draw_part(const struct task *t, struct dt_cpu_share share, int thread)
{
    const struct dt_initial *a = &t->initial;
    size_t whole = a->run_elems ? a->run_elems : a->run_done + a->count; /* of one run */
    for (size_t at = share.first, here; at < share.end; at += here) {
        size_t done = a->run_done + at, left = whole - done % whole;
        here = share.end - at < left ? share.end - at : left;
        draw(t, (char *)a->to + at * dt_dtype_bytes(t->k->dtype), here, a->first_element + done / whole * a->stride_elems + done % whole);
    }
}

static void run_part(void *argument, int thread, int threads)
{
    const struct task *t = argument;
    t->part(t, dt_cpu_share(t->count, GRANULE, thread, threads), thread);
}

/* ---- tasks on the stream ---- */

/* The step's number is read here, not when the task is queued: a graph runs it again in other
 * steps. */
static void begin_update(struct task *t)
{
    const struct dt_update *u = &t->update;
    int step = t->k->host.step;
    float rate = u->learning_rate * t->k->host.rate, gradient_scale = u->gradient_scale * t->k->host.norm.factor;
    t->sgd = (struct dt_sgd_step){.first = step == 1,
                                  .wide = u->wide_grads,
                                  .learning_rate = rate,
                                  .gradient_scale = gradient_scale,
                                  .momentum = u->momentum,
                                  .weight_decay = u->weight_decay};
    t->adam = (struct dt_adam_step){.first = step == 1,
                                    .wide = u->wide_grads,
                                    .learning_rate = rate,
                                    .beta1 = u->beta1,
                                    .beta2 = u->beta2,
                                    .epsilon = u->epsilon,
                                    .gradient_scale = gradient_scale,
                                    .correction1 = (float)(1 / (1 - pow(u->beta1, step))),
                                    .correction2 = (float)(1 / (1 - pow(u->beta2, step))),
                                    .weight_decay = u->decoupled ? 0 : u->weight_decay,
                                    .decay = u->decoupled ? rate * u->weight_decay : 0};
}

static dt_status run(void *arguments)
{
    struct task *t = arguments;
    if (t->part == update_part && t->k->host.norm.skips)
        return DT_OK;
    if (t->part == update_part)
        begin_update(t);
    dt_cpu_parallel(t->count < LEAST_FOR_A_TEAM ? 1 : t->k->host.threads, run_part, t);
    return DT_OK;
}

static dt_status run_begin_step(void *arguments)
{
    const struct task *t = arguments;
    t->k->host.step = t->step - (int)t->k->host.norm.skipped;
    t->k->host.rate = t->rate;
    t->k->host.squares = 0;
    __atomic_store_n(&t->k->host.overflows, 0, __ATOMIC_RELAXED);
    return DT_OK;
}

/* Adds the threads' sums in the order of threads, so that every run gets the same result. */
static dt_status run_add_squares(void *arguments)
{
    struct task *t = arguments;
    int threads = t->count < LEAST_FOR_A_TEAM ? 1 : t->k->host.threads;
    DT_FREED double *sums = t->squares.sums = calloc((size_t)threads, sizeof *t->squares.sums);
    DT_TRY(dt_allocated(sums, "no host memory for the sums of %d threads", threads));
    dt_cpu_parallel(threads, run_part, t);
    for (int i = 0; i < threads; i++)
        t->k->host.squares += sums[i];
    return DT_OK;
}

static dt_status run_sum_squares(void *arguments)
{
    const struct task *t = arguments;
    *t->norm.squares = (float)t->k->host.squares;
    return DT_OK;
}

static dt_status run_settle_norm(void *arguments)
{
    const struct task *t = arguments;
    dt_norm_settle(&t->k->host.norm, &t->norm.rule, *t->norm.squares);
    return DT_OK;
}

static dt_status run_norm(void *arguments)
{
    const struct task *t = arguments;
    *t->norm.state = t->k->host.norm;
    return DT_OK;
}

static dt_status run_set_norm(void *arguments)
{
    const struct task *t = arguments;
    t->k->host.norm = t->norm.given;
    return DT_OK;
}

static dt_status run_overflows(void *arguments)
{
    const struct task *t = arguments;
    *t->overflows += __atomic_load_n(&t->k->host.overflows, __ATOMIC_RELAXED);
    return DT_OK;
}

/* ---- queueing ---- */

static dt_status host_begin_step(struct dt_kernels *k, struct dt_stream *stream, int step)
{
    struct task t = {.k = k, .step = step, .rate = k->rate};
    return k->host.submit(stream, "begin step", run_begin_step, &t, sizeof t);
}

static dt_status host_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    struct task t = {.k = k, .overflows = to};
    return k->host.submit(stream, "step's overflows", run_overflows, &t, sizeof t);
}

static dt_status host_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                                  size_t count)
{
    struct task t = {.k = k, .part = squares_part, .count = count, .squares = {.dtype = dtype, .x = x}};
    return k->host.submit(stream, "squares", run_add_squares, &t, sizeof t);
}

static dt_status host_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to)
{
    struct task t = {.k = k, .norm = {.squares = to}};
    return k->host.submit(stream, "sum of squares", run_sum_squares, &t, sizeof t);
}

static dt_status host_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                  const float *squares)
{
    if (on_host && k->backend->calls == &dt_host_calls)
        return DT_OK; /* the updates of the device are those of the host: the norm is settled already */
    struct task t = {.k = k, .norm = {.squares = (float *)squares, .rule = *rule}};
    return k->host.submit(stream, "norm", run_settle_norm, &t, sizeof t);
}

static dt_status host_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to)
{
    struct task t = {.k = k, .norm = {.state = to}};
    return k->host.submit(stream, "step's norm", run_norm, &t, sizeof t);
}

static dt_status host_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from)
{
    struct task t = {.k = k, .norm = {.given = *from}};
    return k->host.submit(stream, "norm's state", run_set_norm, &t, sizeof t);
}

static dt_status host_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                              enum dt_dtype from_dtype, size_t count)
{
    bool widens = to_dtype == DT_FP32;
    struct task t = {.k = k, .part = convert_part, .count = count, .convert = {to, from, to_dtype, from_dtype, NULL}};
    t.convert.loops = dt_simd_for(dt_cpu_isa(), widens ? from_dtype : to_dtype);
    return k->host.submit(stream, widens ? "widen" : "narrow", run, &t, sizeof t);
}

static dt_status host_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    struct task t = {.k = k, .part = update_part, .count = u->count, .update = *u};
    k->host.updates = true;
    return k->host.submit(stream, u->adam ? "adam" : "sgd", run, &t, sizeof t);
}

static dt_status host_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count)
{
    struct task t = {.k = k, .part = add_part, .count = count, .flat = {.to = to, .from = from}};
    return k->host.submit(stream, "add", run, &t, sizeof t);
}

static dt_status host_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype,
                               const void *from, size_t count)
{
    struct task t = {.k = k, .part = add_wide_part, .count = count, .flat = {.to = to, .from = from, .dtype = dtype}};
    return k->host.submit(stream, "add", run, &t, sizeof t);
}

static dt_status host_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    struct task t = {.k = k, .part = fill_part, .count = count, .flat = {.to = to, .value = value}};
    return k->host.submit(stream, "fill", run, &t, sizeof t);
}

static dt_status host_draw(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *initial)
{
    struct task t = {.k = k, .part = draw_part, .count = initial->count, .initial = *initial};
    return k->host.submit(stream, "initial weights", run, &t, sizeof t);
}

#define ROW(entry, ...) .entry = host_##entry,
const struct dt_kernel_calls dt_host_calls = {DT_KERNEL_CALLS(ROW)};
