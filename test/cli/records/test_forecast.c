#include "cli/records/records.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "test/check.h"

#include "schedules/config/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_BYTES = 512 };

static void write_config(const char *changes, char text[CONFIG_BYTES])
{
    snprintf(text, CONFIG_BYTES,
             "{\"world_size\": 2, \"paradigm\": \"ddp\", \"batch_size\": 2, \"steps\": {\"warmup\": 2, \"timed\": 8},"
             "\"model\": {\"layers\": 2, \"heads\": 2, \"hidden\": 32, \"vocab_size\": 100, \"block_size\": 16, \"dtype\": \"fp32\"}, %s}",
             changes);
}

/* The experiments of a config; owned by the caller. */
static struct experiment *parse(const char *changes, int *count)
{
    char text[CONFIG_BYTES];
    struct experiment *experiments = NULL;
    write_config(changes, text);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &experiments, count));
    return experiments;
}

static struct experiment_list *parse_list(const char *changes)
{
    char text[CONFIG_BYTES];
    struct experiment_list *experiments = NULL;
    write_config(changes, text);
    CHECK_OK(experiments_parse_list(text, strlen(text), "test", NULL, 0, &experiments));
    return experiments;
}

static bool near(double value, double wanted)
{
    return fabs(value - wanted) < 1e-9 * wanted;
}

static void tells_from_the_most_alike(void)
{
    int count;
    struct experiment *e = parse("\"device\": \"cpu\", \"sweep\": {\"paradigm\": [\"ddp\", \"fsdp\"], \"batch_size\": [2, 4]}", &count);
    struct forecaster f = {0};
    if (!e || count != 4)
        return;
    struct experiment elsewhere = e[1];
    elsewhere.device = "cuda";
    struct forecast none = forecaster_predict(&f, &e[0]);
    CHECK(none.basis == FORECAST_NONE && isnan(none.expected_s) && none.based_on == 0);

    /* ddp with batch 2: 10 steps of 1 s and 5 s beside them. */
    CHECK_OK(forecaster_add(&f, &e[0], 1, 0.5, 15));
    struct forecast same = forecaster_predict(&f, &e[0]);
    CHECK(same.basis == FORECAST_SAME && near(same.expected_s, 15) && near(same.high_s, 15), "%g", same.expected_s);
    struct forecast alike = forecaster_predict(&f, &e[1]); /* twice the operations */
    CHECK(alike.basis == FORECAST_ALIKE && near(alike.expected_s, 25), "%g", alike.expected_s);
    CHECK(forecaster_predict(&f, &elsewhere).basis == FORECAST_NONE, "a cpu tells nothing of a GPU");
    struct forecast other = forecaster_predict(&f, &e[3]);
    CHECK(other.basis == FORECAST_SAME_RANKS && near(other.expected_s, 25), "%g", other.expected_s);

    /* fsdp with batch 2 takes 3 s a step: from now on the forecast for fsdp with batch 4 follows
     * it, and not ddp. Only start-up is known. */
    CHECK_OK(forecaster_add(&f, &e[2], 3, 0.5, NAN));
    other = forecaster_predict(&f, &e[3]);
    CHECK(other.basis == FORECAST_ALIKE && near(other.expected_s, 60.5) && other.based_on == 1, "%g", other.expected_s);

    /* Three runs of the same: the middle one, and the slowest. */
    CHECK_OK(forecaster_add(&f, &e[0], 1.5, 0.5, 20));
    CHECK_OK(forecaster_add(&f, &e[0], 1.1, 0.5, 16));
    same = forecaster_predict(&f, &e[0]);
    CHECK(near(same.expected_s, 16) && near(same.high_s, 20) && same.based_on == 3, "%g %g", same.expected_s, same.high_s);
    forecaster_finish(&f);
    free(e);
}

static void takes_what_tells_nothing(void)
{
    int count;
    struct experiment *e = parse("\"seed\": 2", &count);
    struct forecaster f = {0};
    if (!e)
        return;
    CHECK_OK(forecaster_add(&f, e, NAN, 1, 1));
    CHECK_OK(forecaster_add(&f, e, 0, 1, 1));
    CHECK(forecaster_predict(&f, e).basis == FORECAST_NONE);
    /* 10 median steps take longer than the whole run: the rest is 0, never negative. */
    CHECK_OK(forecaster_add(&f, e, 1, 1, 9));
    CHECK(near(forecaster_predict(&f, e).expected_s, 10));
    forecaster_finish(&f);
    free(e);
}

/* Simulated steps take days of the cluster; the forecast counts the seconds that their prediction
 * took on this machine. */
static void counts_real_seconds_of_predictions(void)
{
    int count;
    struct experiment *e = parse("\"device\": \"sim\", \"sweep\": {\"batch_size\": [2, 4]}", &count);
    struct forecaster f = {0};
    if (!e || count != 2)
        return;
    CHECK_OK(forecaster_add(&f, &e[0], 86400, 0.5, 2));
    struct forecast told = forecaster_predict(&f, &e[1]);
    CHECK(told.basis == FORECAST_ALIKE && near(told.expected_s, 2) && near(told.high_s, 2), "%g", told.expected_s);
    CHECK(forecast_steps_s(&e[0], 86400) == 0);
    forecaster_finish(&f);
    free(e);
}

/* Each prediction costs the same, however many experiments are done: the newest 64 of each kind
 * count. */
