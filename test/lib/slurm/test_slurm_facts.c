/* Helpers that answer, die, hang or send nonsense: the facts are those sent before, and nothing
 * takes longer than the deadline. libslurm itself is tested on a cluster (test_slurm.py). */
#include "lib/slurm/facts.h"
#include "lib/slurm/library.h"
#include "lib/slurm/release.h"
#include "test/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void set_job(bool inside)
{
    static const char *const variables[][2] = {
        {"SLURM_JOB_ID", "77"},           {"SLURM_JOB_PARTITION", "gpu"}, {"SLURM_JOB_NODELIST", "n[09-11],m"},
        {"SLURM_JOB_ACCOUNT", "project"}, {"SLURM_RESTART_COUNT", "2"},   {"SLURM_JOB_END_TIME", ""},
        {"SLURM_GPUS_ON_NODE", "4"},      {"SLURM_STEP_GPUS", "0,2,5,7"}, {"SLURM_GPUS_PER_NODE", "h100:4"},
    };
    for (int key = 0; key < DT_SLURM_KEYS; key++)
        if (dt_slurm_fact(key)->variable)
            unsetenv(dt_slurm_fact(key)->variable);
    for (size_t i = 0; inside && i < sizeof variables / sizeof variables[0]; i++)
        setenv(variables[i][0], variables[i][1], 1);
}

static void collect(const char *script, double deadline_s, struct dt_slurm_facts *facts)
{
    const char *const helper[] = {"sh", "-c", script, NULL};
    CHECK_OK(dt_slurm_facts_collect(script ? helper : NULL, deadline_s, facts));
}

static bool is(const struct dt_slurm_facts *facts, enum dt_slurm_key key, const char *value)
{
    const char *found = facts->values[key];
    return found && value ? strcmp(found, value) == 0 : !found && !value;
}

static void variables(void)
{
    struct dt_slurm_facts facts;
    set_job(true);
    collect(NULL, 0, &facts);
    CHECK(is(&facts, DT_SLURM_JOB_ID, "77") && is(&facts, DT_SLURM_PARTITION, "gpu") && is(&facts, DT_SLURM_RESTARTS, "2"));
    CHECK(is(&facts, DT_SLURM_GPUS_ON_NODE, "4") && is(&facts, DT_SLURM_STEP_GPUS, "0,2,5,7") &&
          is(&facts, DT_SLURM_GPUS_PER_NODE, "h100:4"));
    CHECK(dt_slurm_gpus_on_node() == 4);
    static const char *const wrong[] = {"", "x", "4x", "0", "-1", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("SLURM_GPUS_ON_NODE", wrong[i], 1);
        CHECK(dt_slurm_gpus_on_node() == 0, "'%s'", wrong[i]);
    }
    CHECK(is(&facts, DT_SLURM_NODE_NAMES, "n09 n10 n11 m"), "%s", facts.values[DT_SLURM_NODE_NAMES]);
    CHECK(is(&facts, DT_SLURM_LIBRARY, NULL) && is(&facts, DT_SLURM_RESOURCES, NULL) && is(&facts, DT_SLURM_END_TIME, NULL));
    CHECK(isnan(dt_slurm_seconds_left(&facts)));
    dt_slurm_facts_finish(&facts);
}

static void answers(void)
{
    struct dt_slurm_facts facts;
    char script[256];
    set_job(true);
    snprintf(script, sizeof script,
             "echo library Slurm 22.05; echo; echo nonsense; echo unknown x; echo partition big; echo end_time %lld; echo node_names a b",
             (long long)time(NULL) + 100);
    collect(script, 10, &facts);
    CHECK(is(&facts, DT_SLURM_LIBRARY, "Slurm 22.05") && is(&facts, DT_SLURM_PARTITION, "big") && is(&facts, DT_SLURM_NODE_NAMES, "a b"));
    CHECK(is(&facts, DT_SLURM_ACCOUNT, "project"), "what the helper did not say is the variables'");
    double left = dt_slurm_seconds_left(&facts);
    CHECK(left > 95 && left <= 100, "%g s left", left);
    dt_slurm_facts_finish(&facts);

    static const char *const no_times[] = {"echo end_time soon", "echo end_time 4000000000s", "echo end_time 0", "echo end_time -1"};
    for (size_t i = 0; i < sizeof no_times / sizeof no_times[0]; i++) {
        collect(no_times[i], 10, &facts);
        CHECK(isnan(dt_slurm_seconds_left(&facts)), "%s", no_times[i]);
        dt_slurm_facts_finish(&facts);
    }
}

