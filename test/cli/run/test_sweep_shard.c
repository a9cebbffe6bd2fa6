#include "cli/run/run.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#include <stdlib.h>

enum { BATCHES = 12, DTYPES = 2, ALL = BATCHES * DTYPES };

static struct experiment_list *sweep(void)
{
    static const char text[] = "{\"world_size\": 2, \"paradigm\": \"ddp\", \"steps\": {\"warmup\": 1, \"timed\": 4}, \"sweep\": "
                               "{\"model.dtype\": [\"fp32\", \"bf16\"],"
                               "\"batch_size\": [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]},"
                               "\"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": 16}}";
    struct experiment_list *experiments = NULL;
    CHECK_OK(experiments_parse_list(text, strlen(text), "test", NULL, 0, &experiments));
    CHECK(experiments && experiments->count == ALL);
    return experiments;
}

static void every_experiment_is_in_one_shard(void)
{
    struct experiment_list *e = sweep();
    for (int shards = 1; e && shards <= ALL + 3; shards++) {
        int least = ALL, most = 0, taken[ALL] = {0};
        for (int number = 1; number <= shards; number++) {
            bool elsewhere[ALL];
            int size = 0;
            CHECK_OK(sweep_shard_select((struct sweep_shard){number, shards}, e, elsewhere));
            for (int i = 0; i < ALL; i++) {
                taken[i] += !elsewhere[i];
                size += !elsewhere[i];
            }
            least = size < least ? size : least;
            most = size > most ? size : most;
        }
        for (int i = 0; i < ALL; i++)
            CHECK(taken[i] == 1, "experiment %d is in %d of %d shards", i, taken[i], shards);
        CHECK(most - least <= 1, "%d shards of %d to %d experiments", shards, least, most);
    }
    experiment_list_destroy(e);
}

/* Divided in the sweep's order, one of four shards would always get the batches of 4, 16 and 64:
 * nearly half of the work. Divided by work, but with every round beginning at the first shard, the
 * first shard would get 29 %. */
static void the_work_is_spread(void)
{
    struct experiment_list *e = sweep();
    double work[4] = {0}, sum = 0;
    for (int number = 1; e && number <= 4; number++) {
        bool elsewhere[ALL];
        CHECK_OK(sweep_shard_select((struct sweep_shard){number, 4}, e, elsewhere));
        for (int i = 0; i < ALL; i++)
            work[number - 1] += elsewhere[i] ? 0 : e->all[i].batch_size;
        sum += work[number - 1];
    }
    for (int i = 0; i < 4; i++)
        CHECK(work[i] > 0.23 * sum && work[i] < 0.27 * sum, "shard %d has %g of %g", i + 1, work[i], sum);
    experiment_list_destroy(e);
}

static void names(void)
{
    static const char *const wrong[] = {"",     "1",    "/",    "1/",   "/2",   "0/2",  "3/2", "1/0",
                                        "-1/2", "1/-2", "1/2x", "x1/2", " 1/2", "1/ 2", "a/b", "1.5/2"};
    struct sweep_shard shard;
    CHECK_OK(sweep_shard_parse("3/12", &shard));
    CHECK(shard.number == 3 && shard.count == 12);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(sweep_shard_parse(wrong[i], &shard) == DT_ERR_INVALID, "'%s' is accepted", wrong[i]);
}

static const struct test_case cases[] = {
    {"every experiment is in one shard, and shards are alike in number", every_experiment_is_in_one_shard},
    {"the work is spread", the_work_is_spread},
    {"K/N", names},
};
TEST_MAIN(cases)
