/* The optimizers' kernels against the references, and what they do with gradients that are not
 * finite. */
#include "test/gpt/kernel_setup.h"

#include <math.h>
#include <stdlib.h>

static void sgd_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 6; i++) { /* from the fourth on those of host memory */
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        struct array params = input(s->dtype, count, 0, 1), grads = input(i % 2 ? DT_FP32 : s->dtype, count, 0, 1);
        struct dt_update u = {.params = params.data,
                              .grads = grads.data,
                              .wide_grads = i % 2,
                              .count = count,
                              .learning_rate = 0.5f,
                              .gradient_scale = 0.25f,
                              .on_host = i >= 3};
        CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
        CHECK_OK(dt_stream_synchronize(s->stream));
        for (size_t j = 0; j < count; j++)
            params.values[j] -= 0.125 * grads.values[j];
        CHECK_ARRAY(s, params, "params");
    }
}

static struct dt_update adam_of(void *params, const void *grads, size_t count, float *first_moment, float *second_moment, float *master)
{
    return (struct dt_update){.params = params,
                              .grads = grads,
                              .count = count,
                              .learning_rate = 0.01f,
                              .gradient_scale = 0.5f,
                              .adam = true,
                              .first_moment = first_moment,
                              .second_moment = second_moment,
                              .master = master,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .epsilon = 1e-8f};
}

/* With momentum and weight decay, or one of them alone. */
static void momentum_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 12; i++) { /* from the sixth on those of host memory */
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        bool moves = i % 2, decays = !moves || i % 3 == 1;
        struct array params = input(s->dtype, count, 0, 1);
        float *moment = test_alloc(count * sizeof *moment); /* poisoned before step 1 */
        double *ref = calloc(count, sizeof *ref);
        for (int step = 1; step <= 3; step++) {
            struct array grads = input(s->dtype, count, 0, 1);
            struct dt_update u = {.params = params.data,
                                  .grads = grads.data,
                                  .count = count,
                                  .learning_rate = 0.25f,
                                  .gradient_scale = 0.5f,
                                  .first_moment = moves ? moment : NULL,
                                  .momentum = moves ? 0.75f : 0,
                                  .weight_decay = decays ? 0.125f : 0,
                                  .on_host = i >= 6};
            CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, step));
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
            for (size_t j = 0; j < count; j++) {
                ref[j] = (double)u.momentum * ref[j] + 0.5 * grads.values[j] + (double)u.weight_decay * params.values[j];
                params.values[j] -= 0.25 * ref[j];
            }
            CHECK_ARRAY(s, params, "params");
            ref_decode(s->dtype, params.data, params.values, count); /* rounded once a step */
        }
        free(ref);
    }
}

static void sgd_with_momentum(void)
{
    for_every_setup(momentum_body);
}

/* In two steps of a rate that halves: weight decay as a part of the gradient, and without. */
static void adamw_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 4; i++) {
        const size_t count = 301;
        struct array params = input(s->dtype, count, 0, 1);
        float *state = test_alloc(3 * count * sizeof *state);
        double *ref = test_alloc(3 * count * sizeof *ref), *grad = test_alloc(count * sizeof *grad), decay = 0.25;
        for (size_t j = 0; j < count; j++) {
            ref[j] = ref[count + j] = 0;
            ref[2 * count + j] = params.values[j];
        }
        for (int step = 1; step <= 2; step++) {
            struct array grads = input(s->dtype, count, 0, 1);
            struct dt_update u = adam_of(params.data, grads.data, count, state, state + count, state + 2 * count);
            u.on_host = i % 2;
            u.decoupled = i / 2;
            u.weight_decay = (float)decay;
            s->base.rate = 1.0f / (float)step;
            CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, step));
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
            for (size_t j = 0; j < count; j++) {
                grad[j] = 0.5 * grads.values[j] + (u.decoupled ? 0 : decay * ref[2 * count + j]);
                ref[2 * count + j] *= u.decoupled ? 1 - (double)0.01f / step * decay : 1;
            }
            ref_adam(grad, ref, ref + count, ref + 2 * count, count, step, (double)0.01f / step, 0.9f, 0.999f, 1e-8f, 1);
        }
        s->base.rate = 1;
        CHECK(error_of(DT_FP32, state + 2 * count, ref + 2 * count, count) < 3e-6, "master, %s", i / 2 ? "decoupled" : "in the gradient");
    }
}

static void adam_with_weight_decay(void)
{
    for_every_setup(adamw_body);
}

static void sgd(void)
{
    for_every_setup(sgd_body);
}

