/* What profiles and frameworks change in a simulated step: launches, copies, sums, FP8, buffers and
 * stages. */
#include "predict/framework.h"
#include "test/predict/simulation_case.h"

#include <math.h>

static void only_updates(struct simulated_system *s)
{
    only_attention(s);
    memset(s->costs.profile.kernels, 0, sizeof s->costs.profile.kernels);
    s->costs.profile.kernels[DT_PRICED_SGD].launches = 1;
    s->costs.profile.host.interpreter_launch_s = 10;
    s->costs.profile.optimizer_fused = 1;
}

static void updates_together(struct simulated_system *s)
{
    only_updates(s);
    s->costs.profile.optimizer_fused = 2;
}

/* An optimizer of a framework updates all parameters with one launch; dtbench's, each bucket. */
static void updates_are_launched_once(void)
{
    double each_s = run_keys("\"batch_size\": 1, \"paradigm\": \"ddp\", \"world_size\": 2, " SMALL, only_updates);
    double together_s = run_keys("\"batch_size\": 1, \"paradigm\": \"ddp\", \"world_size\": 2, " SMALL, updates_together);
    CHECK(fabs(together_s - 10) < 1, "together: %g s", together_s);
    CHECK(each_s > 5 * together_s, "162M parameters are more than five buckets: %g s", each_s);
}

static void updates_by_tensors(struct simulated_system *s)
{
    only_updates(s);
    s->costs.profile.optimizer_fused = 0;
}

/* Two ranks that share layers have half of each tensor, so each launches as many updates as one
 * rank alone. */
static void shared_tensors_are_updated_by_all(void)
{
    double whole_s = run_keys("\"batch_size\": 1, \"paradigm\": \"none\", " SMALL, updates_by_tensors);
    double halves_s =
        run_keys("\"batch_size\": 2, \"paradigm\": \"ddp\", \"world_size\": 2, \"tensor\": {\"size\": 2}, " SMALL, updates_by_tensors);
    CHECK(whole_s > 1000 && fabs(halves_s / whole_s - 1) < 0.02, "%g s, and %g s with halves", whole_s, halves_s);
}

static void only_gathers(struct simulated_system *s)
{
    only_attention(s);
    memset(s->costs.profile.kernels, 0, sizeof s->costs.profile.kernels);
    s->device.gather_host_s = 10;
}

/* The framework's host time for gathers of shards is not added to gathers of sequence
 * parallelism. */
static void only_shards_cost_gathers(void)
{
    double tensor_s =
        run_keys("\"batch_size\": 2, \"paradigm\": \"ddp\", \"world_size\": 2, \"tensor\": {\"size\": 2}, " SMALL, only_gathers);
    double shards_s = run_keys("\"batch_size\": 1, \"paradigm\": \"fsdp\", \"world_size\": 2, " SMALL, only_gathers);
    CHECK(tensor_s < 1 && shards_s > 100, "%g s for layers, %g s for shards", tensor_s, shards_s);
}

#define FP8 "\"cluster\": \"clusters/dgx_h100_1.json\", \"world_size\": 2, \"batch_size\": 2, \"micro_batches\": 2, "
#define FP8_MODEL "\"model\": {\"layers\": 4, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32, \"dtype\": \"bf16\"}"

/* The metrics of two ranks, and the bytes that they hold of parameters. */
static struct dt_step_metrics in_fp8(const char *keys, double *held)
{
    char text[512];
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text, "{\"device\": \"sim\", %s, " FP8 FP8_MODEL "}", keys);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_system_create(e, &system));
    run(e, system, &result);
    struct dt_step_metrics step = result.metrics.step;
    *held = (double)result.ranks[0].memory.device.peak_bytes[DT_PARAMETERS];
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
    return step;
}

/* Four blocks of 12 x 64 x 64 weights, with 13 x 64 numbers of biases and norms, are gathered four
 * times in two micro-batches. */
