/* The loops' conversions for every instruction set of this machine, and results that must not
 * depend on the number of threads. */
#include "test/gpt/kernel_setup.h"

#include "gpt/family.h"

static void every_half_widens(void)
{
    for (enum dt_cpu_isa isa = 0; isa <= dt_cpu_isa(); isa++) {
        unsigned short bits[1024 + 3];
        float wide[1024 + 3];
        for (unsigned first = 0; first < 65536; first += 1024)
            for (enum dt_dtype dtype = DT_FP16; dtype < DT_DTYPE_COUNT; dtype++) {
                size_t count = 1024 - first % 7; /* ends of all lengths */
                for (size_t i = 0; i < 1024; i++)
                    bits[i] = (unsigned short)(first + i);
                const struct dt_simd *simd = dt_simd_for(isa, dtype);
                if (!simd) /* a build for the best level alone */
                    continue;
                simd->widen(wide, bits, count);
                for (size_t i = 0; i < count; i++) {
                    float want = dtype == DT_FP16 ? dt_fp16_to_fp32(bits[i]) : dt_bf16_to_fp32(bits[i]);
                    CHECK(wide[i] == want || (isnan(wide[i]) && isnan(want)), "%s %04x: %g, not %g (%s)", dt_dtype_name(dtype), bits[i],
                          wide[i], want, dt_cpu_isa_name(isa));
                }
            }
    }
}

static void narrowing_rounds_as_the_scalar_does(void)
{
    enum { COUNT = 60001 };
    static float values[COUNT];
    static unsigned short got[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)ldexp(test_uniform(), (int)(test_random() % 60) - 30);
    float special[] = {0,      -0.0f,    INFINITY,     -INFINITY, NAN,      65504,      65519.99f,   65520,       1e30f,
                       -1e30f, 0x1p-14f, 0x1.ffcp-15f, 0x1p-24f,  0x1p-25f, 0x1.8p-25f, 1.00390625f, 1.01171875f, 0x1.fffffep127f};
    memcpy(values, special, sizeof special);
    for (enum dt_cpu_isa isa = 0; isa <= dt_cpu_isa(); isa++)
        for (enum dt_dtype dtype = DT_FP16; dtype < DT_DTYPE_COUNT; dtype++) {
            const struct dt_simd *simd = dt_simd_for(isa, dtype);
            if (!simd)
                continue;
            simd->narrow(got, values, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                unsigned short want = dtype == DT_FP16 ? dt_fp32_to_fp16(values[i]) : dt_fp32_to_bf16(values[i]);
                bool both_nan = isnan(values[i]) && (got[i] & 0x7FFF) > (dtype == DT_FP16 ? 0x7C00 : 0x7F80);
                CHECK(got[i] == want || both_nan, "%s of %a: %04x, not %04x (%s)", dt_dtype_name(dtype), values[i], got[i], want,
                      dt_cpu_isa_name(isa));
            }
        }
}

/* Bytes of everything that sums over rows, from the same input. */
enum { ROWS = 150, D = 86, OUT = 130, V = 31, T = 50 };
struct sums {
    unsigned char dgain[D * 4], dbias[D * 4], db[OUT * 4], dtokens[V * D * 4], dpositions[T * D * 4];
    double loss;
};

static void compute_sums(enum dt_dtype dtype, int threads, const struct array *x, const struct array *dy, struct sums *out)
{
    struct dt_device_options options = {.threads = threads, .local_size = 1};
    struct setup s = {.dtype = dtype, .isa = dt_cpu_isa(), .threads = threads, .table = &gpt_kernels_cpu};
    size_t bytes = dt_dtype_bytes(dtype);
    float mean[ROWS], rstd[ROWS];
    int32_t tokens[ROWS];
    void *copy = test_alloc(dy->count * bytes), *dx = test_alloc(x->count * bytes), *dw = test_alloc(D * OUT * bytes);
    struct gpt_dropout dropout = {.seed = 1, .layer = 2, .probability = 0.1f};
    CHECK_OK(dt_device_create("cpu", &options, &s.device));
    CHECK_OK(dt_stream_create(s.device, "compute", &s.stream));
    setup_kernels(&s, 1, D, V, T);
    memset(out, 0, sizeof *out);
    memcpy(copy, dy->data, dy->count * bytes);
    for (int r = 0; r < ROWS; r++) {
        mean[r] = 0.01f * (float)r;
        rstd[r] = 1;
        tokens[r] = r * r % V;
    }
    struct gpt_norm_gradient norm = {x->data, x->data, x->data, mean, rstd, dx, out->dgain, out->dbias, ROWS, D, true, false};
    struct gpt_linear_weight_gradient linear = {dy->data, x->data, dw, out->db, ROWS, D, OUT, 1, false};
    struct gpt_embedding_gradient embedding = {tokens, x->data, out->dtokens, out->dpositions, ROWS / T, {0, V}, {0, T}, false, dropout};
    struct gpt_loss loss = {copy, tokens, &out->loss, ROWS, 1, 1, false};
    CHECK_OK(s.table->layer_norm_gradient(s.kernels, s.stream, &norm));
    CHECK_OK(s.table->linear_weight_gradient(s.kernels, s.stream, &linear));
    CHECK_OK(s.table->embedding_gradient(s.kernels, s.stream, &embedding));
    CHECK_OK(s.table->loss(s.kernels, s.stream, &loss));
    CHECK_OK(dt_stream_synchronize(s.stream));
    setup_end(&s);
    dt_stream_destroy(s.stream);
    dt_device_destroy(s.device);
}

static void sums_do_not_depend_on_threads(void)
{
    for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        static struct sums one, more;
        struct array x = input(dtype, ROWS * D, 0, 1), dy = input(dtype, ROWS * OUT, 0, 1);
        compute_sums(dtype, 1, &x, &dy, &one);
        for (int threads = 2; threads <= 3; threads++) {
            compute_sums(dtype, threads, &x, &dy, &more);
            CHECK(memcmp(&one, &more, sizeof one) == 0, "%s, %d threads", dt_dtype_name(dtype), threads);
        }
        test_free_all();
    }
}

static void tables_are_whole(void)
{
    for (int i = 0; i < 2; i++) {
        const struct gpt_kernel_table *table = gpt_kernels_for(dt_device_kind_find(i ? "sim" : "cpu"));
        const void *const *entries = (const void *const *)table;
        for (size_t j = 0; j < offsetof(struct gpt_kernel_table, available) / sizeof *entries; j++) /* the other entries are optional */
            CHECK(entries[j], "%s: entry %zu is missing", table->name, j);
    }
}

static void advice_names_another_dtype(void)
{
    char advice[200];
    CHECK(gpt_family.cpu_dtype_native(DT_FP32, advice, sizeof advice) && !advice[0]);
    CHECK(!gpt_family.cpu_dtype_native(DT_FP16, advice, sizeof advice) && (strstr(advice, "bf16") || strstr(advice, "fp32 is")));
    CHECK(gpt_family.cpu_dtype_native(DT_BF16, advice, sizeof advice) == (dt_cpu_isa() == DT_ISA_AVX512BF16));
}

static const struct test_case cases[] = {
    {"every fp16 and bf16 pattern widens", every_half_widens},
    {"narrowing rounds as lib/base/dtype.c does", narrowing_rounds_as_the_scalar_does},
    {"sums do not depend on the number of threads", sums_do_not_depend_on_threads},
    {"no table has holes", tables_are_whole},
    {"advice for dtypes that are not native", advice_names_another_dtype},
};

int main(void)
{
    test_seed();
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
