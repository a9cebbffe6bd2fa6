/* Orders, places, and the bytes of every paradigm against closed forms; all on the sim device. */
#include "schedules/experiment_parse.h"
#include "schedules/trainer.h"
#include "schedules/training.h"
#include "test/check.h"

#include <stdlib.h>

static bool parse(const char *text, struct experiment *out)
{
    struct experiment *all = NULL;
    int count = 0;
    dt_status status = experiments_parse(text, strlen(text), "test", NULL, 0, &all, &count);
    CHECK(status == DT_OK && count == 1, "%s", dt_error_message());
    if (status == DT_OK)
        *out = all[0];
    free(all);
    return status == DT_OK;
}

/* Every micro-batch goes forward once and backward once later; GPipe has all forwards first. */
static void gpipe_order(void)
{
    for (int n = 1; n <= 9; n++) {
        struct pipeline_order order;
        CHECK_OK(pipeline_order_init("gpipe", 0, 4, n, &order));
        CHECK(order.count == 2 * n);
        for (int i = 0; i < n; i++) {
            CHECK(order.actions[i].kind == PIPELINE_FORWARD && order.actions[i].micro_batch == i);
            CHECK(order.actions[n + i].kind == PIPELINE_BACKWARD && order.actions[n + i].micro_batch == n - 1 - i);
        }
        pipeline_order_finish(&order);
    }
    struct pipeline_order none;
    CHECK(pipeline_order_init("1f1b?", 0, 4, 2, &none) == DT_ERR_INVALID);
}

static uint64_t rounded(uint64_t bytes)
{
    return dt_ledger_rounded(bytes);
}

/* GPTSmall in fp16, with Adam: 2 bytes a parameter, 2 a gradient, 12 of optimizer. */
static const char *const small = "{\"device\": \"cpu\", \"paradigm\": \"%s\", \"world_size\": %d, \"batch_size\": 2, \"model\": "
                                 "{\"preset\": \"GPTSmall\", \"dtype\": \"fp16\"}, \"optimizer\": {\"name\": \"%s\"}}";

static void replica_bytes(void)
{
    static const char *const modes[] = {"none", "ddp"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        struct experiment e;
        struct dt_memory_usage usage;
        snprintf(text, sizeof text, small, modes[i], i == 0 ? 1 : 8, "adam");
        if (!parse(text, &e))
            return;
        CHECK_OK(trainer_predict_memory(&e, i == 0 ? 0 : 5, &usage));
        uint64_t params = gpt_parameter_count(&e.model);
        CHECK(usage.device.peak_bytes[DT_PARAMETERS] == rounded(2 * params), "%zu", (size_t)usage.device.peak_bytes[DT_PARAMETERS]);
        /* one device updates a group as soon as its gradients are complete: only the largest group's, the embedding's, are held */
        uint64_t held = i == 0 ? (50000 + 256) * 768 : params;
        CHECK(usage.device.peak_bytes[DT_GRADIENTS] == rounded(2 * held), "%zu", (size_t)usage.device.peak_bytes[DT_GRADIENTS]);
        CHECK(usage.device.peak_bytes[DT_OPTIMIZER] == 3 * rounded(4 * params));
        CHECK(usage.device.peak_bytes[DT_COMMUNICATION] == 0, "gradients are viewed in the buckets");
    }
}

/* ZeRO-3: all three over the ranks, to within padding and the allocator's rounding. */
static void shard_bytes(void)
{
    for (int ranks = 2; ranks <= 512; ranks *= 4) {
        char text[512];
        struct experiment e;
        struct dt_memory_usage usage;
        snprintf(text, sizeof text, small, "fsdp", ranks, "adam");
        if (!parse(text, &e))
            return;
        CHECK_OK(trainer_predict_memory(&e, ranks - 1, &usage));
        double share = (double)gpt_parameter_count(&e.model) / ranks, slack = 14 * (256.0 + 12);
        CHECK(fabs((double)usage.device.peak_bytes[DT_PARAMETERS] - 2 * share) <= slack, "%zu",
              (size_t)usage.device.peak_bytes[DT_PARAMETERS]);
        CHECK(fabs((double)usage.device.peak_bytes[DT_GRADIENTS] - 2 * share) <= slack);
        CHECK(fabs((double)usage.device.peak_bytes[DT_OPTIMIZER] - 12 * share) <= 3 * slack);
        /* at the most two gathered groups and a group's gradients: head and embedding are the largest, with 38.6M parameters each */
        CHECK(usage.device.peak_bytes[DT_COMMUNICATION] <= 3 * 2 * 38600000ull &&
                  usage.device.peak_bytes[DT_COMMUNICATION] > 2 * 38400000ull,
              "%zu", (size_t)usage.device.peak_bytes[DT_COMMUNICATION]);
    }
}

