#include "schedules/config/parse.h"
#include "schedules/run/dry_rank.h"
#include "schedules/run/memory_fit.h"
#include "schedules/run/ranks.h"
#include "test/check.h"

#include <stdlib.h>
#include <string.h>

enum { GIB = 30 };

/* Gibibytes of one rank; gpu "": a cpu rank. */
struct rank {
    const char *host, *gpu;
    int device, host_memory, gpu_has, gpu_free, machine;
};

struct example {
    const char *what;
    struct rank ranks[4];
    const char *refusal; /* NULL: it fits */
};

static void ranks_share_what_is_there(void)
{
    static const struct example examples[] = {
        {"a machine's memory", {{"a", "", 4, 1, 0, 0, 10}, {"a", "", 4, 1, 0, 0, 10}}, NULL},
        {"more than that", {{"a", "", 5, 1, 0, 0, 10}, {"a", "", 4, 1, 0, 0, 10}}, "this machine's ranks need 11 GiB and it has 10 GiB"},
        {"two machines", {{"a", "", 8, 1, 0, 0, 10}, {"b", "", 8, 1, 0, 0, 10}}, NULL},
        {"the second is too small", {{"a", "", 8, 0, 0, 0, 10}, {"b", "", 8, 0, 0, 0, 6}}, "the 1 ranks on b need 8 GiB and it has 6 GiB"},
        {"unknown sizes", {{"a", "", 800, 0, 0, 0, 0}, {"b", "G", 800, 0, 0, 0, 0}}, NULL},
        {"a GPU each", {{"a", "G", 70, 0, 80, 75, 100}, {"a", "H", 75, 0, 80, 75, 100}}, NULL},
        {"one does not fit its own",
         {{"a", "G", 70, 0, 80, 75, 100}, {"a", "H", 76, 0, 80, 75, 100}},
         "rank 1 needs 76 GiB, and of the GPU's 80 GiB buffers can have 75 GiB"},
        {"what is offloaded is the machine's",
         {{"a", "G", 70, 60, 80, 75, 100}, {"a", "H", 70, 60, 80, 75, 100}},
         "this machine's ranks need 120 GiB and it has 100 GiB"},
        {"one GPU for two", {{"a", "G", 30, 0, 80, 75, 100}, {"a", "G", 45, 0, 80, 76, 100}}, NULL},
        {"which is too much",
         {{"a", "H", 1, 0, 80, 75, 100}, {"a", "G", 31, 0, 80, 76, 100}, {"a", "G", 45, 0, 80, 75, 100}},
         "rank 1 and 1 more on its GPU need 76 GiB, and of the GPU's 80 GiB buffers can have 75 GiB"},
        {"the same name elsewhere", {{"a", "G", 60, 0, 80, 75, 100}, {"b", "G", 60, 0, 80, 75, 100}}, NULL},
    };
    struct experiment e = {0};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct memory_fit_rank ranks[4] = {0};
        int size = 0;
        for (; size < 4 && examples[i].ranks[size].host; size++) {
            const struct rank *r = &examples[i].ranks[size];
            ranks[size] = (struct memory_fit_rank){.device_bytes = (uint64_t)r->device << GIB,
                                                   .host_bytes = (uint64_t)r->host_memory << GIB,
                                                   .gpu_bytes = (uint64_t)r->gpu_has << GIB,
                                                   .gpu_free_bytes = (uint64_t)r->gpu_free << GIB,
                                                   .machine_bytes = (uint64_t)r->machine << GIB};
            snprintf(ranks[size].host, sizeof ranks[size].host, "%s", r->host);
            snprintf(ranks[size].gpu, sizeof ranks[size].gpu, "%s", r->gpu);
        }
        dt_status status = memory_fit_check(&e, ranks, size);
        if (!examples[i].refusal)
            CHECK(status == DT_OK, "%s: %s", examples[i].what, dt_error_message());
        else
            CHECK(status == DT_ERR_OOM && strstr(dt_error_message(), examples[i].refusal), "%s: %s", examples[i].what, dt_error_message());
    }
}

static void limits_are_each_ranks(void)
{
    struct experiment e = {.memory_limit_bytes = 4ull << GIB, .host_memory_limit_bytes = 2ull << GIB};
    struct memory_fit_rank ranks[2] = {{.device_bytes = 4ull << GIB}, {.device_bytes = 3ull << GIB, .host_bytes = 2ull << GIB}};
    CHECK_OK(memory_fit_check(&e, ranks, 2));
    ranks[1].host_bytes++;
    CHECK(memory_fit_check(&e, ranks, 2) == DT_ERR_OOM &&
              strstr(dt_error_message(), "rank 1 needs 2 GiB of host memory and the host memory limit"),
          "%s", dt_error_message());
    ranks[0].device_bytes++;
    CHECK(memory_fit_check(&e, ranks, 2) == DT_ERR_OOM && strstr(dt_error_message(), "rank 0 needs 4 GiB and the memory limit is 4 GiB"),
          "%s", dt_error_message());
    ranks[1].status = DT_ERR_UNAVAILABLE;
    ranks[0].device_bytes = 0;
    CHECK(memory_fit_check(&e, ranks, 2) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), "rank 1"), "%s", dt_error_message());
}

