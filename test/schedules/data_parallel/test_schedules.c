/* Places, and the bytes of every paradigm against closed forms; all on the sim device. */
#include "schedules/config/parse.h"
#include "schedules/run/dry_rank.h"
#include "schedules/run/memory_fit.h"
#include "schedules/run/trainer.h"
#include "test/check.h"
#include "test/schedules/run/expected_traffic.h"

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
        CHECK_OK(memory_fit_predict(&e, i == 0 ? 0 : 5, &usage, NULL));
        uint64_t params = dt_model_parameter_count(&e.model);
        CHECK(usage.device.peak_bytes[DT_PARAMETERS] == rounded(2 * params), "%zu", (size_t)usage.device.peak_bytes[DT_PARAMETERS]);
        /* one device updates a group as soon as its gradients are complete: only the largest
         * group's, the embedding's, are held */
        uint64_t held = i == 0 ? (50000 + 256) * 768 : params;
        CHECK(usage.device.peak_bytes[DT_GRADIENTS] == rounded(2 * held), "%zu", (size_t)usage.device.peak_bytes[DT_GRADIENTS]);
        CHECK(usage.device.peak_bytes[DT_OPTIMIZER] == 3 * rounded(4 * params));
        CHECK(usage.device.peak_bytes[DT_COMMUNICATION] == 0, "gradients are viewed in the buckets");
    }
}

/* What the ZeRO stages keep of parameters, gradients and optimizer state: all, or a share among
 * this number of ranks. */
struct division {
    const char *paradigm, *more;
    bool params, grads, optimizer;
    double kept_whole, kept_share; /* of gradients between micro-batches */
};

static const struct division divisions[] = {
    {"ddp", "", false, false, false, 0, 0},
    {"zero1", "", false, false, true, 0, 0},
    {"zero1", ",\"micro_batches\":2,\"gradient_reduction\":\"each\"", false, false, true, 0, 1},
    {"zero1", ",\"micro_batches\":2", false, false, true, 0, 0},
    {"zero2", "", false, true, true, 0, 0},
    {"zero2", ",\"micro_batches\":2,\"gradient_reduction\":\"each\"", false, true, true, 0, 0},
    {"zero2", ",\"micro_batches\":2", false, true, true, 1, 0},
    {"fsdp", "", true, true, true, 0, 0},
    {"fsdp", ",\"fsdp\":{\"unit\":\"linear\"}", true, true, true, 0, 0},
    {"fsdp", ",\"micro_batches\":2,\"gradient_reduction\":\"each\"", true, true, true, 0, 0},
    {"fsdp", ",\"micro_batches\":2", true, true, true, 1, 0},
};

static void check_division(const struct division *d, int ranks, int shards, const char *optimizer, const char *more)
{
    char text[768];
    struct experiment e;
    struct dt_memory_usage usage;
    int written = snprintf(text, sizeof text, small, d->paradigm, ranks, optimizer);
    snprintf(text + written - 1, sizeof text - (size_t)written, "%s%s}", d->more, more);
    if (!parse(text, &e))
        return;
    double whole = (double)dt_model_parameter_count(&e.model), share = whole / shards, state = strcmp(optimizer, "adam") == 0 ? 12 : 0;
    double params = 2 * (d->params ? share : whole), optim = state * (d->optimizer ? share : whole);
    double grads = 2 * (d->grads ? share : whole) + 2 * whole * d->kept_whole + 2 * share * d->kept_share;
    /* Every run of parameters, at most 38 layers, may end in an element of padding for each share
     * and be rounded up as an allocation. */
    double slack = 38 * (2 * 256 + 12 + (d->params ? 0 : 4.0 * shards));
    for (int rank = 0; rank < ranks; rank += ranks - 1) {
        CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
        const uint64_t *peak = usage.device.peak_bytes;
        CHECK(fabs((double)peak[DT_PARAMETERS] - params) <= slack, "%s: %zu of %.0f", text, (size_t)peak[DT_PARAMETERS], params);
        CHECK(fabs((double)peak[DT_GRADIENTS] - grads) <= slack, "%s: %zu of %.0f", text, (size_t)peak[DT_GRADIENTS], grads);
        CHECK(fabs((double)peak[DT_OPTIMIZER] - optim) <= (state ? 3 * slack : 0), "%s: %zu of %.0f", text, (size_t)peak[DT_OPTIMIZER],
              optim);
    }
}

/* "FSDP and ZeRO" of the study's companion text, after Rajbhandari et al., table 1 (its K being 12,
 * the fp32 copy of the parameters included): 2, 2 and 12 bytes a parameter, each divided by the
 * ranks from its stage on. HSDP divides by the ranks of a copy. */
