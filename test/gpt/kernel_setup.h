/* Shared code of the kernels' tests: fresh random input, poisoned output, and a body run for every
 * dtype, instruction set and team size of the cpu's kernels, or for every dtype and alignment of
 * another device's (test/lib/device/device_kind.h). */
#pragma once

#include "gpt/cpu/kernels.h"
#include "test/check.h"
#include "test/gpt/device_arrays.h"
#include "test/gpt/reference.h"
#include "test/lib/device/device_kind.h"

#include <stdlib.h>

/* An array for the reference (`values`) and for the kernel (`data`). */
struct array {
    double *values;
    void *data;
    size_t count;
};

struct setup {
    enum dt_dtype dtype;
    enum dt_cpu_isa isa; /* cpu alone, and threads too */
    int threads;
    const struct gpt_kernel_table *table;
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_kernels base; /* both of the model last given to setup_kernels */
    struct gpt_kernels *kernels;
};

/* Where a body's memory comes from. On a GPU it is the host's that kernels reach too, so that
 * bodies read and write it as they do on cpu; a margin after each piece shows what wrote past the
 * end. With DTBENCH_SEPARATE_BUFFERS kernels work on copies on the device. */
enum { TEST_ALLOCATIONS = 640, TEST_MARGIN_BYTES = 64 };

static struct {
    struct dt_stream *stream; /* NULL: malloc */
    size_t shift_elems;       /* data that kernels get begins so far behind an aligned address */
    int count;
    void *memory[TEST_ALLOCATIONS];
    struct dt_buffer buffer[TEST_ALLOCATIONS];
    size_t bytes[TEST_ALLOCATIONS];
} test_heap;

static uint64_t test_random_state;

