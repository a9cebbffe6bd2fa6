/* Parameter offload: where its bytes are, against closed forms on the sim device. Its losses are
 * checked by test_training and test_matrix. */
#include "gpt/layout.h"
#include "schedules/config/parse.h"
#include "schedules/run/memory_fit.h"
#include "test/check.h"

#include <stdlib.h>

static bool parse(struct experiment *out, const char *paradigm, int ranks, const char *more)
{
    struct experiment *all = NULL;
    int count = 0;
    char text[512];
    snprintf(text, sizeof text,
             "{\"device\": \"cpu\", \"paradigm\": \"%s\", \"world_size\": %d, \"batch_size\": 4, \"model\": {\"preset\": \"GPTSmall\", "
             "\"dtype\": "
             "\"bf16\"}, \"optimizer\": {\"name\": \"adam\"}, \"ddp\": {\"bucket_mib\": 1e-6}, \"parameter_offload\": true%s}",
             paradigm, ranks, more);
    dt_status status = experiments_parse(text, strlen(text), "test", NULL, 0, &all, &count);
    CHECK(status == DT_OK && count == 1, "%s", dt_error_message());
    if (status == DT_OK)
        *out = all[0];
    free(all);
    return status == DT_OK;
}

/* The groups' bytes in the model's dtype as allocations, in the order of forward. Returns their
 * number. */
static int group_bytes(const struct dt_model *model, enum dt_unit unit, uint64_t *bytes)
{
    int layers = gpt_layer_count(model), count = 0;
    for (int first = 0, end; first < layers; first = end) {
        end = dt_unit_end(model->family, dt_blocks_of(model), first, unit);
        uint64_t elems = 0;
        for (int l = first; l < end; l++) {
            struct gpt_layer layer;
            gpt_describe_layer(model, (struct gpt_cut){0, 1}, l, &layer);
            elems += layer.param_elems;
        }
        bytes[count++] = dt_ledger_rounded(2 * elems);
    }
    return count;
}

static uint64_t largest(const uint64_t *bytes, int count)
{
    uint64_t most = 0;
    for (int g = 0; g < count; g++)
        most = bytes[g] > most ? bytes[g] : most;
    return most;
}

/* The largest sum of two groups that are used one after the other. */
static uint64_t largest_pair(const uint64_t *bytes, int count)
{
    uint64_t most = 0;
    for (int g = 0; g + 1 < count; g++)
        most = bytes[g] + bytes[g + 1] > most ? bytes[g] + bytes[g + 1] : most;
    return most;
}

static bool near(uint64_t seen, double wanted, double slack)
{
    return (double)seen >= wanted - slack && (double)seen <= wanted + slack;
}

static const char *const micro_batches[] = {"", ", \"micro_batches\": 4, \"gradient_reduction\": \"each\""};

/* A rank with a whole replica holds on the device two groups, the current and the next one, and the
 * gradients of one bucket, here a group; in host memory it holds all parameters, and the gradients
 * and optimizer state that it updates. */
static void replicas(void)
{
    static const struct {
        const char *paradigm;
        int ranks, shares;
        enum dt_unit unit;
        bool reduced_elsewhere; /* its gradients on the device count as communication */
    } modes[] = {
        {"none", 1, 1, DT_UNIT_BLOCK, false},
        {"ddp", 4, 1, DT_UNIT_LINEAR, false},
        {"zero1", 4, 4, DT_UNIT_LINEAR, false},
        {"zero2", 4, 4, DT_UNIT_LINEAR, true},
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        for (int m = 0; m < 2; m++) {
            struct experiment e;
            struct dt_memory_usage usage;
            uint64_t bytes[64];
            if (!parse(&e, modes[i].paradigm, modes[i].ranks, micro_batches[m]))
                return;
            int count = group_bytes(&e.model, modes[i].unit, bytes);
            double all = (double)dt_model_parameter_count(&e.model), own = all / modes[i].shares, slack = count * (256 + 8 * 4);
            CHECK_OK(memory_fit_predict(&e, modes[i].ranks - 1, &usage, NULL));
            const uint64_t *device = usage.device.peak_bytes, *host = usage.host.peak_bytes;
            CHECK(device[DT_PARAMETERS] == largest_pair(bytes, count), "%s: %zu, not %zu", modes[i].paradigm, (size_t)device[DT_PARAMETERS],
                  (size_t)largest_pair(bytes, count));
            uint64_t gradients = modes[i].reduced_elsewhere ? 0 : largest(bytes, count);
            CHECK(device[DT_GRADIENTS] == gradients, "%s: %zu, not %zu", modes[i].paradigm, (size_t)device[DT_GRADIENTS],
                  (size_t)gradients);
            CHECK(device[DT_OPTIMIZER] == 0);
            CHECK(device[DT_COMMUNICATION] <= largest(bytes, count) + 256, "%zu", (size_t)device[DT_COMMUNICATION]);
            /* with several micro-batches arriving gradients need memory in addition to the sum */
            double arriving = m ? (double)largest(bytes, count) / modes[i].shares : 0;
            CHECK(near(host[DT_PARAMETERS], 2 * all, slack), "%s: %zu", modes[i].paradigm, (size_t)host[DT_PARAMETERS]);
            CHECK(near(host[DT_GRADIENTS], 2 * own + arriving, slack), "%s: %zu", modes[i].paradigm, (size_t)host[DT_GRADIENTS]);
            CHECK(near(host[DT_OPTIMIZER], 12 * own, 3 * slack), "%s: %zu", modes[i].paradigm, (size_t)host[DT_OPTIMIZER]);
            CHECK(host[DT_ACTIVATIONS] + host[DT_COMMUNICATION] + host[DT_WORKSPACE] == 0);
        }
    }
}

