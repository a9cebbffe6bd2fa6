#include "lib/device/memory.h"
#include "test/check.h"

static void sizes_round_up(void)
{
    CHECK(dt_ledger_rounded(0) == 0 && dt_ledger_rounded(1) == 256 && dt_ledger_rounded(256) == 256 && dt_ledger_rounded(257) == 512);
    CHECK(dt_ledger_rounded(UINT64_MAX) == UINT64_MAX - 255, "no wrap at the top");
}

static void peaks_by_category_and_total(void)
{
    struct dt_ledger ledger = {0};
    CHECK_OK(dt_ledger_add(&ledger, DT_PARAMETERS, 1000));
    CHECK_OK(dt_ledger_add(&ledger, DT_ACTIVATIONS, 5000));
    dt_ledger_remove(&ledger, DT_ACTIVATIONS, 5000);
    CHECK_OK(dt_ledger_add(&ledger, DT_GRADIENTS, 2000));
    const struct dt_memory_bytes *usage = &ledger.usage;
    CHECK(usage->current_bytes[DT_PARAMETERS] == 1024 && usage->current_bytes[DT_ACTIVATIONS] == 0);
    CHECK(usage->current_total_bytes == 1024 + 2048);
    CHECK(usage->peak_bytes[DT_ACTIVATIONS] == 5120 && usage->peak_bytes[DT_GRADIENTS] == 2048);
    CHECK(usage->peak_total_bytes == 1024 + 5120, "the highest sum is not the sum of the highest");
    dt_ledger_reset_peak(&ledger);
    CHECK(usage->peak_bytes[DT_ACTIVATIONS] == 0 && usage->peak_bytes[DT_PARAMETERS] == 1024 && usage->peak_total_bytes == 3072);
    struct dt_memory_bytes higher = {.peak_bytes = {[DT_WORKSPACE] = 512, [DT_PARAMETERS] = 256}, .peak_total_bytes = 4096};
    dt_ledger_raise_peak(&ledger, &higher);
    CHECK(usage->peak_bytes[DT_WORKSPACE] == 512 && usage->peak_bytes[DT_PARAMETERS] == 1024 && usage->peak_total_bytes == 4096);
}

static void limit_refuses(void)
{
    struct dt_ledger ledger = {.limit_bytes = 4096};
    CHECK_OK(dt_ledger_add(&ledger, DT_PARAMETERS, 3840));
    CHECK(dt_ledger_add(&ledger, DT_OPTIMIZER, 257) == DT_ERR_OOM);
    CHECK(strstr(dt_error_message(), "512 bytes asked for optimizer, 3840 in use, limit 4096"), "%s", dt_error_message());
    CHECK(ledger.usage.current_total_bytes == 3840 && ledger.usage.peak_bytes[DT_OPTIMIZER] == 0, "a refusal counts nothing");
    CHECK(dt_ledger_add(&ledger, DT_OPTIMIZER, UINT64_MAX) == DT_ERR_OOM);
    CHECK_OK(dt_ledger_add(&ledger, DT_OPTIMIZER, 256));
    CHECK_OK(dt_ledger_add(&ledger, DT_OPTIMIZER, 0)); /* nothing fits where no more does */

    struct dt_ledger host = {.limit_bytes = 256, .on_host = true};
    CHECK(strstr(dt_error_message(), "out of device memory"), "%s", dt_error_message());
    CHECK(dt_ledger_add(&host, DT_PARAMETERS, 257) == DT_ERR_OOM && strstr(dt_error_message(), "out of host memory"), "%s",
          dt_error_message());
}

static void counts_do_not_wrap(void)
{
    struct dt_ledger ledger = {0};
    CHECK_OK(dt_ledger_add(&ledger, DT_WORKSPACE, 1ull << 63));
    CHECK(dt_ledger_add(&ledger, DT_WORKSPACE, 1ull << 63) == DT_ERR_OOM);
}

static void categories_have_names(void)
{
    CHECK(strcmp(dt_category_name(DT_PARAMETERS), "parameters") == 0 && strcmp(dt_category_name(DT_WORKSPACE), "workspace") == 0);
    CHECK(strcmp(dt_category_name(DT_CATEGORY_COUNT), "unknown") == 0);
}

static void sizes_are_told_to_people(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 bytes"},           {1023, "1023 bytes"},        {24064, "23.5 KiB"}, {(1 << 20) - 1, "1024 KiB"},
                 {5ull << 28, "1.25 GiB"}, {UINT64_MAX, "16777216 TiB"}};
    char text[DT_MEMORY_TEXT];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK(strcmp(dt_memory_text(sizes[i].bytes, text), sizes[i].text) == 0, "\"%s\" for \"%s\"", text, sizes[i].text);
}

static const struct test_case cases[] = {
    {"sizes round up to the allocation unit", sizes_round_up},
    {"peaks are kept by category and in total", peaks_by_category_and_total},
    {"the limit refuses, and says by how much", limit_refuses},
    {"counts do not wrap", counts_do_not_wrap},
    {"categories have their names in records", categories_have_names},
    {"sizes are told to people", sizes_are_told_to_people},
};
TEST_MAIN(cases)
