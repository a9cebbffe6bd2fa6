/* The formulas of kernel times, against numbers worked out by hand. */
#include "gpt/cost/kept.h"
#include "gpt/family.h"
#include "lib/cost/cost.h"
#include "test/check.h"

/* 100 TFLOP/s, 1 TB/s, 100 multiprocessors, tiles of 128 x 128, 128 x 64 and 64 x 64 at 1, 4/5 and
 * 2/3 of their speed. */
static struct dt_costs make_costs(void)
{
    struct dt_costs c = {.hardware = {.peak_flops = 1e14, .memory_bytes_per_s = 1e12}};
    c.profile.gemm.peak_fraction = 0.5;
    c.profile.gemm.tile_rows = c.profile.gemm.tile_columns = 128;
    c.profile.gemm.multiprocessors = 100;
    c.profile.gemm.least_fill = 0.5;
    c.profile.gemm.half_reuse = 64;
    c.profile.gemm.aligned_bytes = 16;
    c.profile.gemm.half_aligned = 0.8;
    c.profile.gemm.quarter_aligned = 0.6;
    c.profile.gemm.unaligned = 0.2;
    c.profile.bandwidth_fraction = 0.5;
    c.profile.kernel_s = 1e-6;
    return c;
}

static void close_to(double value, double wanted, const char *what)
{
    CHECK(fabs(value - wanted) <= 1e-9 * wanted, "%s: %.12g, wanted %.12g", what, value, wanted);
}

static void products(void)
{
    struct dt_costs c = make_costs();
    double flops = 2.0 * 1280 * 1280 * 4096;
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4096, 1280, 2), flops / 5e13, "one full wave");
    close_to(dt_cost_product_s(&c, 1, 1281, 1280, 4096, 4096, 1280, 2), flops / 5e13 * 5 / 4 * 3 / 2, "a fifth wave of small tiles");
    close_to(dt_cost_product_s(&c, 1, 128, 128, 4096, 4096, 128, 2), flops / 100 / 5e13 * 3 / 2 / 0.5 + 2 * 13 * 128.0 * 128 * 4 / 5e11,
             "four small tiles, each split in 13");
    close_to(dt_cost_product_s(&c, 100, 128, 128, 4096, 4096, 128, 2), (2 * 128.0 * 4096 + 128 * 128) * 200 / 5e11,
             "a batch of them, bound by memory");
    c.hardware.fp8_flops = 3e14;
    c.profile.gemm.fp8_peak_fraction = 0.25;
    close_to(dt_cost_fp8_product_s(&c, 1280, 1280, 4096, 4096, 1280, 0.5), flops / 3.75e13, "in FP8, slower by half");
    c.hardware.memory_bytes_per_s = 1e13;
    close_to(dt_cost_product_s(&c, 100, 128, 128, 4096, 4096, 128, 2), flops / 5e13, "and with more bandwidth");
    close_to(dt_cost_product_s(&c, 100, 128, 86, 4096, 4096, 88, 2), flops / 5e13, "a tile that is cut off takes as long as a whole one");
    c.hardware.memory_bytes_per_s = 1e12;
    c.profile.gemm.half_k = 4096 / 3.0;
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4096, 1280, 2), flops / 5e13 / 0.75, "k that is short for the tile's pipeline");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4100, 1280, 2), flops / 5e13 / 0.75, "which alignment does not make slower");
    close_to(dt_cost_fp8_product_s(&c, 1280, 1280, 4096, 4096, 1280, 1), flops / 7.5e13 * 2, "and three times as short in FP8");
    c.profile.gemm.half_k = 0;
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4100, 1280, 2), flops / 5e13 / 0.8, "rows of 8200 bytes");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4098, 1280, 2), flops / 5e13 / 0.6, "rows of 8196 bytes");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4097, 1280, 2), flops / 5e13 / 0.2, "rows of 8194 bytes");
    c.profile.gemm.unbatched_unaligned = 0.25;
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4100, 1280, 2), flops / 5e13 / 0.5, "8200 bytes, no batch");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4096, 1282, 2), flops / 5e13 / 0.25, "2564 bytes, no batch");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4097, 1280, 2), flops / 5e13 / 0.25, "8194 bytes, no batch");
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4096, 1280, 2), flops / 5e13, "whole rows, no batch");
    c.hardware.memory_bytes_per_s = 1e13;
    close_to(dt_cost_product_s(&c, 100, 128, 128, 4096, 4097, 128, 2), flops / 5e13 / 0.2, "8194 bytes, a batch");
    c.hardware.memory_bytes_per_s = 1e12;
    close_to(dt_cost_product_s(&c, 1, 12800, 12800, 1, 8, 12800, 2), (12800.0 + 12800 + 12800.0 * 12800) * 2 / 5e11, "bound by memory");
    c.profile.gemm.half_k = 4096;
    close_to(dt_cost_product_s(&c, 1, 1280, 1280, 4096, 4096, 1280, 2), 2 * flops / 5e13, "half of it");
}