static void products_in_fp8(void)
{
    enum { BLOCKS = 4 * (12 * 64 * 64 + 13 * 64) };
    double held, all_held, none, copies;
    struct dt_step_metrics wide = in_fp8("\"paradigm\": \"fsdp\"", &none);
    struct dt_step_metrics all = in_fp8("\"paradigm\": \"fsdp\", \"fp8\": {\"recipe\": \"tensorwise\", \"gather\": true}", &all_held);
    CHECK(wide.all_gather_bytes - all.all_gather_bytes == 4.0 * BLOCKS, "%g and %g bytes", wide.all_gather_bytes, all.all_gather_bytes);
    CHECK(wide.all_reduce_bytes == 0 && all.all_reduce_bytes > 0 && all_held == none, "%g bytes of amaxes", all.all_reduce_bytes);
    struct dt_step_metrics ddp = in_fp8("\"paradigm\": \"ddp\"", &held);
    struct dt_step_metrics delayed = in_fp8("\"paradigm\": \"ddp\", \"fp8\": {\"recipe\": \"delayed\"}", &copies);
    CHECK(copies - held == 2.0 * BLOCKS, "weights in FP8, also transposed: %g bytes", copies - held);
    CHECK(delayed.all_reduce_bytes > ddp.all_reduce_bytes && delayed.forward_s > ddp.forward_s,
          "casts of such small operands cost more than products gain: %g s, %g s", delayed.forward_s, ddp.forward_s);
    struct dt_step_metrics zero = in_fp8("\"paradigm\": \"zero1\", \"fp8\": {\"recipe\": \"current\"}", &copies);
    struct dt_step_metrics kept = in_fp8("\"paradigm\": \"zero1\", \"fp8\": {\"recipe\": \"current\", \"gather\": true}", &all_held);
    CHECK(copies - all_held == 2.0 * BLOCKS, "parameters in FP8 alone: %g bytes less", copies - all_held);
    double gathered = zero.all_gather_bytes - kept.all_gather_bytes;
    CHECK(fabs(gathered / (1.0 * BLOCKS) - 1) < 0.01 && kept.all_reduce_bytes > zero.all_reduce_bytes, "%g bytes less, %g of amaxes",
          gathered, kept.all_reduce_bytes - zero.all_reduce_bytes);
    struct dt_step_metrics blocks = in_fp8("\"paradigm\": \"ddp\", \"fp8\": {\"recipe\": \"blockwise\"}", &copies);
    CHECK(copies - held == 2.0 * BLOCKS && blocks.all_reduce_bytes == ddp.all_reduce_bytes, "no amaxes: %g bytes", blocks.all_reduce_bytes);
}

static double held_gradients(const char *keys, double update_bytes, int keeps)
{
    char text[512];
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = NULL;
    int count;
    snprintf(text, sizeof text, "{\"device\": \"sim\", \"optimizer\": {\"name\": \"adam\"}, %s, " FP8 FP8_MODEL "}", keys);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_system_create(e, &system));
    system->costs.profile.memory.update_bytes = update_bytes;
    system->costs.profile.memory.keeps_narrow_gradients = keeps;
    run(e, system, &result);
    double bytes = (double)result.ranks[0].memory.device.peak_bytes[DT_GRADIENTS];
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
    return bytes;
}

/* An optimizer that copies gradients to fp32 holds them of what a rank updates: with ZeRO half of
 * the parameters of two ranks. fp32 gradients, and fsdp's, are not copied. */
static void updates_copy_gradients(void)
{
    double params = held_gradients("\"paradigm\": \"ddp\"", 0, 0) / 2;
    double copied = held_gradients("\"paradigm\": \"ddp\"", 6, 0);
    CHECK(fabs(copied / (8 * params) - 1) < 0.01, "%g bytes for %g parameters", copied, params);
    double shared = held_gradients("\"paradigm\": \"zero1\"", 6, 0) - held_gradients("\"paradigm\": \"zero1\"", 0, 0);
    CHECK(fabs(shared / (3 * params) - 1) < 0.01, "%g bytes for %g parameters", shared, params / 2);
    const char *const without[] = {"\"paradigm\": \"ddp\", \"gradient_dtype\": \"fp32\"", "\"paradigm\": \"fsdp\""};
    for (int i = 0; i < 2; i++)
        CHECK(held_gradients(without[i], 6, 0) == held_gradients(without[i], 0, 0), "%s", without[i]);
}

/* 16-bit gradients that are kept after they were added to their fp32 sums take 2 bytes more of each
 * parameter, unless ranks divide the gradients, or there are no wider sums. */
