#include "schedules/config/data.h"
#include "schedules/config/parse.h"
#include "schedules/run/batches.h"
#include "test/check.h"

#include <stdlib.h>

/* How often the ranks read each of the file's samples in an epoch; those that share a replica's
 * samples count once together. */
static void count_epoch(const struct experiment *e, int epoch, int *times)
{
    const struct mesh_shape *shape = &e->strategy.mesh;
    struct dt_sampler sampler = experiment_sampler(e);
    size_t sharing = (size_t)mesh_count(shape, ~MESH_ON_DATA), samples = (size_t)e->batch_size * sharing;
    int steps = (int)dt_sampler_steps(&sampler);
    memset(times, 0, e->data_samples * sizeof *times);
    for (int step = epoch * steps; step < (epoch + 1) * steps; step++)
        for (int rank = 0; rank < e->world_size; rank++)
            for (size_t i = 0; i < samples; i++)
                times[dt_sampler_at(&sampler, batches_first(e, shape, rank, samples, step) + i)]++;
    for (uint64_t i = 0; i < e->data_samples; i++) {
        CHECK(times[i] % (int)sharing == 0, "the ranks of a replica read other samples");
        times[i] /= (int)sharing;
    }
}

static void check_epochs(const struct experiment *e, const char *what)
{
    int *times = calloc(e->data_samples, sizeof *times);
    uint64_t batch = experiment_global_batch(e), missing = 0;
    for (int epoch = 0; epoch < 2; epoch++, missing = 0) {
        count_epoch(e, epoch, times);
        for (uint64_t i = 0; i < e->data_samples; i++) {
            missing += times[i] == 0;
            CHECK(times[i] <= 1 || e->data.last == DT_LAST_PADDED, "%s: sample %zu comes %d times", what, (size_t)i, times[i]);
        }
        CHECK(missing == (e->data.last == DT_LAST_PADDED ? 0 : e->data_samples % batch), "%s: %zu of %zu samples are missing", what,
              (size_t)missing, (size_t)e->data_samples);
    }
    free(times);
}

static void each_sample_once_an_epoch(void)
{
    static const char *const divisions[] = {
        "\"world_size\":1",
        "\"world_size\":4,\"paradigm\":\"ddp\"",
        "\"world_size\":6,\"paradigm\":\"zero2\",\"batch_size\":3",
        "\"world_size\":8,\"paradigm\":\"fsdp\",\"tensor\":{\"size\":2}",
        "\"world_size\":8,\"paradigm\":\"pdp\",\"pipeline\":{\"stages\":2}",
        ("\"world_size\":16,\"paradigm\":\"zero1\",\"tensor\":{\"size\":2},\"pipeline\":{\"stages\":4},"
         "\"mesh\":{\"order\":\"data-pipeline-tensor\"}"),
        "\"world_size\":12,\"paradigm\":\"hsdp\",\"hsdp\":{\"shard_size\":3},\"batch_size\":1",
        "\"world_size\":4,\"paradigm\":\"parameter_server\"",
    };
    static const uint64_t counts[] = {48, 97, 500};
    for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int last = DT_LAST_DROPPED; last <= DT_LAST_PADDED; last++) {
                char text[512];
                struct experiment *e;
                int count;
                snprintf(text, sizeof text, "{\"model\":{\"layers\":4,\"heads\":4,\"hidden\":16},\"device\":\"cpu\",\"batch_size\":2,%s}",
                         divisions[i]);
                if (strstr(divisions[i], "batch_size"))
                    snprintf(text, sizeof text, "{\"model\":{\"layers\":4,\"heads\":4,\"hidden\":16},\"device\":\"cpu\",%s}", divisions[i]);
                CHECK_OK(experiments_parse(text, strlen(text), "t", NULL, 0, &e, &count));
                e->data_samples = counts[c];
                e->data.last = (enum dt_last_step)last;
                check_epochs(e, divisions[i]);
                free(e);
            }
}

static const struct test_case cases[] = {{"each sample comes once an epoch, whatever the division", each_sample_once_an_epoch}};
TEST_MAIN(cases)