static void faults(void)
{
    static const char *const scripts[] = {
        "echo library Slurm 22.05; printf 'partition bi'; exit 1",
        "echo library Slurm 22.05; printf 'partition bi'; kill -SEGV $$",
        "echo library Slurm 22.05; printf 'partition bi'; exec sleep 60",
        "echo library Slurm 22.05; exec >&-; exec sleep 60",
    };
    set_job(true);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct dt_slurm_facts facts;
        time_t start = time(NULL);
        collect(scripts[i], 0.5, &facts);
        CHECK(time(NULL) - start < 10, "%s: %d s", scripts[i], (int)(time(NULL) - start));
        CHECK(is(&facts, DT_SLURM_LIBRARY, "Slurm 22.05"), "%s: what came before is lost", scripts[i]);
        CHECK(is(&facts, DT_SLURM_PARTITION, "gpu"), "%s: %s", scripts[i], facts.values[DT_SLURM_PARTITION]);
        dt_slurm_facts_finish(&facts);
    }
    struct dt_slurm_facts facts;
    const char *const missing[] = {"/nowhere/dtbench", NULL};
    CHECK_OK(dt_slurm_facts_collect(missing, 10, &facts));
    CHECK(is(&facts, DT_SLURM_JOB_ID, "77") && is(&facts, DT_SLURM_LIBRARY, NULL));
    dt_slurm_facts_finish(&facts);
    collect("yes partition big", 0.5, &facts); /* without end: refused as a whole */
    CHECK(is(&facts, DT_SLURM_PARTITION, "gpu"), "%s", facts.values[DT_SLURM_PARTITION]);
    dt_slurm_facts_finish(&facts);
}

static void outside_a_job(void)
{
    struct dt_slurm_facts facts;
    set_job(false);
    time_t start = time(NULL);
    collect("echo library Slurm 22.05; sleep 60", 60, &facts);
    CHECK(time(NULL) - start < 10, "something was started");
    for (int key = 0; key < DT_SLURM_KEYS; key++)
        CHECK(!facts.values[key], "%s is known: %s", dt_slurm_fact(key)->key, facts.values[key]);
    dt_slurm_facts_finish(&facts);
}

/* The releases of libslurm in which a job is a number: newer ones must not be called. */
static void releases(void)
{
    CHECK(dt_slurm_release_of_api(38)->year == 22 && dt_slurm_release_of_api(38)->month == 5);
    CHECK(dt_slurm_release_of_date(24, 11)->api == 42 && dt_slurm_release_of_date(25, 11)->api == 44);
    for (long api = 37; api <= 44; api++) { /* one more for each release, and later */
        const struct dt_slurm_release *r = dt_slurm_release_of_api(api), *before = dt_slurm_release_of_api(api - 1);
        CHECK(r && before && 12 * r->year + r->month > 12 * before->year + before->month, "%ld", api);
        CHECK(r && dt_slurm_release_of_date(r->year, r->month) == r, "%ld", api);
    }
    CHECK(!dt_slurm_release_of_api(45) && !dt_slurm_release_of_date(26, 5) && !dt_slurm_release_of_api(0));
}

static const struct test_case cases[] = {
    {"variables alone", variables}, {"a helper's answer", answers},
    {"helpers that fail", faults},  {"outside a job nothing is asked", outside_a_job},
    {"releases", releases},
};
TEST_MAIN(cases)
