#include "schedules/run/memory_fit.h"
#include "schedules/run/ranks_per_node.h"
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

static const struct test_case cases[] = {{"ranks share what is there", ranks_share_what_is_there},
                                         {"ranks lie on machines", ranks_lie_on_machines},
                                         {"limits are each rank's", limits_are_each_ranks}};
TEST_MAIN(cases)