static void shard_bytes(void)
{
    static const int worlds[] = {2, 3, 8, 64, 512};
    static const char *const optimizers[] = {"sgd", "adam"};
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        for (size_t i = 0; i < 2 * sizeof divisions / sizeof *divisions; i++)
            check_division(&divisions[i / 2], worlds[w], worlds[w], optimizers[i % 2], "");
        for (int shards = 1; shards <= worlds[w]; shards *= 8) {
            struct division hsdp = {"hsdp", "", true, true, true, 0, 0};
            char more[64];
            if (worlds[w] % shards)
                continue;
            snprintf(more, sizeof more, ",\"hsdp\":{\"shard_size\":%d}", shards);
            check_division(&hsdp, worlds[w], shards, "sgd", more);
            check_division(&hsdp, worlds[w], shards, "adam", more);
        }
    }
}

/* Whole parameters and gradients exist for a group at a time: head and embedding are the largest,
 * with 38.6M parameters each. FSDP has at most two gathered ones and a third's gradients, ZeRO-2
 * one bucket's gradients. */
static void transient_bytes(void)
{
    static const struct {
        const char *paradigm;
        int most;
    } all[] = {{"fsdp", 3}, {"zero2", 1}};
    for (int i = 0; i < 2; i++) {
        char text[512];
        struct experiment e;
        struct dt_memory_usage usage;
        snprintf(text, sizeof text, small, all[i].paradigm, 8, "adam");
        if (!parse(text, &e))
            return;
        CHECK_OK(memory_fit_predict(&e, 7, &usage, NULL));
        uint64_t seen = usage.device.peak_bytes[DT_COMMUNICATION];
        CHECK(seen <= (uint64_t)all[i].most * 2 * 38600000 && seen >= 2 * 38400000, "%s: %zu", all[i].paradigm, (size_t)seen);
    }
}

/* The root alone, or the servers between them, hold the optimizer state; everybody holds parameters
 * and gradients. */
static void owner_bytes(void)
{
    for (int servers = 0; servers <= 8; servers++) {
        char text[768];
        struct experiment e;
        uint64_t state = 0, most = 0;
        int owners = 0;
        int written = snprintf(text, sizeof text, small, servers ? "parameter_server" : "data_parallel", 8, "adam");
        if (servers)
            snprintf(text + written - 1, sizeof text - (size_t)written, ",\"parameter_server\":{\"servers\":%d}}", servers);
        if (!parse(text, &e))
            return;
        uint64_t params = dt_model_parameter_count(&e.model);
        for (int rank = 0; rank < 8; rank++) {
            struct dt_memory_usage usage;
            CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
            uint64_t mine = usage.device.peak_bytes[DT_OPTIMIZER];
            CHECK(usage.device.peak_bytes[DT_PARAMETERS] == rounded(2 * params));
            CHECK(usage.device.peak_bytes[DT_GRADIENTS] == rounded(2 * params));
            CHECK((usage.device.peak_bytes[DT_COMMUNICATION] > 0) == (servers && mine), "servers receive");
            state += mine;
            most = mine > most ? mine : most;
            owners += mine > 0;
        }
        int expected = servers ? servers : 1;
        CHECK(owners == expected, "%d of %d", owners, expected);
        CHECK(state >= 12 * params && state <= 12 * params + 8 * 3 * 256, "%zu", (size_t)state);
        /* No group can be divided: no server has more than its even part and the largest group, the
         * embedding. */
        CHECK(most <= 12 * (params / (uint64_t)expected + 50256 * 768) + 3 * 256, "%d servers: %zu", servers, (size_t)most);
    }
}

/* What each rank sends, for each number of servers, equals the closed form. Both assign the largest
 * group to the server with the fewest elements, and the first of equal ones. */
static void groups_of_servers(void)
{
    for (int servers = 1; servers <= 8; servers++) {
        char text[512];
        struct experiment e;
        snprintf(text, sizeof text,
                 "{\"device\": \"cpu\", \"paradigm\": \"parameter_server\", \"world_size\": 8, \"batch_size\": 2, \"parameter_server\": "
                 "{\"servers\": %d}, \"model\": {\"layers\": 5, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 500, \"block_size\": 32, "
                 "\"dtype\": \"fp32\"}}",
                 servers);
        if (!parse(text, &e))
            return;
        for (int rank = 0; rank < 8; rank++) {
            struct dt_memory_usage usage;
            struct step_traffic traffic, expected;
            CHECK_OK(memory_fit_predict(&e, rank, &usage, &traffic));
            CHECK_OK(expected_traffic(&e, rank, &expected));
            CHECK(memcmp(&traffic, &expected, sizeof traffic) == 0, "rank %d of %d servers sends %zu bytes, expected %zu", rank, servers,
                  (size_t)step_traffic_of(&traffic, DT_COMM_SEND), (size_t)step_traffic_of(&expected, DT_COMM_SEND));
        }
    }
}

