/* What the tests of kernels share: fresh random input, poisoned output, and a body run for every dtype, instruction set and team size. */
#ifndef TEST_KERNEL_SETUP_H
#define TEST_KERNEL_SETUP_H

#include "gpt/kernels_cpu.h"
#include "test/check.h"
#include "test/reference.h"

#include <stdlib.h>
#include <time.h>

/* An array in both worlds: `values` the reference computes with, `data` the kernel. */
struct array {
    double *values;
    void *data;
    size_t count;
};

struct setup {
    enum dt_dtype dtype;
    enum dt_cpu_isa isa;
    int threads;
    const struct gpt_kernel_table *table;
    struct dt_device *device;
    struct dt_stream *stream;
    struct gpt_kernels *kernels; /* of the model last given to setup_kernels */
};

static uint64_t test_random_state;
static void *test_allocations[256];
static int test_allocation_count;

/* From the clock, or DTBENCH_TEST_SEED to see a failure again. */
static inline void test_seed(void)
{
    const char *given = getenv("DTBENCH_TEST_SEED");
    test_random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("# DTBENCH_TEST_SEED=%llu\n", (unsigned long long)test_random_state);
}

static inline uint64_t test_random(void)
{
    uint64_t z = test_random_state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* In [-1, 1). */
static inline double test_uniform(void)
{
    return (double)(test_random() >> 11) * 0x1p-52 - 1;
}

/* Freed after the body; exactly as long as asked for, so that a sanitizer sees what goes past the end. */
static inline void *test_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory || test_allocation_count == (int)(sizeof test_allocations / sizeof test_allocations[0])) {
        printf("Bail out! no memory\n");
        exit(1);
    }
    memset(memory, 0xFF, bytes);
    return test_allocations[test_allocation_count++] = memory;
}

static inline void test_free_all(void)
{
    while (test_allocation_count > 0)
        free(test_allocations[--test_allocation_count]);
}

/* Poisoned: NaN in every dtype. */
static inline struct array output(enum dt_dtype dtype, size_t count)
{
    return (struct array){test_alloc(count * sizeof(double)), test_alloc(count * dt_dtype_bytes(dtype)), count};
}

/* center + scale * [-1, 1), rounded to the dtype in both. */
static inline struct array input(enum dt_dtype dtype, size_t count, double center, double scale)
{
    struct array a = output(dtype, count);
    for (size_t i = 0; i < count; i++)
        a.values[i] = center + scale * test_uniform();
    ref_round(dtype, a.values, count);
    ref_encode(dtype, a.values, a.data, count);
    return a;
}

/* What one rounding to the dtype may cost, and fp32's own arithmetic. */
static inline double bound_of(enum dt_dtype dtype)
{
    return dtype == DT_FP32 ? 3e-6 : dtype == DT_FP16 ? 0x1p-11 : 0x1p-8;
}

static inline double error_of(enum dt_dtype dtype, const void *data, const double *want, size_t count)
{
    double *got = malloc((count ? count : 1) * sizeof *got);
    ref_decode(dtype, data, got, count);
    double error = ref_error(got, want, count);
    free(got);
    return error;
}

/* `a` holds what a kernel made in data and the reference in values. */
#define CHECK_ARRAY(s, a, what)                                                                                                            \
    do {                                                                                                                                   \
        double check_error_ = error_of((s)->dtype, (a).data, (a).values, (a).count);                                                       \
        CHECK(check_error_ <= bound_of((s)->dtype), "%s: error %.3g with %s, %s, %d threads", what, check_error_,                          \
              dt_dtype_name((s)->dtype), dt_cpu_isa_name((s)->isa), (s)->threads);                                                        \
    } while (0)

static inline void setup_kernels(struct setup *s, int heads, int hidden, int vocab, int block)
{
    struct gpt_model model = {.layers = 1, .heads = heads, .hidden = hidden, .vocab_size = vocab, .block_size = block, .dtype = s->dtype};
    s->table->destroy(s->kernels);
    CHECK_OK(gpt_kernels_cpu_create(s->device, &model, s->isa, &s->kernels));
}

/* Every dtype, every instruction set this machine has, teams of 1 and 2. */
static inline void for_every_setup(void (*body)(struct setup *s))
{
    for (int threads = 1; threads <= 2; threads++) {
        struct dt_device_options options = {.threads = threads, .local_size = 1};
        struct setup s = {.threads = threads, .table = &gpt_kernels_cpu};
        CHECK_OK(dt_device_create("cpu", &options, &s.device));
        CHECK_OK(dt_stream_create(s.device, "compute", &s.stream));
        for (s.isa = 0; s.isa <= dt_cpu_isa(); s.isa++)
            for (s.dtype = 0; s.dtype < DT_DTYPE_COUNT; s.dtype++) {
                body(&s);
                CHECK_OK(dt_stream_synchronize(s.stream));
                s.table->destroy(s.kernels);
                s.kernels = NULL;
                test_free_all();
            }
        dt_stream_destroy(s.stream);
        dt_device_destroy(s.device);
    }
}

#endif