static void adam_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 6; i++) { /* from the fourth on those of host memory */
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        struct array params = input(s->dtype, count, 0, 1);
        float *state = test_alloc(3 * count * sizeof *state); /* first and second moment, master; poisoned before step 1 */
        double *ref = test_alloc(3 * count * sizeof *ref);
        for (size_t j = 0; j < count; j++) {
            ref[j] = ref[count + j] = 0;
            ref[2 * count + j] = params.values[j];
        }
        for (int step = 1; step <= 4; step++) {
            struct array grads = input(i % 2 ? DT_FP32 : s->dtype, count, 0, 1);
            struct dt_update u = adam_of(params.data, grads.data, count, state, state + count, state + 2 * count);
            u.on_host = i >= 3;
            u.wide_grads = i % 2;
            CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, step));
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
            ref_adam(grads.values, ref, ref + count, ref + 2 * count, count, step, 0.01f, 0.9f, 0.999f, 1e-8f, 0.5);
        }
        for (int part = 0; part < 3; part++)
            CHECK(error_of(DT_FP32, state + (size_t)part * count, ref + (size_t)part * count, count) < 3e-6, "moment or master %d", part);
        memcpy(params.values, ref + 2 * count, count * sizeof *ref);
        CHECK_ARRAY(s, params, "params");
    }
}

static void adam(void)
{
    for_every_setup(adam_body);
}

/* Gradients that are not finite: their elements stay bit for bit, the others are as without them,
 * and the step counts them. */
static void overflow_body(struct setup *s)
{
    const size_t counts[] = {17, 77, 30001}, bytes = dt_dtype_bytes(s->dtype);
    uint64_t overflows = 77, expected = 0;
    setup_kernels(s, 1, 8, 8, 8);
    CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, 2));
    for (int i = 0; i < 12; i++) {
        bool on_host = i % 2, adam = i / 2 % 2;
        size_t count = counts[i / 4];
        struct array params = input(s->dtype, count, 0, 1), grads = input(s->dtype, count, 0, 1), whole = output(s->dtype, count);
        struct array old[4] = {output(s->dtype, count), input(DT_FP32, count, 0, 1), input(DT_FP32, count, 2, 1), output(DT_FP32, count)};
        ref_encode(DT_FP32, params.values, old[3].data, count);   /* the master is what params is rounded from */
        void *state[4] = {params.data}, *plain[4] = {whole.data}; /* with the bad gradients, and without */
        for (int part = 1; part < 4; part++) {
            state[part] = memcpy(test_alloc(count * sizeof(float)), old[part].data, count * sizeof(float));
            plain[part] = memcpy(test_alloc(count * sizeof(float)), old[part].data, count * sizeof(float));
        }
        memcpy(old[0].data, params.data, count * bytes);
        memcpy(whole.data, params.data, count * bytes);
        for (int pass = 0; pass < 2; pass++) {
            void **at = pass ? state : plain;
            struct dt_update u = adam_of(at[0], grads.data, count, at[1], at[2], at[3]);
            u.adam = adam;
            u.on_host = on_host;
            for (size_t j = 0; j < count; j++)
                grads.values[j] = pass && j % 13 == 3 ? (double[]){INFINITY, -INFINITY, NAN}[j / 13 % 3] : grads.values[j];
            ref_encode(s->dtype, grads.values, grads.data, count);
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
        }
        for (int part = 0; part < 4; part++) {
            size_t wrong = 0, width = part ? sizeof(float) : bytes;
            for (size_t j = 0; j < count; j++)
                wrong += memcmp((const char *)state[part] + j * width,
                                (const char *)(j % 13 == 3 ? old[part].data : plain[part]) + j * width, width) != 0;
            CHECK(wrong == 0, "array %d: %zu of %zu elements", part, wrong, count);
        }
        expected += (count + 9) / 13;
    }
    CHECK_OK(dt_kernels_overflows(&s->base, s->stream, &overflows));
    CHECK_OK(dt_stream_synchronize(s->stream));
    CHECK(overflows == expected, "%llu overflows, not %llu", (unsigned long long)overflows, (unsigned long long)expected);
    CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, 3));
    CHECK_OK(dt_kernels_overflows(&s->base, s->stream, &overflows));
    CHECK_OK(dt_stream_synchronize(s->stream));
    CHECK(overflows == 0);
}

static void overflow(void)
{
    for_every_setup(overflow_body);
}