/* The stages of a pipeline share the parameters among them, and each holds what its neighbours
 * send. */
static void pipeline_bytes(void)
{
    char text[512];
    struct experiment e;
    uint64_t parameters = 0;
    snprintf(text, sizeof text, small, "pdp", 8, "sgd");
    if (!parse(text, &e))
        return;
    e.pipeline.stages = 4;
    experiment_settle(&e);
    for (int rank = 4; rank < 8; rank++) {
        struct dt_memory_usage usage;
        CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
        parameters += usage.device.peak_bytes[DT_PARAMETERS];
        CHECK(usage.device.peak_bytes[DT_OPTIMIZER] == 0);
    }
    CHECK(parameters >= 2 * dt_model_parameter_count(&e.model) && parameters <= 2 * dt_model_parameter_count(&e.model) + 4 * 256, "%zu",
          (size_t)parameters);
}

/* GPTSmall with Adam on 8 ranks, as pipelines of `stages`; `more` goes on with the config. */
static bool parse_pipeline(const char *paradigm, int stages, const char *more, struct experiment *out)
{
    char text[768];
    int written = snprintf(text, sizeof text, small, paradigm, 8, "adam");
    snprintf(text + written - 1, sizeof text - (size_t)written, ",\"pipeline\":{\"stages\":%d,\"chunks\":2}%s}", stages, more);
    return parse(text, out);
}

/* A rank's whole parameters, in elements: those of its stage. */
static double stage_params(int stages, int rank)
{
    struct experiment e;
    struct dt_memory_usage usage;
    if (!parse_pipeline("pdp", stages, "", &e))
        return 0;
    CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
    return (double)usage.device.peak_bytes[DT_PARAMETERS] / 2;
}

/* Inside a pipeline a stage's parameters take the place of the model's, and the ranks of that stage
 * the place of all. Its chunks are micro-batches: whole gradients stay from the first to the
 * last. */
static void shares_of_stages(void)
{
    for (int stages = 2; stages <= 4; stages *= 2) {
        for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++) {
            const struct division *d = &divisions[i];
            struct experiment e;
            if (!parse_pipeline(d->paradigm, stages, d->more, &e))
                return;
            for (int rank = 0; rank < stages; rank++) {
                struct dt_memory_usage usage;
                double whole = stage_params(stages, rank), share = whole * stages / 8;
                double params = 2 * (d->params ? share : whole), optim = 12 * (d->optimizer ? share : whole);
                double grads = 2 * (d->grads ? share + whole : whole) + 2 * share * d->kept_share;
                double slack = 38 * (2 * 256 + 12 + (d->params ? 0 : 4.0 * 8));
                CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
                const uint64_t *peak = usage.device.peak_bytes;
                CHECK(fabs((double)peak[DT_PARAMETERS] - params) <= slack, "%s%s, stage %d of %d: %zu of %.0f", d->paradigm, d->more, rank,
                      stages, (size_t)peak[DT_PARAMETERS], params);
                CHECK(fabs((double)peak[DT_GRADIENTS] - grads) <= slack, "%s%s, stage %d of %d: gradients %zu of %.0f", d->paradigm,
                      d->more, rank, stages, (size_t)peak[DT_GRADIENTS], grads);
                CHECK(fabs((double)peak[DT_OPTIMIZER] - optim) <= 3 * slack, "%s%s, stage %d of %d: state %zu of %.0f", d->paradigm,
                      d->more, rank, stages, (size_t)peak[DT_OPTIMIZER], optim);
            }
        }
    }
}

static int count_actions(const struct plan *plan, enum action_op op)
{
    int count = 0;
    for (int i = 0; i < plan->count; i++)
        count += plan->actions[i].op == op;
    return count;
}

/* GPTSmall's 12 blocks, embedding and head on two stages. Each of m micro-batches gathers a group
 * for its forward and its backward. But where forward turns into backward, or the other way, the
 * last group is still there; and an embedding's backward reads nothing. Once a step: each group
 * once, and then the whole stage is there. */