/* The stages of a pipeline share the parameters among them, and each holds what its neighbours send. */
static void pipeline_bytes(void)
{
    char text[512];
    struct experiment e;
    uint64_t parameters = 0;
    snprintf(text, sizeof text, small, "pdp", 8, "sgd");
    if (!parse(text, &e))
        return;
    e.pipeline.stages = 4;
    for (int rank = 4; rank < 8; rank++) {
        struct dt_memory_usage usage;
        CHECK_OK(trainer_predict_memory(&e, rank, &usage));
        parameters += usage.device.peak_bytes[DT_PARAMETERS];
        CHECK(usage.device.peak_bytes[DT_OPTIMIZER] == 0);
    }
    CHECK(parameters >= 2 * gpt_parameter_count(&e.model) && parameters <= 2 * gpt_parameter_count(&e.model) + 4 * 256, "%zu",
          (size_t)parameters);
}

/* Nothing about GPT1T on 512 GPUs is slow to describe. */
static void huge(void)
{
    struct experiment e;
    struct dt_memory_usage usage;
    if (!parse("{\"device\": \"cpu\", \"paradigm\": \"fsdp\", \"world_size\": 512, \"batch_size\": 1, \"model\": {\"preset\": \"GPT1T\"}}",
               &e))
        return;
    CHECK(e.fsdp.unit == GPT_UNIT_LINEAR, "finer units from 81B on");
    CHECK_OK(trainer_predict_memory(&e, 511, &usage));
    CHECK(usage.device.peak_bytes[DT_PARAMETERS] > 2 * 1000000000000ull / 512);
}

/* GPTSmall, 8 samples, fp16: what each activation policy leaves on the device, in columns of M rows and d elements. A block keeps ten: two
 * inputs, q, k, v, the heads' outputs, and the MLP's four. Backward of a block needs the nine behind its input, and the gradient of the
 * residual stream. */
static const struct {
    const char *activation;
    int blocks;
    uint64_t columns, norms, attentions; /* at the peak */
    bool whole_logits;
    uint64_t host_columns;
} activation_rows[] = {
    /* all blocks, and the inputs of the final norm and of the head, whose gradient is just made from logits */
    {"keep", 1, 12 * 10 + 3, 25, 12, true, 0},
    /* 12 inputs, one block and the gradient */
    {"checkpoint", 1, 12 + 9 + 1, 2, 1, false, 0},
    {"checkpoint", 3, 4 + 29 + 1, 6, 3, false, 0},
    /* two inputs, one block and the gradient; of the 13 inputs, the head's among them, all but two are on the host */
    {"offload", 1, 2 + 9 + 1, 2, 1, false, 11},
    {"offload", 3, 2 + 29 + 1, 6, 3, false, 3},
};

static void activation_bytes(void)
{
    const uint64_t M = 8 * 256, d = 768, heads = 12, T = 256, V = 50000;
    for (int unfused = 0; unfused < 2; unfused++) {
        uint64_t kept = 0;
        for (size_t i = 0; i < sizeof activation_rows / sizeof *activation_rows; i++) {
            char text[512];
            struct experiment e;
            struct dt_memory_usage usage;
            snprintf(text, sizeof text,
                     "{\"model\": {\"preset\": \"GPTSmall\", \"attention\": \"%s\"}, \"activation\": \"%s\", \"activation_blocks\": %d}",
                     unfused ? "unfused" : "fused", activation_rows[i].activation, activation_rows[i].blocks);
            if (!parse(text, &e))
                return;
            CHECK_OK(trainer_predict_memory(&e, 0, &usage));

            uint64_t attention = unfused ? 8 * heads * T * T * 2 : M * heads * 4; /* weights; log-sum-exp */
            uint64_t bytes = activation_rows[i].columns * M * d * 2 + activation_rows[i].norms * 2 * M * 4 +
                             activation_rows[i].attentions * attention + (activation_rows[i].whole_logits ? M * V * 2 : 0) + 2 * M * 4 +
                             DT_ALLOCATION_BYTES; /* the loss */
            uint64_t seen = usage.device.peak_bytes[DT_ACTIVATIONS];
            CHECK(seen == bytes, "%s, %d blocks, %s: %zu bytes, not %zu", activation_rows[i].activation, activation_rows[i].blocks,
                  unfused ? "unfused" : "fused", (size_t)seen, (size_t)bytes);
            CHECK(usage.host.peak_bytes[DT_ACTIVATIONS] == activation_rows[i].host_columns * M * d * 2, "%s: %zu bytes on the host",
                  activation_rows[i].activation, (size_t)usage.host.peak_bytes[DT_ACTIVATIONS]);
            CHECK(usage.host.peak_total_bytes == usage.host.peak_bytes[DT_ACTIVATIONS]);
            kept = i == 0 ? seen : kept;
            CHECK(activation_rows[i].whole_logits || kept >= 5 * seen, "%zu of %zu bytes", (size_t)seen, (size_t)kept);
        }
    }
}

static const struct test_case cases[] = {
    {"GPipe: all forwards, then all backwards", gpipe_order}, {"replicas: bytes of parameters, gradients, optimizer", replica_bytes},
    {"FSDP: an even share of all three", shard_bytes},        {"PDP: stages share the parameters", pipeline_bytes},
    {"activations of each policy", activation_bytes},         {"GPT1T on 512 ranks", huge},
};
TEST_MAIN(cases)