static void asks_the_newest(void)
{
    int count;
    struct experiment *e = parse("\"device\": \"cpu\", \"sweep\": {\"paradigm\": [\"ddp\", \"fsdp\"]}", &count);
    struct forecaster f = {0};
    if (!e || count != 2)
        return;
    CHECK_OK(forecaster_add(&f, &e[1], 100, 0, NAN));
    for (int i = 0; i < 1000; i++)
        CHECK_OK(forecaster_add(&f, &e[0], i < 936 ? 7 : 1, 0, NAN));
    struct forecast told = forecaster_predict(&f, &e[0]);
    CHECK(told.based_on == 64 && near(told.expected_s, 10) && near(told.high_s, 10), "%d: %g", told.based_on, told.high_s);
    CHECK(near(forecaster_predict(&f, &e[1]).expected_s, 1000), "the other paradigm's is kept");
    forecaster_finish(&f);
    free(e);
}

/* Equal experiments count once, and the identity is that of the whole list. */
static void names_a_sweep(void)
{
    enum { ALL = 5 };
    struct experiment_list *e = parse_list("\"sweep\": {\"batch_size\": [2, 4, 2, 8, 4]}");
    struct experiment_list *other = parse_list("\"sweep\": {\"batch_size\": [2, 4, 2, 8]}");
    struct sweep_identity identity, its;
    struct report report;
    if (!e || !other || e->count != ALL)
        return;
    CHECK_OK(sweep_identity_init(&identity, e));
    CHECK(identity.count == 3, "%d different", identity.count);
    const int wanted[] = {0, 1, 0, 2, 1};
    for (int i = 0; i < ALL; i++)
        CHECK(identity.index[i] == wanted[i], "%d is %d", i, identity.index[i]);
    CHECK_OK(sweep_identity_init(&its, other));
    CHECK(strlen(identity.id) == 16 && strcmp(identity.id, its.id) != 0, "%s %s", identity.id, its.id);
    report_init(&report);
    sweep_identity_report(&identity, 3, &report);
    CHECK(report.sweep.index == 2 && report.sweep.count == 3 && strcmp(report.sweep.id, identity.id) == 0);
    report_finish(&report);
    sweep_identity_finish(&identity);
    sweep_identity_finish(&its);
    experiment_list_destroy(e);
    experiment_list_destroy(other);
}

/* The reference on one device leaves out settings that have no effect there, or would keep it from
 * training. */
static void one_reference_for_all(void)
{
    static const char *const changes[] = {"\"seed\": 1", "\"fsdp\": {\"unit\": \"linear\"}, \"hsdp\": {\"shard_size\": 2}",
                                          "\"memory_limit_gib\": 0.5, \"host_memory_limit_gib\": 0.25, \"threads\": 3",
                                          "\"activation\": \"checkpoint\", \"activation_blocks\": 2, \"ddp\": {\"bucket_mib\": 7}"};
    char hash[sizeof((struct experiment *)0)->hash] = "";
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        int count;
        struct experiment *e = parse(changes[i], &count), reference;
        if (!e)
            continue;
        CHECK_OK(verify_reference_of(e, &reference));
        CHECK(reference.paradigm == PARADIGM_NONE && reference.world_size == 1 && reference.batch_size == 4 &&
              reference.micro_batches == 2);
        CHECK(reference.memory_limit_bytes == 0 && reference.host_memory_limit_bytes == 0, "%s: a limit", changes[i]);
        CHECK(i == 0 || strcmp(reference.hash, hash) == 0, "%s: another reference", changes[i]);
        memcpy(hash, reference.hash, sizeof hash);
        free(e);
    }
}

/* Is the file there, and does another descriptor hold its lock? */
static bool is_held(const char *path)
{
    int fd = open(path, O_RDWR);
    bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return held;
}

/* A process holds the lock of its draft from beginning to end, also after the draft was
 * replaced. */
static void holds_its_draft(void)
{
    int count, fd;
    char records[] = "/tmp/test_forecast_XXXXXX";
    struct experiment *e = parse("\"seed\": 3", &count);
    struct report report;
    struct draft draft;
    report_init(&report);
    fd = mkstemp(records);
    CHECK(e && fd >= 0);
    draft_begin(&draft, records, e, &report);
    CHECK(draft.path && is_held(draft.path), "at first");
    for (int step = 0; step < 2 && draft.path; step++) {
        struct stat before, after;
        CHECK(stat(draft.path, &before) == 0);
        draft.due_s = 0;
        draft_step(&draft);
        CHECK(stat(draft.path, &after) == 0 && after.st_ino != before.st_ino && is_held(draft.path), "step %d", step);
    }
    char *path = draft.path ? strdup(draft.path) : NULL;
    draft_end(&draft);
    CHECK(path && access(path, F_OK) != 0, "it is left");
    free(path);
    close(fd);
    unlink(records);
    report_finish(&report);
    free(e);
}

static void durations_for_people(void)
{
    static const struct {
        double seconds;
        const char *text;
    } all[] = {{0, "0:00"},       {59.4, "0:59"},    {59.6, "1:00"},        {3599, "59:59"},
               {3600, "1:00:00"}, {7325, "2:02:05"}, {360000, "100:00:00"}, {NAN, "0:00"}};
    char text[FORMAT_BYTES];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        CHECK(strcmp(format_duration(all[i].seconds, text), all[i].text) == 0, "%g s: %s", all[i].seconds, text);
}

static const struct test_case cases[] = {
    {"one reference for all", one_reference_for_all},
    {"durations for people", durations_for_people},
    {"a draft is held by its process", holds_its_draft},
    {"a forecast follows the done experiments that are most alike", tells_from_the_most_alike},
    {"what tells nothing is left out", takes_what_tells_nothing},
    {"of a prediction the real seconds count", counts_real_seconds_of_predictions},
    {"the newest of many are asked", asks_the_newest},
    {"a sweep's identity and its different experiments", names_a_sweep},
};
TEST_MAIN(cases)
