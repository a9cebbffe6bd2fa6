/* The samples of a step: those of each rank, or of all ranks together. */
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"
#include "test/check.h"

#include <stdlib.h>

#define TINY "\"model\":{\"layers\":2,\"heads\":4,\"hidden\":64,\"vocab_size\":500,\"block_size\":32}"

/* The batch of all ranks or of each rank: the later setting replaces the earlier one. */
static void divides_a_global_batch(void)
{
    static const struct {
        const char *keys, *set;
        double batch_size;
        int global_batch;
    } rows[] = {
        {"\"global_batch\":64", NULL, 16, 64},
        {"\"tensor\":{\"size\":2},\"global_batch\":6", NULL, 1.5, 6},
        {"\"tensor\":{\"size\":2},\"pipeline\":{\"stages\":2,\"chunks\":1},\"global_batch\":1", NULL, 0.25, 1},
        {"\"tensor\":{\"size\":4},\"global_batch\":3", "micro_batches=3", 0.75, 3},
        {"\"global_batch\":64", "batch_size=3", 3, 0},
        {"\"batch_size\":3", "global_batch=8", 2, 8},
        {"\"batch_size\":3,\"sweep\":{\"global_batch\":[8]}", NULL, 2, 8},
        {"\"global_batch\":64,\"sweep\":{\"batch_size\":[5]}", NULL, 5, 0},
    };
    static const char *const refused[][2] = {
        {"\"global_batch\":64,\"batch_size\":16",
         "t: global_batch: batch_size is given, too; it is what world_size 4 makes of global_batch"},
        {"\"global_batch\":66", "t: global_batch: 66 samples cannot be divided among 4 replicas of the model; use 64 or 68"},
        {"\"global_batch\":3", "t: global_batch: 3 samples cannot be divided among 4 replicas of the model; use 4 or 8"},
        {"\"tensor\":{\"size\":2},\"global_batch\":5",
         "t: global_batch: 5 samples cannot be divided among 2 replicas of the model; use 4 or 6"},
        {"\"tensor\":{\"size\":4},\"global_batch\":3,\"micro_batches\":4", "t: micro_batches: 4 is more than tensor.size * batch_size 3"},
        {"\"batch_size\":2.5", "t: batch_size: 2.5 samples of each rank are no whole number; use 2 or 3"},
        {"\"batch_size\":0.5", "t: batch_size: 0.5 samples of each rank are no whole number; use 1 or 2"},
        {"\"tensor\":{\"size\":2},\"batch_size\":0.25",
         "t: batch_size: 0.25 samples of each rank are 0.5 on the 2 ranks that share a copy of the model; use 0.5 or 1"},
        {"\"global_batch\":400000", "t: global_batch: 100000 samples of each of 4 ranks; a rank has at most 65536"},
    };
    char text[512], *json = NULL;
    struct experiment *e;
    int count;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "{" TINY ",\"paradigm\":\"ddp\",\"world_size\":4,%s}", rows[i].keys);
        CHECK_OK(experiments_parse(text, strlen(text), "t", &rows[i].set, rows[i].set != NULL, &e, &count));
        CHECK(count == 1 && e->batch_size == rows[i].batch_size && e->global_batch == rows[i].global_batch, "%s: %g of %d", text,
              e->batch_size, e->global_batch);
        CHECK_OK(experiment_to_json(e, DT_JSON_SORTED, &json)); /* which ranks and records are given */
        CHECK(strstr(json, "\"batch_size\":") && !strstr(json, "global_batch"), "%s", json);
        free(json);
        free(e);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(text, sizeof text, "{" TINY ",\"paradigm\":\"ddp\",\"world_size\":4,%s}", refused[i][0]);
        dt_status status = experiments_parse(text, strlen(text), "t", NULL, 0, &e, &count);
        CHECK(status == DT_ERR_INVALID && strcmp(dt_error_message(), refused[i][1]) == 0, "%s: %s", text, dt_error_message());
    }
}

static const struct test_case cases[] = {
    {"a global batch is divided", divides_a_global_batch},
};
TEST_MAIN(cases)
