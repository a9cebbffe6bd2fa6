/* The optimizers' kernels against the references, and what they do with gradients that are not finite. */
#include "test/gpt/kernel_setup.h"

#include <math.h>
#include <stdlib.h>

static void sgd_body(struct setup *s)
{
    setup_kernels(s, 1, 8, 8, 8);
    for (int i = 0; i < 6; i++) { /* from the fourth on those of host memory */
        size_t count = (size_t[]){17, 77, 30001}[i % 3];
        struct array params = input(s->dtype, count, 0, 1), grads = input(s->dtype, count, 0, 1);
        struct dt_update u = {
            .params = params.data, .grads = grads.data, .count = count, .learning_rate = 0.5f, .gradient_scale = 0.25f, .on_host = i >= 3};
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
            struct array grads = input(s->dtype, count, 0, 1);
            struct dt_update u = adam_of(params.data, grads.data, count, state, state + count, state + 2 * count);
            u.on_host = i >= 3;
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

/* Gradients that are not finite: their elements stay bit for bit, the others are as without them, and the step counts them. */
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

static const struct test_case cases[] = {
    {"SGD", sgd},
    {"SGD with momentum and weight decay", sgd_with_momentum},
    {"Adam", adam},
    {"Adam with weight decay and a rate that changes", adam_with_weight_decay},
    {"gradients that are not finite", overflow},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
