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
        CHECK(fabs((double)usage.device.peak_bytes[DT_PARAMETERS] - 2 * share) <= slack, "%zu", (size_t)usage.device.peak_bytes[DT_PARAMETERS]);
        CHECK(fabs((double)usage.device.peak_bytes[DT_GRADIENTS] - 2 * share) <= slack);
        CHECK(fabs((double)usage.device.peak_bytes[DT_OPTIMIZER] - 12 * share) <= 3 * slack);
        /* at the most two gathered groups and a group's gradients: head and embedding are the largest, with 38.6M parameters each */
        CHECK(usage.device.peak_bytes[DT_COMMUNICATION] <= 3 * 2 * 38600000ull && usage.device.peak_bytes[DT_COMMUNICATION] > 2 * 38400000ull, "%zu",
              (size_t)usage.device.peak_bytes[DT_COMMUNICATION]);
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

/* Per block and sample and position: x, q k v, the heads' outputs, x after attention, 4d before GELU: 10 d values; two norms' statistics
 * and the attention's fp32 log-sum. Logits once. What is left is the residual stream on its way. */
static void activation_bytes(void)
{
    char text[512];
    struct experiment e;
    struct dt_memory_usage usage;
    snprintf(text, sizeof text, small, "none", 1, "sgd");
    if (!parse(text, &e))
        return;
    e.batch_size = 8;
    CHECK_OK(trainer_predict_memory(&e, 0, &usage));
    double rows = 8 * 256, d = 768;
    double kept = 12 * rows * (10 * d * 2 + 4 * 4 + 12 * 4) + rows * 50000 * 2;
    double seen = (double)usage.device.peak_bytes[DT_ACTIVATIONS];
    CHECK(seen >= kept && seen <= kept + 6 * rows * d * 2, "%.0f, kept %.0f", seen, kept);
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

static const struct test_case cases[] = {
    {"GPipe: all forwards, then all backwards", gpipe_order},
    {"replicas: bytes of parameters, gradients, optimizer", replica_bytes},
    {"FSDP: an even share of all three", shard_bytes},
    {"PDP: stages share the parameters", pipeline_bytes},
    {"activations: 10 d values a block and position", activation_bytes},
    {"GPT1T on 512 ranks", huge},
};
TEST_MAIN(cases)