/* With shards only whole groups are on the device, as without offload. */
static void shards(void)
{
    static const char *const paradigms[] = {"fsdp", "hsdp"};
    for (int i = 0; i < 2; i++) {
        struct experiment e;
        struct dt_memory_usage usage, resident;
        uint64_t bytes[64];
        if (!parse(&e, paradigms[i], 4, i == 0 ? "" : ", \"hsdp\": {\"shard_size\": 2}"))
            return;
        int count = group_bytes(&e.model, DT_UNIT_BLOCK, bytes), size = i == 0 ? 4 : 2;
        double own = (double)dt_model_parameter_count(&e.model) / size, slack = count * (256 + 8 * 4);
        CHECK_OK(memory_fit_predict(&e, 3, &usage, NULL));
        e.parameter_offload = false;
        CHECK_OK(memory_fit_predict(&e, 3, &resident, NULL));
        const uint64_t *device = usage.device.peak_bytes, *host = usage.host.peak_bytes;
        CHECK(device[DT_COMMUNICATION] == resident.device.peak_bytes[DT_COMMUNICATION]);
        CHECK(device[DT_COMMUNICATION] <= largest_pair(bytes, count) + largest(bytes, count) + 4 * 256, "two groups and one's gradients");
        /* the largest group's share is made on the device before the first step */
        CHECK(near(device[DT_PARAMETERS], (double)largest(bytes, count) / size, 256 + 4), "%zu", (size_t)device[DT_PARAMETERS]);
        CHECK(device[DT_GRADIENTS] == 0 && device[DT_OPTIMIZER] == 0);
        CHECK(near(host[DT_PARAMETERS], 2 * own, slack) && near(host[DT_GRADIENTS], 2 * own, slack));
        CHECK(near(host[DT_OPTIMIZER], 12 * own, 3 * slack));
    }
}

/* A pipeline's stage is its rank's replica. Recomputation, several micro-batches: never more than
 * two groups. */
static void stages_and_recomputation(void)
{
    static const char *const more[] = {"", ", \"activation\": \"checkpoint\", \"activation_blocks\": 5",
                                       ", \"activation\": \"offload\", \"micro_batches\": 4"};
    for (int m = 0; m < 3; m++) {
        for (int ranks = 1; ranks <= 4; ranks += 3) {
            for (int rank = 0; rank < ranks; rank++) {
                struct experiment e;
                struct dt_memory_usage usage;
                uint64_t bytes[64], two = 0;
                if (!parse(&e, ranks > 1 ? "pdp" : "none", ranks, more[m]))
                    return;
                int count = group_bytes(&e.model, DT_UNIT_BLOCK, bytes);
                two = largest(bytes, count) + bytes[1]; /* embedding or head, and a block */
                CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
                CHECK(usage.device.peak_bytes[DT_PARAMETERS] <= two && usage.device.peak_bytes[DT_PARAMETERS] > 0, "%zu of %zu",
                      (size_t)usage.device.peak_bytes[DT_PARAMETERS], (size_t)two);
                CHECK(usage.device.peak_bytes[DT_OPTIMIZER] == 0 && usage.host.peak_bytes[DT_OPTIMIZER] > 0);
            }
        }
    }
}

static const struct test_case cases[] = {
    {"whole replicas", replicas},
    {"shards", shards},
    {"stages and recomputation", stages_and_recomputation},
};
TEST_MAIN(cases)
