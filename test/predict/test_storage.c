/* The time that storage adds to a simulated training. */
#include "schedules/checkpoint/checkpoint.h"
#include "schedules/run/training_time.h"
#include "test/predict/simulation_case.h"

static struct dt_metrics training_of(const char *keys, double read, double write, double total, struct experiment *out)
{
    struct simulated_system *system;
    struct measure_result result;
    struct experiment *e = experiment_of(keys);
    CHECK_OK(simulated_system_create(e, &system));
    system->cluster.storage.read_gb_per_s = read;
    system->cluster.storage.write_gb_per_s = write;
    system->cluster.storage.total_read_gb_per_s = system->cluster.storage.total_write_gb_per_s = total;
    system->cluster.pcie.gb_per_s = 1e6;
    run(e, system, &result);
    struct dt_metrics metrics = result.metrics;
    double seconds = 0;
    for (int i = 0; i < result.steps_done; i++)
        seconds += result.step_s[i];
    CHECK(metrics.steps_s > 1.2 * seconds && metrics.steps_s < 1.6 * seconds, "with warm-up %g, without %g", metrics.steps_s, seconds);
    measure_result_finish(&result);
    simulated_system_destroy(system);
    *out = *e;
    free(e);
    return metrics;
}

static bool near(double value, double expected)
{
    return fabs(value - expected) <= 1e-4 * expected;
}

/* Each byte is saved once, however the work is divided, whether nodes write in turn or together. */
static void every_byte_is_saved_once(void)
{
    char keys[512];
    struct experiment e;
    for (int d = 0; d < DIVISIONS; d++) {
        snprintf(keys, sizeof keys, "\"checkpoint\": {\"path\": \"c\", \"save_every\": 3}, %s", divisions[d]);
        struct dt_metrics m = training_of(keys, 1, 1e6, 1, &e);
        double whole_s = 1e-9 * (double)checkpoint_bytes(&e);
        CHECK(m.saves == 2 && near(m.save_s, 2 * whole_s), "%s: %g s for %g saves, not %g", divisions[d], m.save_s, m.saves, whole_s);
        CHECK(m.checkpoint_bytes == (double)checkpoint_bytes(&e) && isnan(m.load_s) && near(m.training_s, m.steps_s + m.save_s));
    }
}

/* Two nodes: of replicas the first node saves all, of shards each node half. Both read all that
 * their ranks hold. */
static void nodes_save_and_load_side_by_side(void)
{
    static const struct {
        int division;
        double saved, loaded;
    } parts[] = {{0, 1, 1}, {2, 0.5, 0.5}, {3, 1, 1}};
    char keys[512];
    struct experiment e;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(keys, sizeof keys, "\"checkpoint\": {\"path\": \"c\", \"from\": \"d\"}, %s", divisions[parts[i].division]);
        struct dt_metrics m = training_of(keys, 4, 2, 0, &e);
        double whole_s = 1e-9 * (double)checkpoint_bytes(&e);
        CHECK(near(m.save_s, parts[i].saved * whole_s / 2), "%s: saves %g s", divisions[parts[i].division], m.save_s);
        CHECK(near(m.load_s, parts[i].loaded * whole_s / 4), "%s: loads %g s", divisions[parts[i].division], m.load_s);
    }
}

static void a_step_waits_for_slow_storage(void)
{
    struct experiment e;
    struct dt_metrics m =
        training_of("\"data\": {\"source\": \"ids\"}, \"world_size\": 16, \"paradigm\": \"ddp\", \"batch_size\": 4, " TINY, 1e-6, 1, 0, &e);
    double read_s = 8 * 4 * 32 * 2 / 1e3; /* a node's samples, with 32 ids each */
    CHECK(near(m.steps_s, 4 * read_s), "%g, not %g", m.steps_s, 4 * read_s);
    CHECK(m.step.data_s > 0.9 * read_s && near(m.reading_s, 4 * m.step.data_s));
}

/* Five saves in 50 steps of 2 s: what is written in 6 s is hidden, of 30 s a third waits for the
 * next one. */
static void saves_beside_the_steps(void)
{
    struct experiment *e = experiment_of("\"checkpoint\": {\"path\": \"c\", \"save_every\": 10, \"asynchronous\": true}, " TINY);
    struct storage_times times = {.copy_s = 1, .write_s = 6, .save_s = 7};
    struct dt_metrics m;
    training_time_predict(e, &times, 50, 100, &m);
    CHECK(m.saves == 5 && m.save_s == 4 * 1 + 7 && m.training_s == 111, "%g", m.save_s);
    times.write_s = 30;
    times.save_s = 31;
    training_time_predict(e, &times, 50, 100, &m);
    CHECK(m.save_s == 4 * 1 + 4 * 10 + 31, "%g", m.save_s);
    training_time_predict(e, &times, 53, 106, &m); /* three steps after the fifth, 6 s of its 30 are hidden */
    CHECK(m.saves == 6 && m.save_s == 5 * 1 + 4 * 10 + 24 + 31, "%g", m.save_s);
    times.beside = 0.25; /* half of each copy */
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.save_s == 5 * 0.5 + 4 * 10 + 24 + 31, "%g", m.save_s);
    e->checkpoint.asynchronous = false;
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.save_s == 6 * 31 && m.training_s == 106 + 6 * 31);
    e->checkpoint.save_every = 0;
    training_time_predict(e, &times, 53, 106, &m);
    CHECK(m.saves == 1 && m.save_s == 31);
    free(e);
}

static const struct test_case cases[] = {
    {"every byte is saved once", every_byte_is_saved_once},
    {"nodes save and load side by side", nodes_save_and_load_side_by_side},
    {"a step waits for slow storage", a_step_waits_for_slow_storage},
    {"saves beside the steps", saves_beside_the_steps},
};
TEST_MAIN(cases)