static void narrow_gradients_stay(void)
{
    double params = held_gradients("\"paradigm\": \"ddp\"", 0, 0) / 2;
    static const struct {
        const char *keys;
        double bytes; /* more, of each parameter */
    } cases[] = {
        {"\"paradigm\": \"ddp\", \"gradient_dtype\": \"fp32\"", 2},
        {"\"paradigm\": \"zero1\", \"gradient_dtype\": \"fp32\"", 2},
        {"\"paradigm\": \"zero2\", \"gradient_dtype\": \"fp32\"", 0},
        {"\"paradigm\": \"fsdp\", \"gradient_dtype\": \"fp32\"", 0},
        {"\"paradigm\": \"ddp\"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double more = held_gradients(cases[i].keys, 0, 1) - held_gradients(cases[i].keys, 0, 0);
        CHECK(fabs(more / params - cases[i].bytes) < 0.01, "%s: %g bytes more for %g parameters", cases[i].keys, more, params);
    }
}

/* Tensor parallelism: with delayed scaling, all ranks' amaxes are reduced after each forward and
 * each backward; with tensorwise scaling, one number before each gather of rows, four in a
 * block. */
static void amaxes_of_parts(void)
{
    enum { BLOCKS = 4, MICRO_BATCHES = 2, GATHERS = 4 };
    double held;
    struct dt_step_metrics wide = in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}", &held);
    struct dt_step_metrics delayed = in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}, \"fp8\": {\"recipe\": \"delayed\"}", &held);
    struct dt_step_metrics parts =
        in_fp8("\"paradigm\": \"none\", \"tensor\": {\"size\": 2}, \"fp8\": {\"recipe\": \"tensorwise\"}", &held);
    CHECK(delayed.all_reduce_bytes > wide.all_reduce_bytes, "%g and %g bytes", delayed.all_reduce_bytes, wide.all_reduce_bytes);
    CHECK(parts.all_reduce_bytes - wide.all_reduce_bytes >= 4.0 * BLOCKS * MICRO_BATCHES * GATHERS, "%g bytes",
          parts.all_reduce_bytes - wide.all_reduce_bytes);
}

/* GPUs before Blackwell have no products with a scale for 32 numbers. */
static void mxfp8_needs_its_rate(void)
{
    for (int blackwell = 0; blackwell < 2; blackwell++) {
        char text[512];
        struct simulated_system *system = NULL;
        struct experiment *e = NULL;
        int count;
        snprintf(text, sizeof text,
                 "{\"device\": \"sim\", \"cluster\": \"clusters/%s.json\", \"fp8\": {\"recipe\": \"mxfp8\"}, " FP8_MODEL "}",
                 blackwell ? "dgx_b200" : "dgx_h100_1");
        CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
        dt_status status = simulated_system_create(e, &system);
        CHECK(blackwell ? status == DT_OK : status == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "gpu.peak_tflops.mxfp8"), "%s",
              dt_error_message());
        simulated_system_destroy(system);
        free(e);
    }
}

static void copies_take_ten_seconds(struct simulated_system *s)
{
    s->device.copy_host_s = 10;
}

static void copies_of_shares_take_ten_seconds(struct simulated_system *s)
{
    copies_take_ten_seconds(s);
    s->costs.profile.schedule.copies_shares = 1;
}

/* For each rank there are two copies of a bucket's gradients, one of the gathered parameters, and
 * one of each layer's parameters: the embedding, three layers of each block, the head. */
static void shares_are_copied(void)
{
    enum { BLOCKS = 4, OF_BLOCK = 3, OTHERS = 2 };
    for (int ranks = 8; ranks <= 16; ranks *= 2) {
        char keys[512];
        snprintf(keys, sizeof keys, "\"world_size\": %d, \"paradigm\": \"zero1\", \"batch_size\": 4, " TINY, ranks);
        double copies = (run_keys(keys, copies_of_shares_take_ten_seconds) - run_keys(keys, copies_take_ten_seconds)) / 10;
        CHECK(fabs(copies / ranks - (2 + 1 + BLOCKS * OF_BLOCK + OTHERS)) < 0.01, "%g copies for each of %d ranks", copies / ranks, ranks);
    }
}

static void slow_network(struct simulated_system *s)
{
    s->cluster.nvlink.gb_per_s = 5;
    s->device.copy_host_s = s->device.kernel_s = s->device.memory_bytes_per_s = 0;
}

static void slow_network_of_shares(struct simulated_system *s)
{
    slow_network(s);
    s->costs.profile.schedule.copies_shares = 1;
}

