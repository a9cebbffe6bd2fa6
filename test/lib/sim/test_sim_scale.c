/* Many ranks: time and memory stay small, and every replay gives the same bits. */
#include "lib/base/clock.h"
#include "lib/config/json.h"
#include "test/lib/sim/sim_workloads.h"

#include <sys/resource.h>

/* A step of FSDP on 4096 ranks. Generous bounds: what is bounded is that costs do not grow with the
 * square of the ranks. */
static void test_4096_ranks(void)
{
    struct sim_case c;
    struct rusage before, after;
    double start = dt_processor_clock_s();
    struct dt_sim_program *p = sim_fsdp_program(128, 40, 2 * 12 * 25600.0 * 25600.0, 0.5, true);
    getrusage(RUSAGE_SELF, &before);
    sim_case_load(&c, "gcp_a2");
    c.cluster.nodes = 512;
    c.cluster.nic.flow_gbit_per_s = 16;
    c.cluster.nic.more_nodes = 1;
    sim_case_start(&c, 4096, 0);
    sim_case_fsdp(&c, p);
    CHECK_OK(dt_sim_engine_run(c.engine));
    getrusage(RUSAGE_SELF, &after);
    CHECK(dt_processor_clock_s() - start < 30, "it took %g s", dt_processor_clock_s() - start);
    CHECK(after.ru_maxrss - before.ru_maxrss < 1 << 20, "it took %ld KiB", after.ru_maxrss - before.ru_maxrss);

    /* 384 messages of a block's bytes at a NIC's rate are a lower bound, and computing is hidden
     * behind them. */
    double wire = 384 * 2 * 12 * 25600.0 * 25600.0 * 4095 / 4096 / 2e9, end = dt_sim_engine_end_s(c.engine, -1);
    CHECK(end > wire && end < 1.1 * wire, "%g s, and the bytes alone take %g", end, wire);
    sim_case_finish(&c);
    dt_sim_program_destroy(p);
}

/* A running hash of all that a collector is told. */
static void hash_span(void *context, const struct dt_sim_span *s)
{
    uint64_t *hash = context, parts[] = {*hash, (uint64_t)s->rank, (uint64_t)s->queue, dt_hash_fnv1a(s->label, strlen(s->label)), 0, 0, 0};
    memcpy(&parts[4], &s->start_s, sizeof s->start_s);
    memcpy(&parts[5], &s->moving_s, sizeof s->moving_s);
    memcpy(&parts[6], &s->end_s, sizeof s->end_s);
    *hash = dt_hash_fnv1a(parts, sizeof parts);
}

enum { STAGES = 4, RANKS = 64 };

/* Pipelines on 8 nodes. shared: ranks of a stage have one program, else each its own, at other
 * addresses. */
static uint64_t replay(bool shared, double *end_s)
{
    struct sim_case c;
    struct dt_sim_program *programs[RANKS];
    uint64_t hash = 0;
    sim_case_load(&c, "gcp_a2");
    c.placement = (struct dt_sim_placement){.world_size = RANKS};
    CHECK_OK(dt_sim_cluster_place(&c.cluster, "cluster.json", &c.placement));
    CHECK_OK(dt_sim_network_create(&c.network));
    CHECK_OK(dt_sim_links_create(&c.cluster, &c.placement, c.network, &c.links));
    struct dt_sim_transport transport = dt_sim_links_transport(c.links);
    struct dt_sim_collector collector = {.context = &hash, .span = hash_span};
    CHECK_OK(dt_sim_engine_create(RANKS, c.network, &transport, &collector, &c.engine));
    for (int r = 0; r < (shared ? STAGES : RANKS); r++)
        programs[r] = sim_pipeline_program(r % STAGES, STAGES, 4, 6, 3e6, 25 << 20, 0.01);
    for (int r = STAGES; shared && r < RANKS; r++)
        programs[r] = programs[r % STAGES];
    for (int r = 0; r < RANKS; r++)
        CHECK(dt_sim_program_equal(programs[r], programs[r % STAGES]) &&
                  (r % STAGES == 0 || !dt_sim_program_equal(programs[r], programs[0])),
              "rank %d's program", r);
    sim_case_pipelines(&c, programs, STAGES);
    CHECK_OK(dt_sim_engine_run(c.engine));
    *end_s = dt_sim_engine_end_s(c.engine, -1);
    sim_case_finish(&c);
    for (int r = 0; r < (shared ? STAGES : RANKS); r++)
        dt_sim_program_destroy(programs[r]);
    return hash;
}

static void test_same_bits(void)
{
    double end[3];
    uint64_t first = replay(true, &end[0]);
    void *elsewhere = malloc(12345); /* so that addresses differ */
    uint64_t second = replay(true, &end[1]), apart = replay(false, &end[2]);
    free(elsewhere);
    CHECK(first != 0 && first == second && end[0] == end[1], "two replays differ: %.17g and %.17g s", end[0], end[1]);
    CHECK(first == apart && end[0] == end[2], "programs of their own: %.17g and %.17g s", end[0], end[2]);
}

/* The last stages have one chunk less to do: the ones before send what nobody receives, and are
 * sent what they do not yet receive. */
static void test_deadlock_of_many(void)
{
    struct sim_case c;
    struct dt_sim_program *programs[STAGES];
    sim_case_load(&c, "gcp_a2");
    sim_case_start(&c, RANKS, 0);
    for (int s = 0; s < STAGES; s++)
        programs[s] = sim_pipeline_program(s, STAGES, s == STAGES - 1 ? 3 : 4, 6, 3e6, 25 << 20, 0.01);
    sim_case_pipelines(&c, programs, STAGES);
    dt_status status = dt_sim_engine_run(c.engine);
    CHECK(status == DT_ERR_COMM, "%s", status_name(status));
    CHECK(strstr(dt_error_message(),
                 "deadlock: 64 of 64 ranks wait for ever: send to rank 3 on group: rank 2 waits; rank 3 is at send to rank 2") ||
              strstr(dt_error_message(),
                     "deadlock: 64 of 64 ranks wait for ever: send to rank 2 on group: rank 3 waits; rank 2 is at send to rank 3"),
          "%s", dt_error_message());
    sim_case_finish(&c);
    for (int s = 0; s < STAGES; s++)
        dt_sim_program_destroy(programs[s]);
}

static const struct test_case cases[] = {
    {"4096 ranks", test_4096_ranks},
    {"a replay is the same to the last bit, with programs shared or not", test_same_bits},
    {"a deadlock of many ranks is told", test_deadlock_of_many},
};

TEST_MAIN(cases)
