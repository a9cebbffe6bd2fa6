#include "schedules/config/learning_rate.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <stdlib.h>

static struct experiment parsed(const char *optimizer)
{
    char text[512];
    struct experiment *all, e;
    int count;
    snprintf(text, sizeof text,
             "{\"model\":{\"layers\":1,\"heads\":1,\"hidden\":8},\"device\":\"cpu\",\"world_size\":4,\"paradigm\":\"ddp\",\"batch_size\":8,"
             "\"steps\":{\"warmup\":2,\"timed\":8},\"optimizer\":{%s}}",
             optimizer);
    CHECK_OK(experiments_parse(text, strlen(text), "t", NULL, 0, &all, &count));
    e = all[0];
    free(all);
    return e;
}

static void check_factors(const char *optimizer, const double *expected, int count)
{
    struct experiment e = parsed(optimizer);
    for (int step = 0; step < count; step++)
        CHECK(fabs(experiment_rate_factor(&e, step) - expected[step]) < 1e-12, "%s: step %d: %.15g, not %.15g", optimizer, step,
              experiment_rate_factor(&e, step), expected[step]);
}

static void schedules(void)
{
    check_factors("", (const double[]){1, 1, 1}, 3);
    check_factors("\"warmup_steps\":4", (const double[]){0.25, 0.5, 0.75, 1, 1, 1}, 6);
    check_factors("\"schedule\":\"linear\"", (const double[]){1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0}, 12);
    check_factors("\"schedule\":\"linear\",\"warmup_steps\":2,\"schedule_steps\":6,\"final_rate\":0.2",
                  (const double[]){0.5, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2}, 8);
    check_factors("\"schedule\":\"cosine\",\"schedule_steps\":4", (const double[]){1, 0.5 + sqrt(0.125), 0.5, 0.5 - sqrt(0.125), 0, 0}, 6);
    check_factors("\"schedule\":\"cosine\",\"warmup_steps\":20", (const double[]){0.05, 0.1, 0.15}, 3);
}

static void batches(void)
{
    check_factors("\"scale_with_batch\":\"linear\",\"base_batch\":8", (const double[]){4, 4}, 2);
    check_factors("\"scale_with_batch\":\"root\",\"base_batch\":8,\"warmup_steps\":2", (const double[]){1, 2, 2}, 3);
    check_factors("\"scale_with_batch\":\"linear\"", (const double[]){32.0 / 256}, 1);
}

/* What is left of a run follows the schedule of the whole. */
static void runs_that_go_on(void)
{
    struct experiment whole = parsed("\"schedule\":\"cosine\",\"warmup_steps\":3"), rest = whole;
    rest.steps_made = 6;
    rest.steps.timed -= 6;
    for (int step = 6; step < 10; step++)
        CHECK(experiment_rate_factor(&whole, step) == experiment_rate_factor(&rest, step), "step %d", step);
}

static const struct test_case cases[] = {
    {"schedules with their warm-up", schedules}, {"the batch's part", batches}, {"runs that go on", runs_that_go_on}};
TEST_MAIN(cases)