/* Kernels wait for the reduction only where ranks share layers, because streams then share one
 * queue. */
static void one_queue_waits_for_reductions(void)
{
    static const char *const keys[] = {"\"world_size\": 8, \"paradigm\": \"zero1\", \"batch_size\": 32, " SMALL,
                                       "\"world_size\": 8, \"paradigm\": \"zero1\", \"batch_size\": 32, \"tensor\": {\"size\": 2}, " SMALL};
    double more[2];
    for (int i = 0; i < 2; i++)
        more[i] = run_keys(keys[i], slow_network_of_shares) / run_keys(keys[i], slow_network) - 1;
    CHECK(fabs(more[0]) < 1e-3 && more[1] > 5e-3, "%g, and %g where ranks share layers", more[0], more[1]);
}

static void sums_wait(struct simulated_system *s)
{
    s->costs.profile.schedule.sums_in_turn = 1;
}

static void each_product_has_a_sum(struct simulated_system *s)
{
    s->costs.profile.schedule.sums_in_turn = 2;
}

/* Weight gradients hide the sums of inputs' gradients, unless a framework waits for them. */
static void sums_in_turn(void)
{
    static const char *const rows[] = {"false", "true"};
    static const char *const model =
        "\"model\": {\"layers\": 2, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 512, \"block_size\": 1024, "
        "\"mlp\": \"swiglu\", \"norm\": \"rms\"}";
    for (int sliced = 0; sliced < 2; sliced++) {
        char keys[512];
        snprintf(keys, sizeof keys,
                 "\"world_size\": 4, \"paradigm\": \"none\", \"batch_size\": 4, \"tensor\": {\"size\": 4, \"sequence_parallel\": %s}, %s",
                 rows[sliced], model);
        double beside = run_keys(keys, NULL), waiting = run_keys(keys, sums_wait), each = run_keys(keys, each_product_has_a_sum);
        CHECK(waiting > beside && (sliced ? each == waiting : each > waiting), "%g, %g, %g s", beside, waiting, each);
    }
}

/* Ranks that share layers send a part of each message to the next stage, and gather the others, which
 * takes less time where the next stage is on another node. With sequence parallelism they have no
 * more than a part. */
static void messages_are_divided(void)
{
    static const char *const rows[] = {"false", "true"};
    for (int sliced = 0; sliced < 2; sliced++) {
        char keys[512];
        double step_s[2], sent[2], gathered[2];
        snprintf(keys, sizeof keys,
                 "\"world_size\": 16, \"paradigm\": \"pdp\", \"batch_size\": 16, \"straddle_nodes\": true, \"pipeline\": {\"stages\": 2, "
                 "\"chunks\": 4}, "
                 "\"tensor\": {\"size\": 8, \"sequence_parallel\": %s}, "
                 "\"model\": {\"layers\": 4, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 512, \"block_size\": 1024}",
                 rows[sliced]);
        for (int divided = 0; divided < 2; divided++) {
            struct simulated_system *system;
            struct measure_result result;
            struct experiment *e = experiment_of(keys);
            CHECK_OK(simulated_system_create(e, &system));
            system->costs.profile.schedule.divides_messages = divided;
            step_s[divided] = run(e, system, &result);
            sent[divided] = result.metrics.step.send_bytes;
            gathered[divided] = result.metrics.step.all_gather_bytes;
            measure_result_finish(&result);
            simulated_system_destroy(system);
            free(e);
        }
        CHECK(sliced ? sent[1] == sent[0] && step_s[1] == step_s[0] : sent[1] * 8 == sent[0] && step_s[1] < step_s[0],
              "%g and %g bytes, %g and %g s", sent[0], sent[1], step_s[0], step_s[1]);
        CHECK(sliced || gathered[1] > gathered[0], "%g and %g bytes are gathered", gathered[0], gathered[1]);
    }
}

static void without_messages(struct simulated_system *s)
{
    s->cluster.nvlink.gb_per_s *= 1e6;
}

/* With tensor.overlap a product and its exchange take as long as the longer one: not less than the
 * products alone, and less than both in turn. */
