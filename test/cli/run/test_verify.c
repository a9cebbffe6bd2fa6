#include "cli/run/run.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6 };

static struct experiment experiment_of(const char *model)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"device\": \"cpu\", \"batch_size\": 2, \"optimizer\": {\"learning_rate\": 0.01}, \"model\": {%s, \"dtype\": \"fp32\"}}",
             model);
    struct experiment *e = NULL, one;
    int count;
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    one = *e;
    free(e);
    return one;
}

static struct experiment an_experiment(void)
{
    return experiment_of("\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": 16");
}

/* Losses of 1, each off by `off`. */
static struct report training(double losses[STEPS], const double off[STEPS])
{
    struct report report;
    report_init(&report);
    report.status = DT_OK;
    report.result.losses = losses;
    report.result.losses_done = STEPS;
    for (int i = 0; i < STEPS; i++)
        losses[i] = 1 + (off ? off[i] : 0);
    return report;
}

/* bound: 1e-5. shaken NULL: nothing grows. compared: -1 all. */
static void check_verified(const double off[STEPS], const double shaken[STEPS], const char *verification, int compared, bool needs_shaken)
{
    double losses[3][STEPS];
    struct experiment e = an_experiment();
    struct report mine = training(losses[0], off), reference = training(losses[1], NULL), moved = training(losses[2], shaken);
    CHECK(verify_needs_shaken(&mine, &e, &reference) == needs_shaken);
    verify_compare(&mine, &e, &reference, &moved);
    CHECK(strcmp(mine.verification, verification) == 0 && mine.verified_losses == compared, "%s, %d losses compared: %s", mine.verification,
          mine.verified_losses, mine.error);
    CHECK((mine.status == DT_OK) == (strcmp(verification, "passed") == 0));
}

static void losses_that_are_alike(void)
{
    check_verified((const double[]){0, 1e-7, 9e-6, 1e-7, 0, 0}, (const double[]){0, 0, 1, 1, 1, 1}, "passed", -1, false);
}

static void losses_that_part_as_rounding_grows(void)
{
    const double off[] = {0, 1e-7, 4e-6, 3e-5, 1e-3, 1e-2}, grown[] = {0, 1e-8, 9e-7, 2e-6, 1e-3, 1e-2};
    check_verified(off, grown, "passed", 3, true);
    check_verified(off, NULL, "failed", -1, true);
    check_verified(off, (const double[]){0, 1e-8, 1e-8, 9e-7, 1e-3, 1e-2}, "failed", 4, true);
}

/* The first two losses count however fast differences grow: the first gradients are right or
 * wrong. */
static void the_first_two_losses_count_always(void)
{
    const double chaos[] = {1, 1, 1, 1, 1, 1};
    check_verified((const double[]){0, 2e-5, 1e-3, 1e-3, 1e-3, 1e-3}, chaos, "failed", 2, false);
    check_verified((const double[]){2e-5, 0, 0, 0, 0, 0}, chaos, "failed", 2, false);
    check_verified((const double[]){0, 0, 1e-3, 1e-3, 1e-3, 1e-3}, chaos, "passed", 2, true);
}

/* Two images of 32 pixels: the last norms see two values. Of 64 pixels they see eight. */
static void only_the_first_loss_counts_where_gradients_cancel(void)
{
    for (int pixels = 32; pixels <= 64; pixels *= 2) {
        double losses[2][STEPS];
        char model[200];
        snprintf(model, sizeof model, "\"blocks\": {\"c2\": 1, \"c3\": 1, \"c4\": 1, \"c5\": 1}, \"channels\": 8, \"image_size\": %d",
                 pixels);
        struct experiment e = experiment_of(model);
        struct report mine = training(losses[0], (const double[]){0, 1e-3, 0, 0, 0, 0}), reference = training(losses[1], NULL);
        CHECK(!verify_needs_shaken(&mine, &e, &reference));
        verify_compare(&mine, &e, &reference, NULL);
        CHECK((mine.status == DT_OK) == (pixels == 32) && mine.verified_losses == (pixels == 32 ? 1 : -1),
              "%d pixels: %s, %d losses compared", pixels, mine.verification, mine.verified_losses);
        losses[0][0] = 1.1;
        verify_compare(&mine, &e, &reference, NULL);
        CHECK(mine.status == DT_ERR_VERIFY);
    }
}

static void a_shaken_reference_differs_in_its_rate(void)
{
    struct experiment e = an_experiment(), reference, shaken;
    CHECK_OK(verify_reference_of(&e, &reference));
    CHECK_OK(verify_shaken(&reference, &shaken));
    CHECK(strcmp(reference.hash, shaken.hash) != 0 && shaken.optimizer.learning_rate > reference.optimizer.learning_rate);
}

static const struct test_case cases[] = {
    {"losses that are alike", losses_that_are_alike},
    {"losses that part as rounding grows", losses_that_part_as_rounding_grows},
    {"the first two losses count always", the_first_two_losses_count_always},
    {"only the first loss counts where gradients cancel", only_the_first_loss_counts_where_gradients_cancel},
    {"a shaken reference differs in its rate", a_shaken_reference_differs_in_its_rate},
};
TEST_MAIN(cases)
