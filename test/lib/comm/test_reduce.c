/* The sums of a reduction: the same bits on every processor. */
#include "lib/kernels/cpu/loops.h"
#include "test/check.h"

#include <stdint.h>
#include <stdlib.h>

static float widen(enum dt_dtype dtype, const void *from, size_t i)
{
    switch (dtype) {
    case DT_FP16: return dt_fp16_to_fp32(((const uint16_t *)from)[i]);
    case DT_BF16: return dt_bf16_to_fp32(((const uint16_t *)from)[i]);
    case DT_FP32:
    case DT_DTYPE_COUNT: break;
    }
    return ((const float *)from)[i];
}

static uint32_t narrow_bits(enum dt_dtype dtype, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return dtype == DT_FP16 ? dt_fp32_to_fp16(value) : dtype == DT_BF16 ? dt_fp32_to_bf16(value) : bits;
}

static uint32_t bits_at(enum dt_dtype dtype, const void *from, size_t i)
{
    return dtype == DT_FP32 ? ((const uint32_t *)from)[i] : ((const uint16_t *)from)[i];
}

/* Element by element against the scalar conversions; returns the number of differences and shows
 * the first. */
static int differences(enum dt_cpu_isa isa, enum dt_dtype dtype, const void *out, const void *a, const void *b, size_t count, float scale)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float x = widen(dtype, a, i), y = widen(dtype, b, i), want = (x + y) * scale;
        uint32_t got = bits_at(dtype, out, i);
        bool same = isnan(want) ? isnan(widen(dtype, out, i)) : got == narrow_bits(dtype, want);
        if (!same && wrong++ == 0)
            printf("# %s %s: (%a + %a) * %g gives %x, not %x, at %zu of %zu\n", dt_cpu_isa_name(isa), dt_dtype_name(dtype), (double)x,
                   (double)y, (double)scale, got, narrow_bits(dtype, want), i, count);
    }
    return wrong;
}

/* False: the loops are not in this build, or do not run on this processor. */
static bool combine(enum dt_cpu_isa isa, enum dt_dtype dtype, void *out, const void *a, const void *b, size_t count, float scale)
{
    const struct dt_simd *loops = dt_simd_for(isa, dtype);
    if (loops)
        loops->combine(out, a, b, count, scale);
    return loops;
}

enum { PATTERNS = 65536 };

/* Every 16-bit pattern on the left, among them all subnormals, infinities and NaNs, and a shuffled
 * one on the right. */
static void every_pattern(void)
{
    static uint16_t a[PATTERNS], b[PATTERNS], out[PATTERNS];
    static const float scales[] = {1.0f, 0.5f, 1.0f / 3.0f};
    for (enum dt_cpu_isa isa = DT_ISA_BASE; isa <= DT_ISA_AVX512; isa++) {
        for (unsigned round = 0; round < 12; round++) {
            enum dt_dtype dtype = round % 2 ? DT_FP16 : DT_BF16;
            float scale = scales[round % 3];
            for (unsigned i = 0; i < PATTERNS; i++) {
                a[i] = (uint16_t)i;
                b[i] = (uint16_t)(i * (2 * round + 1) + round * 40503u); /* odd factor: a permutation */
            }
            if (!combine(isa, dtype, out, a, b, PATTERNS, scale))
                continue;
            CHECK(differences(isa, dtype, out, a, b, PATTERNS, scale) == 0);
        }
    }
}

/* Random fp32 bits, rounding ties of both halves included by construction above; here any
 * exponent. */
static void random_fp32(void)
{
    static uint32_t a[PATTERNS], b[PATTERNS], out[PATTERNS];
    srand(3);
    for (int i = 0; i < PATTERNS; i++) {
        a[i] = (uint32_t)rand() << 16 ^ (uint32_t)rand();
        b[i] = i % 3 ? a[i] ^ (uint32_t)(rand() & 0x807FFFFF) : (uint32_t)rand() << 16 ^ (uint32_t)rand();
    }
    for (enum dt_cpu_isa isa = DT_ISA_BASE; isa <= DT_ISA_AVX512; isa++) {
        if (combine(isa, DT_FP32, out, a, b, PATTERNS, 0.25f))
            CHECK(differences(isa, DT_FP32, out, a, b, PATTERNS, 0.25f) == 0);
    }
}

/* Short and odd lengths at odd addresses, in place on either side; memory around the result does
 * not change. */
static void lengths_and_aliases(void)
{
    for (enum dt_cpu_isa isa = DT_ISA_BASE; isa <= DT_ISA_AVX512; isa++) {
        for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
            size_t width = dt_dtype_bytes((enum dt_dtype)dtype);
            for (size_t count = 0; count < 70; count++) {
                for (int alias = 0; alias < 3; alias++) {
                    uint32_t a[80], b[80], before_a[80], before_b[80], space[80];
                    for (int i = 0; i < 80; i++) {
                        a[i] = 0x3F803E01u + (uint32_t)i * 0x00070003u;
                        b[i] = 0x3E0040F3u + (uint32_t)i * 0x00030005u;
                        space[i] = 0xABABABABu;
                    }
                    memcpy(before_a, a, sizeof a);
                    memcpy(before_b, b, sizeof b);
                    char *x = (char *)a + width, *y = (char *)b + width;
                    char *out = alias == 0 ? (char *)space + width : alias == 1 ? x : y;
                    char *whole = out - width, saved[sizeof space];
                    memcpy(saved, whole, sizeof saved);
                    if (!combine(isa, (enum dt_dtype)dtype, out, x, y, count, 1.0f))
                        continue;
                    CHECK(differences(isa, (enum dt_dtype)dtype, out, (char *)before_a + width, (char *)before_b + width, count, 1.0f) ==
                          0);
                    CHECK(memcmp(whole, saved, width) == 0 &&
                              memcmp(out + count * width, saved + (count + 1) * width, sizeof saved - (count + 1) * width) == 0,
                          "%s: wrote outside [%zu]", dt_cpu_isa_name(isa), count);
                }
            }
        }
    }
}

static void baseline_exists(void)
{
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        CHECK(dt_simd_for(DT_ISA_BASE, (enum dt_dtype)dtype) != NULL);
}

static const struct test_case cases[] = {
    {"every 16-bit pattern, every instruction set", every_pattern},
    {"random fp32", random_fp32},
    {"lengths, addresses, aliases", lengths_and_aliases},
    {"every processor has the baseline", baseline_exists},
};
TEST_MAIN(cases)