static void products_overlap(void)
{
    static const char *const overlaps[] = {"false", "true"};
    double step_s[2];
    char keys[512];
    for (int on = 0; on < 2; on++) {
        snprintf(keys, sizeof keys,
                 "\"world_size\": 4, \"paradigm\": \"none\", \"batch_size\": 4, \"tensor\": {\"size\": 4, \"overlap\": %s}, "
                 "\"model\": {\"layers\": 4, \"heads\": 32, \"hidden\": 4096, \"vocab_size\": 512, \"block_size\": 2048}",
                 overlaps[on]);
        step_s[on] = run_keys(keys, NULL);
    }
    double alone_s = run_keys(keys, without_messages);
    CHECK(step_s[1] < 0.97 * step_s[0] && step_s[1] >= alone_s, "%g s in turn, %g s with overlap, %g s without messages", step_s[0],
          step_s[1], alone_s);
}

enum { GATHERS_GB_PER_S = 50 };

static void slower_links(struct simulated_system *s)
{
    s->cluster.nvlink.gb_per_s = GATHERS_GB_PER_S;
}

/* With ddp.overlap_param_gather the gathers of updated parameters, which take at least the bytes of
 * the other ranks over the links, are hidden by forward. What no pass hides is the first bucket's.
 * A framework that copies shares gathers them at the end of the step in any case. */
static void gathers_are_hidden(void)
{
    static const char *const paradigms[] = {"zero1", "zero2"}, *const switches[] = {"false", "true"};
    for (int p = 0; p < 2; p++) {
        double step_s[2], copied_s[2], gather_s = 8 * 12 * 1024.0 * 1024 * 2 * 7 / 8 / (GATHERS_GB_PER_S * 1e9); /* of the blocks */
        char keys[512];
        for (int on = 0; on < 2; on++) {
            snprintf(keys, sizeof keys,
                     "\"profile\": \"profiles/general_a100.json\", \"world_size\": 8, \"batch_size\": 8, \"paradigm\": \"%s\", "
                     "\"optimizer\": {\"clip_norm\": 1}, \"ddp\": {\"bucket_mib\": 4, \"overlap_param_gather\": %s}, "
                     "\"model\": {\"layers\": 8, \"heads\": 16, \"hidden\": 1024, \"vocab_size\": 512, \"block_size\": 1024}",
                     paradigms[p], switches[on]);
            step_s[on] = run_keys(keys, slower_links);
            copied_s[on] = run_keys(keys, slow_network_of_shares);
        }
        CHECK(step_s[0] - step_s[1] > 0.8 * gather_s, "%s: %g s, %g s with gathers in forward, gathers take %g s", paradigms[p], step_s[0],
              step_s[1], gather_s);
        CHECK(copied_s[0] == copied_s[1], "%s: %g s, %g s with copied shares", paradigms[p], copied_s[0], copied_s[1]);
    }
}

/* A step of a pipeline between nodes, whose replicas reduce gradients over slow cards. */
static double pipeline_in_fp8(const char *recipe)
{
    char text[1024];
    struct simulated_system *system;
    struct experiment *e = NULL;
    int count;
    snprintf(
        text, sizeof text,
        "{\"device\": \"sim\", \"cluster\": \"clusters/dgx_h100.json\", \"world_size\": 32, \"paradigm\": \"zero1\", \"batch_size\": 8, "
        "\"mesh\": {\"order\": \"tensor-data-pipeline\"}, \"pipeline\": {\"stages\": 4, \"chunks\": 8, \"order\": \"1f1b\"}, "
        "\"straddle_nodes\": true, \"fp8\": {\"recipe\": \"%s\"}, \"model\": {\"layers\": 16, \"heads\": 32, \"hidden\": 4096, "
        "\"vocab_size\": 512, \"block_size\": 2048, \"dtype\": \"bf16\"}}",
        recipe);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_system_create(e, &system));
    system->cluster.nvlink.gb_per_s = 20;
    double seconds = run(e, system, NULL);
    simulated_system_destroy(system);
    free(e);
    return seconds;
}

/* Amaxes have groups of their own: they do not wait for the gradients that are reduced while the
 * pipeline empties, or each stage would wait for the gradients of all that come after it. */
static void amaxes_pass_gradients(void)
{
    double own_s = pipeline_in_fp8("tensorwise"), shared_s = pipeline_in_fp8("delayed");
    CHECK(shared_s < 1.1 * own_s, "%g s, and %g s with amaxes of all ranks", own_s, shared_s);
}

static void again_to_the_end(struct simulated_system *s)
{
    s->costs.profile.schedule.recomputes_outputs = 1;
}