/* 1, or DTBENCH_TEST_SEED to try others. */
static inline void test_seed(void)
{
    const char *given = getenv("DTBENCH_TEST_SEED");
    test_random_state = given ? strtoull(given, NULL, 10) : 1;
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

static inline void test_bail_out(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

/* Freed after the body; on cpu exactly as long as asked for, so that a sanitizer sees what goes
 * past the end. */
static inline void *test_alloc(size_t bytes)
{
    int i = test_heap.count++;
    if (i == TEST_ALLOCATIONS)
        test_bail_out("too many arrays");
    test_heap.bytes[i] = bytes;
    if (test_heap.stream) {
        if (dt_alloc_host(test_heap.stream, DT_WORKSPACE, bytes + TEST_MARGIN_BYTES, &test_heap.buffer[i]) < 0 ||
            dt_stream_synchronize(test_heap.stream) < 0)
            test_bail_out(dt_error_message());
        memset(test_heap.buffer[i].data, 0xFF, bytes + TEST_MARGIN_BYTES);
        if (on_device.kernels && device_array_add(test_heap.stream, test_heap.buffer[i].data, bytes) < 0)
            test_bail_out(dt_error_message());
        return test_heap.memory[i] = test_heap.buffer[i].data;
    }
    test_heap.memory[i] = malloc(bytes ? bytes : 1);
    if (!test_heap.memory[i])
        test_bail_out("no memory");
    return memset(test_heap.memory[i], 0xFF, bytes);
}

static inline void test_free_all(void)
{
    if (test_heap.stream)
        device_arrays_free(test_heap.stream);
    while (test_heap.count > 0) {
        int i = --test_heap.count;
        if (!test_heap.stream) {
            free(test_heap.memory[i]);
            continue;
        }
        const unsigned char *margin = (const unsigned char *)test_heap.memory[i] + test_heap.bytes[i];
        bool whole = true;
        for (int j = 0; j < TEST_MARGIN_BYTES; j++)
            whole &= margin[j] == 0xFF;
        CHECK(whole, "something wrote past the end of array %d, of %zu bytes", i, test_heap.bytes[i]);
        dt_free(test_heap.stream, &test_heap.buffer[i]);
    }
}

/* Poisoned: NaN in every dtype. */
static inline struct array output(enum dt_dtype dtype, size_t count)
{
    size_t shift_bytes = test_heap.shift_elems * dt_dtype_bytes(dtype);
    char *data = test_alloc(shift_bytes + count * dt_dtype_bytes(dtype));
    return (struct array){test_alloc(count * sizeof(double)), data + shift_bytes, count};
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

/* An output with earlier values, which `old` gets, or with poison where the kernel must not add to
 * it. */
static inline struct array target(struct setup *s, size_t count, bool accumulate, double *old)
{
    struct array a = accumulate ? input(s->dtype, count, 0, 1) : output(s->dtype, count);
    if (accumulate)
        memcpy(old, a.values, count * sizeof *old);
    else
        memset(old, 0, count * sizeof *old);
    return a;
}

static inline void add_old(struct array *a, const double *old)
{
    for (size_t i = 0; i < a->count; i++)
        a->values[i] += old[i];
}

/* The bound for one rounding to the dtype, and fp32's own arithmetic. */
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

/* For error texts; valid until the next call. */
static inline const char *setup_text(const struct setup *s)
{
    static char text[64];
    if (test_heap.stream)
        snprintf(text, sizeof text, "arrays %zu past alignment", test_heap.shift_elems);
    else
        snprintf(text, sizeof text, "%s, %d threads", dt_cpu_isa_name(s->isa), s->threads);
    return text;
}

/* `a` holds what a kernel made in data and the reference in values. */
#define CHECK_ARRAY(s, a, what)                                                                                                            \
    do {                                                                                                                                   \
        double check_error_ = error_of((s)->dtype, (a).data, (a).values, (a).count);                                                       \
        CHECK(check_error_ <= bound_of((s)->dtype), "%s: error %.3g, limit %.3g, with %s, %s", what, check_error_, bound_of((s)->dtype),   \
              dt_dtype_name((s)->dtype), setup_text(s));                                                                                   \
    } while (0)

static inline void setup_end(struct setup *s)
{
    s->table->destroy(s->kernels);
    s->kernels = NULL;
    dt_kernels_finish(&s->base);
}

static inline void setup_model(struct setup *s, const struct dt_model *model)
{
    setup_end(s);
    CHECK_OK(dt_kernels_init(&s->base, s->device, s->dtype));
    if (s->table == &gpt_kernels_cpu) {
        s->base.host.loops = dt_simd_for(s->isa, s->dtype);
        CHECK_OK(gpt_kernels_cpu_create(&s->base, model, s->isa, &s->kernels));
    } else {
        CHECK_OK(s->table->create(&s->base, model, &s->kernels));
    }
    if (on_device.kernels)
        s->base.backend = device_arrays_backend(s->base.backend);
}

static inline void setup_kernels(struct setup *s, int heads, int hidden, int vocab, int block)
{
    struct dt_model model = gpt_model_of(
        s->dtype, &(struct gpt_model){.layers = 1, .heads = heads, .hidden = hidden, .vocab_size = vocab, .block_size = block});
    setup_model(s, &model);
}

/* The same with an activation. */
static inline void setup_gelu(struct setup *s, enum gpt_mlp_kind mlp)
{
    struct gpt_model sizes = {.layers = 1, .heads = 1, .hidden = 8, .vocab_size = 8, .block_size = 8};
    sizes.mlp = mlp;
    struct dt_model model = gpt_model_of(s->dtype, &sizes);
    setup_model(s, &model);
}

static inline void setup_run(struct setup *s, void (*body)(struct setup *s))
{
    body(s);
    CHECK_OK(dt_stream_synchronize(s->stream));
    setup_end(s);
    test_free_all();
}

/* Every dtype, every instruction set this machine has, teams of 1 and 2. */
static inline void for_every_cpu_setup(void (*body)(struct setup *s))
{
    for (int threads = 1; threads <= 2; threads++) {
        struct dt_device_options options = {.threads = threads, .local_size = 1};
        struct setup s = {.threads = threads, .table = &gpt_kernels_cpu};
        CHECK_OK(dt_device_create("cpu", &options, &s.device));
        CHECK_OK(dt_stream_create(s.device, "compute", &s.stream));
        for (s.isa = 0; s.isa <= dt_cpu_isa(); s.isa++)
            for (s.dtype = 0; s.dtype < DT_DTYPE_COUNT; s.dtype++)
                if (gpt_simd_for(s.isa, s.dtype)) /* a build for the best level alone leaves some out */
                    setup_run(&s, body);
        dt_stream_destroy(s.stream);
        dt_device_destroy(s.device);
    }
}

static struct dt_device_options setup_options = {.warpgroup_kernels = DT_WARPGROUPS_NEVER}; /* of a GPU */

/* Every dtype, on arrays that 16-byte accesses suit and on arrays that begin an element later. */
static inline void for_every_gpu_setup(const char *kind, void (*body)(struct setup *s))
{
    struct setup s = {.table = gpt_kernels_for(dt_device_kind_find(kind))};
    CHECK_OK(dt_device_create(kind, &setup_options, &s.device));
    CHECK_OK(dt_stream_create(s.device, "compute", &s.stream));
    test_heap.stream = s.stream;
    struct gpt_kernel_table arrays_on_device;
    if (getenv("DTBENCH_SEPARATE_BUFFERS")) {
        device_arrays_table(s.table, &arrays_on_device);
        s.table = &arrays_on_device;
    }
    for (test_heap.shift_elems = 0; test_heap.shift_elems < 2; test_heap.shift_elems++)
        for (s.dtype = 0; s.dtype < DT_DTYPE_COUNT; s.dtype++)
            setup_run(&s, body);
    test_heap.stream = NULL;
    test_heap.shift_elems = 0;
    on_device.kernels = NULL;
    dt_stream_destroy(s.stream);
    dt_device_destroy(s.device);
}

/* On an emulated GPU, which is slow, every shape is tried in one way; elsewhere in every way. */
static inline bool every_way(const struct setup *s)
{
    struct dt_device_info info;
    dt_device_info(s->device, &info);
    return strcmp(info.name, "emulated GPU") != 0;
}

static inline void for_every_setup(void (*body)(struct setup *s))
{
    const char *kind = test_device_kind();
    char reason[200];
    if (!dt_device_available(kind, reason, sizeof reason) || !gpt_kernels_available(dt_device_kind_find(kind), reason, sizeof reason))
        SKIP("device \"%s\": %s", kind, reason);
    if (strcmp(kind, "cpu") == 0)
        for_every_cpu_setup(body);
    else
        for_every_gpu_setup(kind, body);
}
