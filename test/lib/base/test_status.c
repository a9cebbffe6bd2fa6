#include "lib/base/dtype.h"
#include "test/check.h"

#include <stdlib.h>

static void messages_wrap(void)
{
    CHECK(dt_fail(DT_ERR_IO, "cannot open %s", "x.json") == DT_ERR_IO);
    dt_fail(DT_ERR_INVALID, "config: %s", dt_error_message());
    CHECK(strcmp(dt_error_message(), "config: cannot open x.json") == 0, "%s", dt_error_message());
}

/* A line for each, the first one's status, and a count of those without room. */
static void failures_are_collected(void)
{
    enum { MANY = 500 };
    struct dt_failures failures = {0};
    dt_fail(DT_ERR_IO, "not among them");
    dt_failures_add(&failures, DT_OK);
    CHECK(dt_failures_end(&failures) == DT_OK);
    dt_failures_add(&failures, dt_fail(DT_ERR_INVALID, "a"));
    dt_failures_add(&failures, dt_fail(DT_ERR_IO, "bc"));
    CHECK(dt_failures_end(&failures) == DT_ERR_INVALID && strcmp(dt_error_message(), "a\nbc") == 0, "%s", dt_error_message());
    for (int i = 0; i < MANY; i++)
        dt_failures_add(&failures, dt_fail(DT_ERR_IO, "%0100d", i));
    CHECK(failures.left_out > 0 && strlen(failures.text) < sizeof failures.text);
    size_t kept = 0;
    for (const char *c = failures.text; *c; c++)
        kept += *c == '\n';
    CHECK(kept + 1 + (size_t)failures.left_out == MANY + 2, "%zu and %d", kept, failures.left_out);
    char end[32];
    snprintf(end, sizeof end, "\nand %d more", failures.left_out);
    CHECK(dt_failures_end(&failures) == DT_ERR_INVALID && strstr(dt_error_message(), end), "%s", dt_error_message());
}

/* Every 16-bit pattern survives the way through fp32; between two neighbours the nearest one
 * wins. */
static void half_round_trip(void)
{
    for (unsigned i = 0; i < 65536; i++) {
        float h = dt_fp16_to_fp32((unsigned short)i), b = dt_bf16_to_fp32((unsigned short)i);
        CHECK(h != h || dt_fp32_to_fp16(h) == i, "fp16 %04x gives %04x", i, dt_fp32_to_fp16(h));
        CHECK(b != b || dt_fp32_to_bf16(b) == i, "bf16 %04x gives %04x", i, dt_fp32_to_bf16(b));
    }
}

static void half_rounds_to_nearest(void)
{
    srand(7);
    for (int i = 0; i < 200000; i++) {
        float x = ldexpf((float)rand() / (float)RAND_MAX * 2 - 1, rand() % 44 - 27);
        unsigned short h = dt_fp32_to_fp16(x), b = dt_fp32_to_bf16(x);
        float error = fabsf(dt_fp16_to_fp32(h) - x);
        for (int step = -1; step <= 1; step += 2) {
            float neighbour = dt_fp16_to_fp32((unsigned short)(h + step));
            CHECK(!(fabsf(neighbour - x) < error) || isinf(dt_fp16_to_fp32(h)), "%a: %04x is not the nearest fp16", x, h);
            CHECK(!(fabsf(dt_bf16_to_fp32((unsigned short)(b + step)) - x) < fabsf(dt_bf16_to_fp32(b) - x)), "%a", x);
        }
    }
    CHECK(dt_fp32_to_fp16(65519.0f) == 0x7BFF && dt_fp32_to_fp16(65520.0f) == 0x7C00);
    CHECK(isnan(dt_fp16_to_fp32(dt_fp32_to_fp16(NAN))) && isnan(dt_bf16_to_fp32(dt_fp32_to_bf16(NAN))));
}

static const struct test_case cases[] = {
    {"failure texts wrap earlier ones", messages_wrap},
    {"failures are collected", failures_are_collected},
    {"every fp16 and bf16 value survives fp32", half_round_trip},
    {"fp16 and bf16 round to nearest", half_rounds_to_nearest},
};
TEST_MAIN(cases)
