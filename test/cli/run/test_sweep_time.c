#include "cli/run/run.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>

static struct experiment *parse(const char *steps, int *count)
{
    char text[512];
    struct experiment *experiments = NULL;
    snprintf(text, sizeof text,
             "{\"world_size\": 2, \"paradigm\": \"ddp\", \"batch_size\": 2, \"sweep\": {\"steps.timed\": %s},"
             "\"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": 16, \"dtype\": \"fp32\"}}",
             steps);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &experiments, count));
    return experiments;
}

static void forecasts_decide(void)
{
    char why[128] = "";
    int count;
    struct sweep_time time;
    struct experiment *e = parse("[96, 996, 46]", &count); /* with four warm-up steps: 100, 1,000 and 50 */
    if (!e || count != 3)
        return;
    CHECK_OK(sweep_time_init(&time, "300", NAN));
    CHECK(isfinite(time.end_s) && sweep_time_allows(&time, &e[1], why, sizeof why), "nothing is known: %s", why);
    CHECK(sweep_time_allows(&time, &e[1], why, sizeof why), "still nothing: %s", why);
    CHECK_OK(forecaster_add(&time.forecaster, &e[0], 1, NAN, 101));
    CHECK(!sweep_time_allows(&time, &e[1], why, sizeof why) && strstr(why, "may take 1001 s (estimated from 1 done), and 299 s are left"),
          "%s", why);
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && sweep_time_allows(&time, &e[2], why, sizeof why), "what fits: %s", why);
    CHECK_OK(forecaster_add(&time.forecaster, &e[0], 4, NAN, 401)); /* the slowest counts */
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why) && sweep_time_allows(&time, &e[2], why, sizeof why), "%s", why);
    sweep_time_finish(&time);
    free(e);
}

/* The first experiment of a run always starts, whatever the forecast: otherwise a sweep might never
 * continue. */
static void the_first_starts(void)
{
    char why[128] = "";
    int count;
    struct sweep_time time;
    struct experiment *e = parse("[96]", &count);
    CHECK_OK(sweep_time_init(&time, "10", NAN));
    CHECK_OK(forecaster_add(&time.forecaster, &e[0], 1, NAN, 101));
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why), "%s", why);
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why), "the second too");
    sweep_time_finish(&time);
    CHECK_OK(sweep_time_init(&time, "0", NAN));
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why) && strstr(why, "no time"), "%s", why);
    sweep_time_finish(&time);
    free(e);
}

static void limits(void)
{
    static const char *const wrong[] = {"", "x", "1h", "-1", "inf", "nan", "1e999"};
    char why[128];
    int count;
    struct sweep_time time;
    struct experiment *e = parse("[96]", &count);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(sweep_time_init(&time, wrong[i], NAN) == DT_ERR_INVALID, "'%s' is accepted", wrong[i]);
        sweep_time_finish(&time);
    }
    CHECK_OK(sweep_time_init(&time, NULL, NAN));
    CHECK(!isfinite(time.end_s) && sweep_time_allows(&time, &e[0], why, sizeof why));
    sweep_time_finish(&time);
    static const double job_s[] = {3600, 100}, usable_s[] = {3480, 90};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sweep_time_init(&time, NULL, job_s[i]));
        CHECK_OK(forecaster_add(&time.forecaster, &e[0], usable_s[i] / 100 * 0.98, NAN, usable_s[i] * 0.98));
        CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && sweep_time_allows(&time, &e[0], why, sizeof why), "%s", why);
        CHECK_OK(forecaster_add(&time.forecaster, &e[0], usable_s[i] / 100 * 1.02, NAN, usable_s[i] * 1.02));
        CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why), "%g s of %g", usable_s[i] * 1.02, job_s[i]);
        sweep_time_finish(&time);
    }
    free(e);
}

static double next_answer(void *context)
{
    double **answers = context;
    return *(*answers)++;
}

/* Slurm is asked again when an experiment would not fit; without an answer the last limit stays. */
static void a_jobs_limit_moves(void)
{
    double answers[] = {NAN, 40, 4000, 4000}, *at = answers;
    char why[128] = "";
    int count;
    struct sweep_time time;
    struct experiment *e = parse("[96]", &count);
    CHECK_OK(sweep_time_init(&time, NULL, 50));
    sweep_time_follow(&time, next_answer, &at);
    CHECK_OK(forecaster_add(&time.forecaster, &e[0], 1, NAN, 101));
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && at == answers, "the first, unasked");
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why) && strstr(why, "44 s are left") && at == answers + 1, "%s", why);
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why) && strstr(why, "35 s are left") && at == answers + 2, "%s", why);
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && at == answers + 3, "%s", why);
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && at == answers + 3, "asked though there is time");
    time.asked_s -= 61;
    CHECK(sweep_time_allows(&time, &e[0], why, sizeof why) && at == answers + 4, "not asked for a minute");
    sweep_time_finish(&time);
    CHECK_OK(sweep_time_init(&time, "0", 50));
    sweep_time_follow(&time, next_answer, &at);
    CHECK(!sweep_time_allows(&time, &e[0], why, sizeof why) && at == answers + 4, "the command line's limit is the user's");
    sweep_time_finish(&time);
    free(e);
}

static const struct test_case cases[] = {
    {"forecasts decide", forecasts_decide},
    {"the first of a run starts", the_first_starts},
    {"limits of the command line and of jobs", limits},
    {"a job's limit moves", a_jobs_limit_moves},
};
TEST_MAIN(cases)