/* Recomputation leaves out a block's last product, unless the framework runs its whole forward
 * again: with two blocks that adds two products and two sums. */
static void outputs_computed_again(void)
{
    static const char *const activations[] = {"keep", "checkpoint"};
    double more[2][2];
    for (int tensor = 1; tensor <= 4; tensor += 3)
        for (int i = 0; i < 2; i++) {
            char keys[512];
            snprintf(keys, sizeof keys,
                     "\"world_size\": %d, \"paradigm\": \"none\", \"batch_size\": 4, \"activation\": \"%s\", \"tensor\": {\"size\": %d}, "
                     "\"model\": {\"layers\": 2, \"heads\": 16, \"hidden\": 2048, \"vocab_size\": 512, \"block_size\": 1024}",
                     tensor, activations[i], tensor);
            more[tensor > 1][i] = run_keys(keys, again_to_the_end) - run_keys(keys, NULL);
        }
    CHECK(more[0][0] == 0 && more[1][0] == 0, "kept: %g, %g s", more[0][0], more[1][0]);
    CHECK(more[0][1] > 0 && more[1][1] > more[0][1] / 4, "one rank %g s, four %g", more[0][1], more[1][1]);
}

static void keys_kept(struct simulated_system *s)
{
    s->costs.keys_again = false;
}

/* With selective_op torchtitan computes k's product and rope again. With an eighth of the heads
 * that is less. The profile says so of no other activation. */
static void keys_computed_again(void)
{
    static const char *const activations[] = {"keep", "checkpoint", "selective_op", "selective_op"};
    double more[4];
    for (int i = 0; i < 4; i++) {
        char keys[512];
        snprintf(
            keys, sizeof keys,
            "\"world_size\": 1, \"paradigm\": \"none\", \"batch_size\": 4, \"activation\": \"%s\", "
            "\"profile\": \"profiles/general_a100.json\", \"model\": {\"layers\": 2, \"heads\": 16, \"kv_heads\": %d, \"hidden\": 2048, "
            "\"vocab_size\": 512, \"block_size\": 1024, \"position\": \"rope\"}",
            activations[i], i < 3 ? 16 : 2);
        more[i] = run_keys(keys, NULL) - run_keys(keys, keys_kept);
    }
    CHECK(more[0] == 0 && more[1] == 0, "kept: %g, recomputed: %g s", more[0], more[1]);
    CHECK(more[3] > 0 && more[2] > 1.5 * more[3], "16 heads of k: %g s more, 2: %g", more[2], more[3]);
}

/* Four micro-batches of 2 samples of 128 tokens through two stages in turn, which hold 2 and 1 of
 * them: the first has the outputs and gradients of three more, 512 numbers wide, the second three
 * inputs more and the logits of three, of a vocabulary of 1,024; in 2 bytes each. */
static void buffers_of_a_stage(void)
{
    enum { TOKENS = 2 * 128, HIDDEN = 512, VOCABULARY = 1024, OTHERS = 3 };
    static const uint64_t more[] = {2 * (2 * OTHERS * TOKENS * HIDDEN), 2 * (OTHERS * TOKENS * HIDDEN + OTHERS * TOKENS * VOCABULARY)};
    uint64_t bytes[2][2];
    for (int held = 0; held < 2; held++) {
        struct simulated_system *system;
        struct measure_result result;
        struct experiment *e = experiment_of(
            "\"world_size\": 2, \"paradigm\": \"pdp\", \"batch_size\": 4, \"pipeline\": {\"stages\": 2, \"chunks\": 4, \"order\": "
            "\"1f1b\"}, \"model\": {\"layers\": 4, \"heads\": 8, \"hidden\": 512, \"vocab_size\": 1024, \"block_size\": 128, "
            "\"dtype\": \"bf16\"}");
        CHECK_OK(simulated_system_create(e, &system));
        system->costs.profile.schedule.stage_buffers = held;
        run(e, system, &result);
        for (int rank = 0; rank < 2; rank++)
            bytes[held][rank] = result.ranks[rank].memory.device.peak_total_bytes;
        measure_result_finish(&result);
        simulated_system_destroy(system);
        free(e);
    }
    for (int rank = 0; rank < 2; rank++)
        CHECK(bytes[1][rank] - bytes[0][rank] == more[rank], "stage %d: %llu bytes more instead of %llu", rank,
              (unsigned long long)(bytes[1][rank] - bytes[0][rank]), (unsigned long long)more[rank]);
}