/* Of Adam without a master copy, and of SGD with one. */
static void master_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 4; i++) {
        const size_t count = 301;
        bool adam = i / 2;
        struct array params = input(s->dtype, count, 0, 1);
        float *state = test_alloc(3 * count * sizeof *state); /* poisoned before step 1 */
        double *ref = test_alloc(3 * count * sizeof *ref);
        for (size_t j = 0; j < count; j++) {
            ref[j] = ref[count + j] = 0;
            ref[2 * count + j] = params.values[j];
        }
        for (int step = 1; step <= 3; step++) {
            struct array grads = input(s->dtype, count, 0, 1);
            struct dt_update u = adam_of(params.data, grads.data, count, state, state + count, adam ? NULL : state + 2 * count);
            if (!adam)
                u.adam = false, u.first_moment = NULL;
            u.on_host = i % 2;
            CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, step));
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
            if (adam)
                ref_adam(grads.values, ref, ref + count, ref + 2 * count, count, step, 0.01f, 0.9f, 0.999f, 1e-8f, 0.5);
            for (size_t j = 0; j < count && !adam; j++)
                ref[2 * count + j] -= (double)0.01f * 0.5 * grads.values[j];
            memcpy(params.values, ref + 2 * count, count * sizeof *ref);
            CHECK_ARRAY(s, params, "params");
            if (adam) /* they are rounded in each step */
                ref_decode(s->dtype, params.data, ref + 2 * count, count);
        }
        if (!adam)
            CHECK(error_of(DT_FP32, state + 2 * count, ref + 2 * count, count) < 1e-6, "master of sgd");
    }
}

static void master(void)
{
    for_every_setup(master_body);
}

/* ---- the norm ---- */

/* Adds up grads in two pieces, settles, and returns what came of it. */
static struct dt_norm_state settle(struct setup *s, const struct array *grads, size_t count, const struct dt_norm_rule *rule, bool on_host,
                                   bool wide)
{
    enum dt_dtype dtype = wide ? DT_FP32 : s->dtype;
    const char *second = (const char *)grads->data + count / 3 * dt_dtype_bytes(dtype);
    float *squares = test_alloc(sizeof *squares);
    struct dt_norm_state out;
    CHECK_OK(dt_kernels_add_squares(&s->base, s->stream, on_host, dtype, grads->data, count / 3));
    CHECK_OK(dt_kernels_add_squares(&s->base, s->stream, on_host, dtype, second, count - count / 3));
    CHECK_OK(dt_kernels_sum_squares(&s->base, s->stream, on_host, squares));
    CHECK_OK(dt_kernels_settle_norm(&s->base, s->stream, false, rule, squares));
    CHECK_OK(dt_kernels_settle_norm(&s->base, s->stream, true, rule, squares));
    CHECK_OK(dt_kernels_norm(&s->base, s->stream, &out));
    CHECK_OK(dt_stream_synchronize(s->stream));
    return out;
}

/* The norm in double, and updates that are scaled down to a shorter one; on the device and on the
 * host. */
static void norm_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 6; i++) {
        size_t count = (size_t[]){17, 77, 300001}[i % 3];
        bool on_host = i >= 3, wide = i % 2;
        struct array params = input(s->dtype, count, 0, 1), grads = input(wide ? DT_FP32 : s->dtype, count, 0, 1);
        double squares = 0, rate = 0.5;
        for (size_t j = 0; j < count; j++)
            squares += grads.values[j] * grads.values[j];
        double norm = sqrt(squares) * 0.25;
        struct dt_norm_rule rule = {.gradient_scale = 0.25f, .clip = (float)(i % 2 ? norm / 8 : norm * 2)};
        CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, 1));
        struct dt_norm_state settled = settle(s, &grads, count, &rule, on_host, wide);
        CHECK(fabs((double)settled.norm / norm - 1) < 1e-6, "norm %g, not %g", (double)settled.norm, norm);
        struct dt_update u = {.params = params.data,
                              .grads = grads.data,
                              .wide_grads = wide,
                              .count = count,
                              .learning_rate = (float)rate,
                              .gradient_scale = 0.25f,
                              .on_host = on_host};
        CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
        CHECK_OK(dt_stream_synchronize(s->stream));
        for (size_t j = 0; j < count; j++)
            params.values[j] -= rate * 0.25 * (i % 2 ? 0.125 : 1) * grads.values[j];
        CHECK_ARRAY(s, params, "params");
    }
}

static void norm(void)
{
    for_every_setup(norm_body);
}

/* Steps whose gradients are not finite leave everything as it is, and Adam does not count them; the
 * loss scale shrinks, and grows after two good ones. */
