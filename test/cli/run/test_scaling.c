#include "cli/run/run.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#define SMALL "\"device\": \"sim\", \"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": 16}"

static struct experiment_list *parse(const char *text)
{
    struct experiment_list *experiments = NULL;
    CHECK_OK(experiments_parse_list(text, strlen(text), "test", NULL, 0, &experiments));
    return experiments;
}

static void check_fewest(const char *text, const int *expected, int count)
{
    struct experiment_list *e = parse(text);
    int fewest[16];
    CHECK(e && e->count == count);
    CHECK_OK(scaling_find(e, fewest));
    for (int i = 0; i < count; i++)
        CHECK(fewest[i] == expected[i], "experiment %d is compared with %d, not %d", i, fewest[i], expected[i]);
    experiment_list_destroy(e);
}

static void the_fewest_ranks_of_what_is_alike(void)
{
    check_fewest("{" SMALL ", \"sweep\": {\"paradigm\": [\"ddp\", \"fsdp\"], \"batch_size\": [1, 2], \"world_size\": [4, 2, 8]}}",
                 (const int[]){1, 1, 1, 4, 4, 4, 7, 7, 7, 10, 10, 10}, 12);
    check_fewest("{" SMALL
                 ", \"sweep\": {\"cases\": [{\"paradigm\": \"ddp\", \"world_size\": 2}, {\"paradigm\": \"fsdp\", \"world_size\": 4}]}}",
                 (const int[]){-1, -1}, 2);
}

/* With a global batch the ranks' batches differ, but the work is the same. */
static void strong_scaling(void)
{
    check_fewest("{" SMALL ", \"paradigm\": \"ddp\", \"global_batch\": 8, \"sweep\": {\"world_size\": [4, 2, 8]}}", (const int[]){1, 1, 1},
                 3);
    check_fewest("{" SMALL ", \"paradigm\": \"ddp\", \"sweep\": {\"cases\": [{\"world_size\": 4, \"batch_size\": 2},"
                 "{\"world_size\": 2, \"batch_size\": 4}]}}",
                 (const int[]){-1, -1}, 2);
}

/* Experiments that differ only in name and in ranks per node are compared. Of several with the
 * fewest ranks, each is its own reference, and the first one is the others'. */
static void the_first_of_several(void)
{
    check_fewest("{" SMALL ", \"paradigm\": \"ddp\", \"sweep\": {\"cases\": [{\"world_size\": 4}, {\"world_size\": 2, \"name\": \"a\"},"
                 "{\"world_size\": 2, \"name\": \"b\"}, {\"world_size\": 4, \"gpus_per_node\": 2}]}}",
                 (const int[]){1, 1, 2, 1}, 4);
}

static void one_rank_alone_is_like_any(void)
{
    check_fewest("{" SMALL
                 ", \"sweep\": {\"cases\": [{\"paradigm\": \"fsdp\", \"world_size\": 2}, {\"paradigm\": \"ddp\", \"world_size\": 4},"
                 "{\"paradigm\": \"none\", \"world_size\": 1}, {\"paradigm\": \"ddp\", \"world_size\": 2, \"batch_size\": 2}]}}",
                 (const int[]){2, 2, -1, -1}, 4);
}

static const struct test_case cases[] = {
    {"an experiment is compared with the fewest ranks of what is like it", the_fewest_ranks_of_what_is_alike},
    {"of the same global batch", strong_scaling},
    {"of several with the fewest ranks the first", the_first_of_several},
    {"one rank alone is like any", one_rank_alone_is_like_any},
};
TEST_MAIN(cases)