/* Reallocating a gigabyte takes 1000 s for one rank on one node; a third of another node's time
 * does not overlap. */
static void a_full_device(struct simulated_system *s)
{
    s->costs.profile.memory.full_at = 1e-9;
    s->costs.profile.memory.reallocation_s_per_gb = 1000;
    s->costs.profile.memory.reallocation_spread = 1 / 3.0;
}

/* Ranks of a node reallocate one after another, and a collective waits for all nodes: 2, 4 and 2 x
 * (1 + 1/3) times one rank's time, and 2 x (1 + 3/3) on four nodes. */
static void ranks_of_a_node_reallocate_in_turn(void)
{
    static const char *const placed[] = {"\"world_size\": 2", "\"world_size\": 4", "\"world_size\": 4, \"gpus_per_node\": 2",
                                         "\"world_size\": 8, \"gpus_per_node\": 2"};
    static const double expected[] = {1, 2, 4 / 3.0, 2};
    char keys[512];
    double seconds[4];
    for (int i = 0; i < 4; i++) {
        snprintf(keys, sizeof keys, "%s, \"paradigm\": \"fsdp\", \"batch_size\": 4, " SMALL, placed[i]);
        seconds[i] = run_keys(keys, a_full_device);
        CHECK(fabs(seconds[i] / seconds[0] - expected[i]) < 0.01, "%s: %g s, and %g s with two ranks", placed[i], seconds[i], seconds[0]);
    }
}

/* PyTorch's DataParallel: the root has the outputs of all other ranks, and each of them its own. */
static void outputs_go_to_the_root(void)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of("\"world_size\": 4, \"paradigm\": \"data_parallel\", \"batch_size\": 4, " SMALL);
    struct measure_result result;
    uint64_t bytes[4];
    CHECK_OK(simulated_system_create(e, &system));
    run(e, system, &result);
    for (int r = 0; r < 4; r++)
        bytes[r] = result.ranks[r].memory.device.peak_bytes[DT_COMMUNICATION];
    CHECK(bytes[1] == 4u * 256 * 50000 * 2 && bytes[2] == bytes[1] && bytes[3] == bytes[1], "%.0f bytes", (double)bytes[1]);
    CHECK(bytes[0] == 3 * bytes[1], "the root has %.0f bytes", (double)bytes[0]);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    free(e);
}

static void which_peaks_are_reported(void)
{
    struct simulated_system *system;
    struct experiment *e = experiment_of(divisions[0]);
    struct dt_rank_memory ranks[] = {{.memory.device.peak_total_bytes = 1000}, {.memory.device.peak_total_bytes = 3000}};
    const struct measure_result result = {.ranks = ranks, .rank_count = 2};
    CHECK_OK(simulated_system_create(e, &system));
    CHECK(simulated_system_reported_bytes(system, &result) == 3000, "the most of all ranks");
    system->costs.profile.memory.peaks_of_first_rank = 1;
    CHECK(simulated_system_reported_bytes(system, &result) == 1000, "the first one's");
    system->costs.profile.memory.peaks_reserved = 1;
    system->costs.profile.memory.fragmentation = 0.25;
    CHECK(simulated_system_reported_bytes(system, &result) == 1250, "with what the allocator cannot use");
    system->reserved_bytes = 500;
    CHECK(simulated_system_used_bytes(system, &result) == 3000 * 1.25 + 500, "the highest, with what is beside the allocator");
    ranks[0].memory.device.peak_bytes[DT_ACTIVATIONS] = 2500;
    ranks[0].memory.device.peak_bytes[DT_GRADIENTS] = 1500;
    CHECK(simulated_system_used_bytes(system, &result) == (2500 + 1500) * 1.25 + 500, "each category's own peak, whenever it was");
    simulated_system_destroy(system);
    free(e);
}