static void memory(void)
{
    struct dt_costs c = make_costs();
    close_to(dt_cost_memory_s(&c, 2, 1e9), 2e-3, "bytes");
    close_to(dt_cost_memory_s(&c, 3, 10), 3e-6, "launches");
}

/* The study's own formulas, minus what dtbench keeps. */
static void kept(void)
{
    struct dt_costs c = make_costs();
    struct dt_model m = gpt_model_of(
        DT_FP16,
        &(struct gpt_model){
            .layers = 24, .heads = 16, .hidden = 1024, .vocab_size = 50000, .block_size = 256, .attention = GPT_ATTENTION_UNFUSED});
    CHECK(gpt_cost_kept_bytes(&c.profile, &m, GPT_ATTENTION, 3, 1, false) == 0 &&
          gpt_cost_kept_bytes(&c.profile, &m, GPT_HEAD, 3, 1, false) == 0);
    c.profile.memory.block_elems = 16;
    c.profile.memory.block_mask_bytes = 2;
    c.profile.memory.weights_elems = 2;
    c.profile.memory.weights_mask_bytes = 1;
    c.profile.memory.logits_elems = 2;
    size_t block = 3 * (256 * 1024 * 34 + 5 * 16 * 256 * 256), own = 3 * (256 * 1024 * 20 + 2 * 16 * 256 * 256);
    CHECK(gpt_cost_kept_bytes(&c.profile, &m, GPT_ATTENTION, 3, 1, false) + gpt_cost_kept_bytes(&c.profile, &m, GPT_MLP_UP, 3, 1, false) ==
          block - own);
    m.fp8 = DT_FP8_DELAYED;
    CHECK(gpt_cost_kept_bytes(&c.profile, &m, GPT_ATTENTION, 3, 1, false) + gpt_cost_kept_bytes(&c.profile, &m, GPT_MLP_UP, 3, 1, false) ==
              block - own - 3 * 256 * 1024 * 5,
          "a norm and a wide activation of one byte");
    m.fp8 = DT_FP8_NONE;
    CHECK(gpt_cost_kept_bytes(&c.profile, &m, GPT_HEAD, 3, 1, false) == (size_t)3 * 256 * 50000 * 2);
    CHECK(gpt_cost_kept_bytes(&c.profile, &m, GPT_MLP_DOWN, 3, 1, false) == 0);
    m.family = &gpt_family;
    CHECK(dt_model_tensor_count(&m) == 16 * 24 + 5);
    struct gpt_model rms = *gpt_of(&m);
    rms.norm = GPT_NORM_RMS;
    struct dt_model with_rms = gpt_model_of(DT_FP16, &rms);
    size_t fused = gpt_cost_kept_bytes(&c.profile, &with_rms, GPT_MLP_UP, 3, 2, true);
    c.profile.memory.rms_norm_elems = 3;
    CHECK(gpt_cost_kept_bytes(&c.profile, &with_rms, GPT_MLP_UP, 3, 2, true) - fused == 3 * 256 * 1024 * 6 / 2);
}

static const struct test_case cases[] = {{"matrix products", products}, {"memory", memory}, {"what is kept", kept}};
TEST_MAIN(cases)