static void dynamic_scale_body(struct setup *s)
{
    enum { STEPS = 7 };
    static const bool bad[STEPS] = {true, false, false, true, false, false, false};
    static const float scales[STEPS] = {8, 2, 2, 4, 1, 1, 2};
    const struct dt_norm_rule rule = {.gradient_scale = 1, .growth = 2, .backoff = 0.25f, .window = 2};
    const size_t count = 301;
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 2; i++) {
        struct array params = input(s->dtype, count, 0, 1);
        float *state = test_alloc(3 * count * sizeof *state);
        double *ref = test_alloc(3 * count * sizeof *ref);
        int made = 0;
        for (size_t j = 0; j < count; j++) {
            ref[j] = ref[count + j] = 0;
            ref[2 * count + j] = params.values[j];
        }
        CHECK_OK(dt_kernels_set_norm(&s->base, s->stream, &(struct dt_norm_state){.factor = 1, .loss_scale = 8, .used_scale = 8}));
        for (int step = 0; step < STEPS; step++) {
            struct array grads = input(s->dtype, count, 0, 1);
            for (size_t j = 0; j < count; j++)
                grads.values[j] *= (double)scales[step];
            grads.values[200] = bad[step] ? (step ? NAN : INFINITY) : grads.values[200];
            ref_encode(s->dtype, grads.values, grads.data, count);
            ref_decode(s->dtype, grads.data, grads.values, count);
            CHECK_OK(dt_kernels_begin_step(&s->base, s->stream, 0, step + 1));
            struct dt_norm_state settled = settle(s, &grads, count, &rule, i, false);
            CHECK(settled.skips == bad[step] && settled.used_scale == scales[step], "step %d: scale %g", step, (double)settled.used_scale);
            struct dt_update u = adam_of(params.data, grads.data, count, state, state + count, state + 2 * count);
            u.gradient_scale = 1;
            u.on_host = i;
            CHECK_OK(dt_kernels_update(&s->base, s->stream, &u));
            CHECK_OK(dt_stream_synchronize(s->stream));
            if (!bad[step])
                ref_adam(grads.values, ref, ref + count, ref + 2 * count, count, ++made, 0.01f, 0.9f, 0.999f, 1e-8f,
                         1 / (double)scales[step]);
            memcpy(params.values, ref + 2 * count, count * sizeof *ref);
            CHECK_ARRAY(s, params, "params");
        }
        CHECK_OK(dt_kernels_set_norm(&s->base, s->stream, &(struct dt_norm_state){.factor = 1, .loss_scale = 1, .used_scale = 1}));
        CHECK_OK(dt_stream_synchronize(s->stream));
    }
}

static void dynamic_scale(void)
{
    for_every_setup(dynamic_scale_body);
}

/* From each type to fp32 and back, and from fp32 to it; and sums in fp32, on the device and on the
 * host. */
static void convert_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 3 * DT_DTYPE_COUNT; i++) {
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        enum dt_dtype dtype = (enum dt_dtype)(i / 3);
        struct array x = input(dtype, count, 0, 1), back = output(dtype, count), fine = input(DT_FP32, count, 0, 1);
        struct array rounded = output(dtype, count), want = output(dtype, count);
        float *wide = test_alloc(count * sizeof *wide);
        CHECK_OK(dt_kernels_convert(&s->base, s->stream, wide, DT_FP32, x.data, dtype, count));
        CHECK_OK(dt_kernels_convert(&s->base, s->stream, back.data, dtype, wide, DT_FP32, count));
        CHECK_OK(dt_kernels_convert(&s->base, s->stream, rounded.data, dtype, fine.data, DT_FP32, count));
        struct array sum = input(DT_FP32, count, 0, 1), more = input(s->dtype, count, 0, 1);
        CHECK_OK(dt_kernels_add_wide(&s->base, s->stream, i % 2, sum.data, s->dtype, more.data, count));
        CHECK_OK(dt_kernels_add_wide(&s->base, s->stream, i % 2, sum.data, DT_FP32, fine.data, count));
        CHECK_OK(dt_stream_synchronize(s->stream));
        size_t wrong = 0, bytes = count * dt_dtype_bytes(dtype);
        for (size_t j = 0; j < count; j++)
            wrong += (double)wide[j] != x.values[j];
        for (size_t j = 0; j < count; j++)
            sum.values[j] += more.values[j] + fine.values[j];
        CHECK(error_of(DT_FP32, sum.data, sum.values, count) < 1e-6, "sum in fp32");
        ref_encode(dtype, fine.values, want.data, count);
        CHECK(wrong == 0 && memcmp(x.data, back.data, bytes) == 0, "%zu of %zu elements", wrong, count);
        CHECK(memcmp(rounded.data, want.data, bytes) == 0, "%zu elements of fp32 to %s", count, dt_dtype_name(dtype));
    }
}

static void convert(void)
{
    for_every_setup(convert_body);
}

static const struct test_case cases[] = {
    {"SGD", sgd},
    {"SGD with momentum and weight decay", sgd_with_momentum},
    {"Adam", adam},
    {"Adam with weight decay and a rate that changes", adam_with_weight_decay},
    {"gradients that are not finite", overflow},
    {"Adam without a master copy, SGD with one", master},
    {"the gradients' norm, and clipping by it", norm},
    {"a dynamic loss scale, and steps that are left out", dynamic_scale},
    {"to fp32 and back, sums in fp32", convert},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