/* NCCL's buffers: once for each axis along which ranks communicate. */
static void communicators_take_memory(void)
{
    static const char *const meshes[] = {
        "\"world_size\": 1, \"paradigm\": \"none\", \"profile\": \"general_a100\", " SMALL,
        "\"world_size\": 8, \"paradigm\": \"ddp\", \"batch_size\": 8, \"profile\": \"general_a100\", " SMALL,
        "\"world_size\": 8, \"paradigm\": \"pdp\", \"batch_size\": 8, \"profile\": \"general_a100\", \"pipeline\": {\"stages\": 2}, "
        "\"tensor\": {\"size\": 2}, " SMALL,
    };
    static const int axes[] = {0, 1, 3};
    double alone = 0;
    for (int i = 0; i < 3; i++) {
        struct simulated_system *system;
        struct experiment *e = experiment_of(meshes[i]);
        CHECK_OK(simulated_system_create(e, &system));
        double each = system->costs.profile.memory.communicator_bytes;
        alone = i == 0 ? (double)system->memory_bytes : alone;
        CHECK(each > 0 && fabs(alone - (double)system->memory_bytes - axes[i] * each) < 2, "%d: %g of %g", i,
              alone - (double)system->memory_bytes, each);
        simulated_system_destroy(system);
        free(e);
    }
}

#define HEAVY_HEAD                                                                                                                         \
    "\"hidden\": 2048, \"heads\": 32, \"vocab_size\": 131072, \"mlp\": \"swiglu\", \"norm\": \"rms\", \"position\": \"rope\"}"

/* Blocks of each stage, by nanotron's rule, of a model whose head counts for 3.2 blocks. */
static void stages_that_take_their_share(void)
{
    static const int blocks[][8] = {{10, 6}, {5, 5, 5, 1}, {3, 2, 3, 2, 3, 1, 1, 1}}; /* of 8 stages, one would only cast the logits */
    struct experiment *e = experiment_of("\"model\": {\"layers\": 16, \"ffn\": 8192, \"block_size\": 4096, " HEAVY_HEAD);
    const struct dt_model_family *family = e->model.family;
    int first[17];
    for (int i = 0; i < 3; i++) {
        int stages = 2 << i;
        CHECK_OK(framework_fill_stages(e, stages, first));
        CHECK(first[0] == 0 && first[stages] == dt_block_layer(family, gpt_of(&e->model)->layers) + 2);
        for (int s = 0; s < stages; s++) {
            int own = 0;
            for (int block = 0; block < gpt_of(&e->model)->layers; block++)
                own += dt_block_layer(family, block) >= first[s] && dt_block_layer(family, block) < first[s + 1];
            CHECK(own == blocks[i][s], "stage %d of %d has %d blocks, not %d", s, stages, own, blocks[i][s]);
        }
        CHECK(first[stages - 1] < dt_block_layer(family, gpt_of(&e->model)->layers), "norm and head stay after the last block");
    }
    CHECK(framework_fill_stages(e, 16, first) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "2 of 16 stages empty"));
    free(e);

    /* A head heavier than all before it: its stage is the first one, and there is none before it to
     * be divided. */
    e = experiment_of("\"model\": {\"layers\": 2, \"ffn\": 2048, \"block_size\": 64, " HEAVY_HEAD);
    CHECK(framework_fill_stages(e, 2, first) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "1 of 2 stages empty"));
    free(e);
}

static const struct test_case cases[] = {
    {"stages that take their share", stages_that_take_their_share},
    {"updates are launched once", updates_are_launched_once},
    {"ranks that share layers update a part of each tensor", shared_tensors_are_updated_by_all},
    {"sequence parallelism gathers as a collective", only_shards_cost_gathers},
    {"products in FP8", products_in_fp8},
    {"an update copies gradients", updates_copy_gradients},
    {"narrow gradients stay beside wider sums", narrow_gradients_stay},
    {"amaxes of parts of tensors", amaxes_of_parts},
    {"MXFP8 needs a rate of its own", mxfp8_needs_its_rate},
    {"shares are copied", shares_are_copied},
    {"one queue waits for reductions", one_queue_waits_for_reductions},
    {"sums in turn", sums_in_turn},
    {"messages are divided", messages_are_divided},
    {"products overlap with exchanges", products_overlap},
    {"gathers of updated parameters are hidden", gathers_are_hidden},
    {"amaxes do not wait for gradients", amaxes_pass_gradients},
    {"outputs computed again", outputs_computed_again},
    {"keys computed again", keys_computed_again},
    {"buffers of a stage", buffers_of_a_stage},
    {"ranks of a node reallocate in turn", ranks_of_a_node_reallocate_in_turn},
    {"outputs go to the root", outputs_go_to_the_root},
    {"which peaks are reported", which_peaks_are_reported},
    {"communicators take memory", communicators_take_memory},
};
TEST_MAIN(cases)