static void gathers_in_a_pipeline(void)
{
    static const char *const gathers[] = {"", ",\"fsdp\":{\"gather\":\"step\"}"};
    for (int i = 0; i < 4; i++) {
        struct experiment e;
        bool once = i & 1;
        if (!parse_pipeline("fsdp", 2, gathers[once], &e))
            return;
        e.micro_batches = i & 2 ? 2 : 1;
        e.gradient_reduction = REDUCTION_EACH;
        experiment_settle(&e);
        for (int rank = 0; rank < 2; rank++) {
            struct plan plan;
            struct dt_memory_usage usage;
            int m = e.pipeline.chunks * e.micro_batches, groups = 0;
            CHECK_OK(rank_plan(&e, rank, &plan));
            for (int a = 0; a < plan.count; a++)
                groups = plan.actions[a].group + 1 > groups ? plan.actions[a].group + 1 : groups;
            int windows = e.micro_batches;
            int passes = rank == 0 ? m * groups + m * (groups - 1) - windows : 2 * m * groups - windows - (windows - 1);
            CHECK(count_actions(&plan, ACTION_GATHER) == (once ? groups : passes), "stage %d: %d gathers of %d groups, %d micro-batches",
                  rank, count_actions(&plan, ACTION_GATHER), groups, m);
            CHECK(count_actions(&plan, ACTION_FREE) == count_actions(&plan, ACTION_GATHER));
            CHECK(count_actions(&plan, ACTION_REDUCE) == groups * windows, "%d reductions", count_actions(&plan, ACTION_REDUCE));
            plan_finish(&plan);
            CHECK_OK(memory_fit_predict(&e, rank, &usage, NULL));
            double whole = 2 * stage_params(2, rank), seen = (double)usage.device.peak_bytes[DT_COMMUNICATION], group = 2 * 38600000;
            CHECK(once ? seen >= whole && seen <= whole + group + 8192 : seen <= 3 * group, "stage %d: %.0f of %.0f", rank, seen, whole);
        }
    }
}

/* Describing GPT1T on 512 GPUs is fast. */
static void huge(void)
{
    struct experiment e;
    struct dt_memory_usage usage;
    if (!parse("{\"device\": \"cpu\", \"paradigm\": \"fsdp\", \"world_size\": 512, \"batch_size\": 1, \"model\": {\"preset\": \"GPT1T\"}}",
               &e))
        return;
    CHECK(e.fsdp.unit == DT_UNIT_LINEAR, "finer units from 81B on");
    CHECK_OK(memory_fit_predict(&e, 511, &usage, NULL));
    CHECK(usage.device.peak_bytes[DT_PARAMETERS] > 2 * 1000000000000ull / 512);
}

/* GPTSmall, 8 samples, fp16: what each activation policy leaves on the device, in columns of M rows
 * and d elements. A block keeps ten: two inputs, q, k, v, the heads' outputs, and the MLP's four.
 * Backward of a block needs the nine after its input, and the gradient of the residual stream. */
static const struct {
    const char *activation;
    int blocks;
    uint64_t columns, norms, attentions; /* at the peak */
    bool whole_logits;
    uint64_t host_columns;
} activation_rows[] = {
    /* all blocks, and the inputs of the final norm and of the head, whose gradient is just made
     * from logits */
    {"keep", 1, 12 * 10 + 3, 25, 12, true, 0},
    /* all but the heads' outputs, and what attention's backward reads beside them */
    {"selective", 1, 12 * 9 + 3, 25, 0, true, 0},
    /* all but what attention's backward reads beside them */
    {"core_attention", 1, 12 * 10 + 3, 25, 0, true, 0},
    /* all but the MLPs' inputs and their norms' numbers */
    {"selective_op", 1, 12 * 9 + 3, 13, 12, true, 0},
    /* 12 inputs, one block and the gradient */
    {"checkpoint", 1, 12 + 9 + 1, 2, 1, false, 0},
    {"checkpoint", 3, 4 + 29 + 1, 6, 3, false, 0},
    /* two inputs, one block and the gradient; of the 13 inputs, the head's among them, all but two
     * are on the host */
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
            CHECK_OK(memory_fit_predict(&e, 0, &usage, NULL));

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
    {"replicas: bytes of parameters, gradients, optimizer", replica_bytes},
    {"ZeRO-1 to 3 and HSDP: shares of parameters, gradients, optimizer", shard_bytes},
    {"whole groups exist for a short time", transient_bytes},
    {"root and servers hold the optimizer", owner_bytes},
    {"which server has what", groups_of_servers},
    {"PDP: stages share the parameters", pipeline_bytes},
    {"FSDP and ZeRO inside a pipeline: shares of a stage", shares_of_stages},
    {"FSDP inside a pipeline: gathers and reductions", gathers_in_a_pipeline},
    {"activations of each policy", activation_bytes},
    {"GPT1T on 512 ranks", huge},
};
TEST_MAIN(cases)