/* Letters are machines. */
static void ranks_lie_on_machines(void)
{
    static const struct {
        const char *ranks;
        int per_node;
        bool several;
    } examples[] = {{"a", 1, false},   {"aaaa", 4, false},  {"ab", 1, true},  {"aabb", 2, true},     {"aabbcc", 2, true},
                    {"abab", 1, true}, {"aabab", 0, true},  {"aab", 0, true}, {"aabc", 0, true},     {"aabbb", 0, true},
                    {"abba", 0, true}, {"aabcbc", 0, true}, {"abb", 0, true}, {"aaaabbcc", 0, true}, {"aabbbb", 0, true}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct host_name ranks[8] = {0};
        int size = (int)strlen(examples[i].ranks);
        bool several;
        for (int r = 0; r < size; r++)
            ranks[r].text[0] = examples[i].ranks[r];
        int per_node = ranks_per_node(ranks, size, &several);
        char *hosts = distinct_hosts(ranks, size), first[8] = "";
        for (int r = 0; r < size; r++)
            if (!strchr(first, ranks[r].text[0]))
                strcat(first, ranks[r].text);
        CHECK(strlen(hosts) == 2 * strlen(first) - 1, "%s: machines %s", examples[i].ranks, hosts);
        for (size_t h = 0; h < strlen(hosts); h++)
            CHECK(hosts[h] == (h % 2 ? '\n' : first[h / 2]), "%s: machines %s", examples[i].ranks, hosts);
        free(hosts);
        CHECK(per_node == examples[i].per_node && several == examples[i].several, "%s: %d ranks each", examples[i].ranks, per_node);
    }
}

/* Two whole steps of a dry rank. */
static dt_status take_whole_steps(const struct experiment *e, int rank, struct dt_memory_usage *usage, struct step_traffic *traffic)
{
    struct dry_rank dry;
    dt_status status = dry_rank_init(&dry, e, rank, 0);
    for (int step = 0; step < 2 && status == DT_OK; step++) {
        status = trainer_step(dry.trainer, step);
        if (status == DT_OK)
            status = trainer_synchronize(dry.trainer);
    }
    if (status == DT_OK) {
        dt_memory_usage(dry.device, usage);
        trainer_traffic(dry.trainer, traffic);
    }
    dry_rank_finish(&dry);
    return status;
}

/* Steps of many micro-batches are predicted from shorter ones, to the byte. */
static void repetitions_are_not_played(void)
{
    static const struct {
        const char *keys;
        bool shortened;
    } examples[] = {
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 96, \"order\": \"1f1b\"}", true},
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 96, \"order\": \"interleaved\"}", true},
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 96, \"order\": \"zb_v\"}", true},
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 4}, \"micro_batches\": 24", true},
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 96, \"order\": \"gpipe\"}", true},
        /* The peak is in the middle of backward in a short step, and where that begins in a long
         * one: what is sent adds up until then. */
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 512, \"order\": \"gpipe\"}, \"activation\": "
         "\"checkpoint\", \"batch_size\": 128",
         true},
        {"\"paradigm\": \"pdp\", \"world_size\": 4, \"pipeline\": {\"stages\": 4, \"chunks\": 512, \"order\": \"gpipe\"}, \"activation\": "
         "\"offload\", \"batch_size\": 128",
         true},
        {"\"paradigm\": \"ddp\", \"world_size\": 4, \"micro_batches\": 96, \"gradient_reduction\": \"each\", \"batch_size\": 96", true},
        {"\"paradigm\": \"fsdp\", \"world_size\": 4, \"micro_batches\": 96, \"gradient_reduction\": \"each\", \"batch_size\": 192", true},
        {"\"paradigm\": \"fsdp\", \"world_size\": 4, \"micro_batches\": 96, \"batch_size\": 97", false}, /* one is larger */
        {"\"paradigm\": \"zero2\", \"pipeline\": {\"stages\": 4, \"chunks\": 8, \"order\": \"1f1b\"}, \"micro_batches\": 12, "
         "\"gradient_reduction\": \"each\", \"activation\": \"offload\", \"tensor\": {\"size\": 2}, \"world_size\": 16, \"batch_size\": 24",
         true},
        {"\"paradigm\": \"none\", \"micro_batches\": 96, \"batch_size\": 96, \"activation\": \"checkpoint\", \"parameter_offload\": true",
         true},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char text[1024];
        struct experiment *e = NULL;
        int count = 0;
        bool sized = strstr(examples[i].keys, "batch_size");
        snprintf(
            text, sizeof text,
            "{\"device\": \"cpu\", %s, %s \"model\": {\"layers\": 9, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": "
            "16, \"dtype\": \"fp32\"}}",
            examples[i].keys, sized ? "" : "\"batch_size\": 24,");
        CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
        for (int rank = 0; count == 1 && rank < e->world_size; rank++) {
            struct dt_memory_usage usage, whole;
            struct step_traffic traffic, of_whole;
            struct dry_rank dry;
            CHECK_OK(memory_fit_predict(e, rank, &usage, &traffic));
            CHECK_OK(take_whole_steps(e, rank, &whole, &of_whole));
            CHECK(memcmp(&usage, &whole, sizeof usage) == 0 && memcmp(&traffic, &of_whole, sizeof traffic) == 0, "rank %d of %s", rank,
                  text);
            CHECK_OK(dry_rank_init(&dry, e, rank, 3));
            CHECK((trainer_plan(dry.trainer)->micro_batches < e->strategy.micro_batches) == examples[i].shortened, "rank %d of %s: %d",
                  rank, text, trainer_plan(dry.trainer)->micro_batches);
            dry_rank_finish(&dry);
        }
        free(e);
    }
}

static const struct test_case cases[] = {{"ranks share what is there", ranks_share_what_is_there},
                                         {"ranks lie on machines", ranks_lie_on_machines},
                                         {"limits are each rank's", limits_are_each_ranks},
                                         {"repetitions are not played", repetitions_are_not_played}};
TEST_MAIN(cases)
