/* The replay against times worked out by hand. Transport: a collective takes 1 s, a message 1 s for
 * each byte over the one link. */
#include "lib/sim/engine_parts.h"
#include "test/check.h"

#include <stdlib.h>

struct fixture {
    struct dt_sim_network *network;
    struct dt_sim_engine *engine;
    struct dt_sim_use use;
    double compute_share, compute_slowdown; /* of collectives */
};

static dt_status one_second(void *context, const struct dt_sim_group *group, enum dt_sim_collective kind, double bytes, int root,
                            struct dt_sim_movement *out)
{
    const struct fixture *f = context;
    *out = (struct dt_sim_movement){.latency_s = 1, .compute_share = f->compute_share, .compute_slowdown = f->compute_slowdown};
    return DT_OK;
}

static dt_status by_the_link(struct fixture *f, double bytes, struct dt_sim_movement *out)
{
    *out = (struct dt_sim_movement){.flow = {.bytes = bytes, .rate_cap = INFINITY, .share = 1, .uses = &f->use, .use_count = 1}};
    return DT_OK;
}

static dt_status message(void *context, int from, int to, double bytes, struct dt_sim_movement *out)
{
    return by_the_link(context, bytes, out);
}

static dt_status copy(void *context, int rank, enum dt_sim_direction direction, double bytes, struct dt_sim_movement *out)
{
    return by_the_link(context, bytes, out);
}

static void start(struct fixture *f, int ranks, const struct dt_sim_collector *collector)
{
    struct dt_sim_transport transport = {.context = f, .collective = one_second, .message = message, .copy = copy};
    *f = (struct fixture){0};
    CHECK_OK(dt_sim_network_create(&f->network));
    f->use.weight = 1;
    CHECK_OK(dt_sim_network_add_link(f->network, 1, &f->use.link));
    CHECK_OK(dt_sim_engine_create(ranks, f->network, &transport, collector, &f->engine));
}

static void finish(struct fixture *f)
{
    dt_sim_engine_destroy(f->engine);
    dt_sim_network_destroy(f->network);
}

static struct dt_sim_program *new_program(bool coalesce, int streams, int slots)
{
    struct dt_sim_program *p = NULL;
    int number;
    CHECK_OK(dt_sim_program_create(coalesce, &p));
    for (int i = 0; i < streams; i++)
        CHECK_OK(dt_sim_program_add_stream(p, i ? "network" : "compute", &number));
    for (int i = 0; i < slots; i++)
        CHECK_OK(dt_sim_program_add_slot(p, &number));
    return p;
}

static void check_near(double value, double expected, const char *what)
{
    CHECK(fabs(value - expected) < 1e-9, "%s: %.12g, not %.12g", what, value, expected);
}

/* Kernels of 3, 1, 1 s, issued every 2 s: the host holds up the second by nothing and the third by
 * 1 s. */
static void test_host_and_stream(void)
{
    for (int coalesce = 0; coalesce < 2; coalesce++) {
        struct fixture f;
        struct dt_sim_program *p = new_program(coalesce, 1, 0);
        uint32_t done, host;
        double seconds[] = {3, 1, 1};
        start(&f, 1, NULL);
        for (int i = 0; i < 3; i++) {
            CHECK_OK(dt_sim_program_host(p, 2));
            CHECK_OK(dt_sim_program_work(p, 0, seconds[i], "kernel"));
        }
        CHECK_OK(dt_sim_program_record(p, 0, &done));
        CHECK_OK(dt_sim_program_record(p, DT_SIM_ON_HOST, &host));
        CHECK_OK(dt_sim_program_finish(p));
        CHECK(p->op_count == (coalesce ? 3 : 5), "%zu operations", p->op_count);
        CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, NULL));
        CHECK_OK(dt_sim_engine_run(f.engine));
        check_near(dt_sim_engine_event_s(f.engine, 0, done), 7, "compute");
        check_near(dt_sim_engine_event_s(f.engine, 0, host), 6, "host");
        check_near(dt_sim_engine_event_idle(f.engine, 0, done).host_s, 2, "the stream waits for its first kernel, and has no other gap");
        CHECK(isnan(dt_sim_engine_event_s(f.engine, 0, UINT32_MAX)) && dt_sim_engine_event_idle(f.engine, 0, UINT32_MAX).host_s == 0,
              "none");
        finish(&f);
        dt_sim_program_destroy(p);
    }
}

/* Random kernels and launch overheads: made one operation or not, every event comes at the same
 * time. */
static void test_coalescing_is_exact(void)
{
    enum { EVENTS = 200 };
    double at[2][EVENTS];
    for (int coalesce = 0; coalesce < 2; coalesce++) {
        struct fixture f;
        struct dt_sim_program *p = new_program(coalesce, 2, 0);
        uint32_t events[EVENTS];
        srand(7);
        start(&f, 1, NULL);
        for (int i = 0; i < EVENTS; i++) {
            for (int k = rand() % 6; k-- > 0;) {
                CHECK_OK(dt_sim_program_host(p, rand() % 100 / 64.0)); /* exact in binary: sums in any order are equal */
                CHECK_OK(dt_sim_program_work(p, rand() % 8 == 0, rand() % 100 / 64.0, NULL));
            }
            int stream = rand() % 2;
            CHECK_OK(dt_sim_program_record(p, stream, &events[i]));
            CHECK_OK(dt_sim_program_wait(p, !stream, events[i]));
        }
        CHECK_OK(dt_sim_program_finish(p));
        CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, NULL));
        CHECK_OK(dt_sim_engine_run(f.engine));
        for (int i = 0; i < EVENTS; i++)
            at[coalesce][i] = dt_sim_engine_event_s(f.engine, 0, events[i]);
        finish(&f);
        dt_sim_program_destroy(p);
    }
    for (int i = 0; i < EVENTS; i++)
        CHECK(at[0][i] == at[1][i], "event %d: %.17g and %.17g", i, at[0][i], at[1][i]);
}

/* A collective begins with the last rank and ends for all; a program is shared by ranks that come
 * at different times. */
static void test_collective(void)
{
    struct fixture f;
    int group, ranks[] = {2, 0, 1};
    uint32_t done;
    struct dt_sim_program *early = new_program(false, 2, 1), *late = new_program(false, 2, 1);
    struct dt_sim_program *programs[] = {early, early, late};
    start(&f, 3, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "data_parallel", ranks, 3, &group));
    CHECK_OK(dt_sim_program_work(late, 1, 5, NULL));
    for (int i = 0; i < 2; i++) {
        struct dt_sim_program *p = i ? late : early;
        CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_REDUCE, 100, 0, NULL));
        CHECK_OK(dt_sim_program_record(p, 1, &done));
        CHECK_OK(dt_sim_program_wait(p, 0, done));
        CHECK_OK(dt_sim_program_work(p, 0, 1, NULL));
        CHECK_OK(dt_sim_program_synchronize(p, 0));
        CHECK_OK(dt_sim_program_host(p, 0.5));
        CHECK_OK(dt_sim_program_finish(p));
    }
    for (int r = 0; r < 3; r++)
        CHECK_OK(dt_sim_engine_set_program(f.engine, r, programs[r], &group));
    CHECK_OK(dt_sim_engine_run(f.engine));
    for (int r = 0; r < 3; r++) {
        check_near(dt_sim_engine_event_s(f.engine, r, done), 6, "all_reduce");
        check_near(dt_sim_engine_end_s(f.engine, r), 7.5, "end");
    }
    finish(&f);
    dt_sim_program_destroy(early);
    dt_sim_program_destroy(late);
}

/* A collective of 1 s takes a quarter of the multiprocessors: 3 s of work beside it last 3.25 s,
 * and what waits for it loses nothing. Work is the same in pieces, whose sums are rounded. */
static void test_contention(void)
{
    enum { PIECES = 30 };
    for (int waits = 0; waits < 2; waits++) {
        struct fixture f;
        int group, rank = 0;
        uint32_t done;
        struct dt_sim_program *p = new_program(false, 2, 1);
        start(&f, 1, NULL);
        f.compute_share = 0.25;
        CHECK_OK(dt_sim_engine_add_group(f.engine, "data_parallel", &rank, 1, &group));
        for (int i = 0; i < PIECES; i++)
            CHECK_OK(dt_sim_program_work(p, 0, (waits ? 0.5 : 3.0) / PIECES, NULL));
        CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_REDUCE, 100, 0, NULL));
        CHECK_OK(dt_sim_program_record(p, 1, &done));
        CHECK_OK(dt_sim_program_wait(p, 0, done));
        CHECK_OK(dt_sim_program_work(p, 0, 1, NULL));
        CHECK_OK(dt_sim_program_finish(p));
        CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, &group));
        CHECK_OK(dt_sim_engine_run(f.engine));
        check_near(dt_sim_engine_end_s(f.engine, 0), waits ? 2 : 4.25, waits ? "work that waits" : "work beside it");
        finish(&f);
        dt_sim_program_destroy(p);
    }
}

/* Two ranks' collective of 1 s, which kernels slow by a half. Rank 1 works `beside_s` of it: it and
 * rank 0, which waits, leave it as much later as a half of that. With a quarter of the
 * multiprocessors taken besides, the work goes on for a quarter of the longer time. */
static void check_slowed(double beside_s, double share, double collective_s, double work_s)
{
    struct fixture f;
    int group, ranks[] = {0, 1};
    uint32_t left[2];
    struct dt_sim_program *p[2];
    start(&f, 2, NULL);
    f.compute_share = share;
    f.compute_slowdown = 0.5;
    CHECK_OK(dt_sim_engine_add_group(f.engine, "data_parallel", ranks, 2, &group));
    for (int r = 0; r < 2; r++) {
        p[r] = new_program(false, 2, 1);
        if (r == 1)
            CHECK_OK(dt_sim_program_work(p[r], 0, beside_s, NULL));
        CHECK_OK(dt_sim_program_collective(p[r], 1, 0, DT_SIM_ALL_REDUCE, 100, 0, NULL));
        CHECK_OK(dt_sim_program_record(p[r], 1, &left[r]));
        CHECK_OK(dt_sim_program_wait(p[r], 0, left[r]));
        CHECK_OK(dt_sim_program_finish(p[r]));
        CHECK_OK(dt_sim_engine_set_program(f.engine, r, p[r], &group));
    }
    CHECK_OK(dt_sim_engine_run(f.engine));
    for (int r = 0; r < 2; r++)
        check_near(dt_sim_engine_event_s(f.engine, r, left[r]), collective_s, "the collective");
    check_near(dt_sim_engine_end_s(f.engine, 1), work_s, "the end");
    finish(&f);
    for (int r = 0; r < 2; r++)
        dt_sim_program_destroy(p[r]);
}

static void test_slowed_by_work(void)
{
    check_slowed(0, 0, 1, 1);          /* nothing beside it */
    check_slowed(0.4, 0, 1.2, 1.2);    /* for a part of it */
    check_slowed(1, 0, 1.5, 1.5);      /* for all of it */
    check_slowed(8, 0, 1.5, 8);        /* and on: only what was beside it counts */
    check_slowed(8, 0.25, 1.5, 8.375); /* both slow each other */
}

/* The host waits for 2 s of work and 1 s of a collective before it goes on. */
static void test_whole_device(void)
{
    struct fixture f;
    int group, rank = 0;
    uint32_t after;
    struct dt_sim_program *p = new_program(false, 2, 1);
    start(&f, 1, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "data_parallel", &rank, 1, &group));
    CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_REDUCE, 100, 0, NULL));
    CHECK_OK(dt_sim_program_work(p, 0, 2, NULL));
    CHECK_OK(dt_sim_program_synchronize(p, DT_SIM_ALL_STREAMS));
    CHECK_OK(dt_sim_program_record(p, DT_SIM_ON_HOST, &after));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, &group));
    CHECK_OK(dt_sim_engine_run(f.engine));
    check_near(dt_sim_engine_event_s(f.engine, 0, after), 2, "the host after both streams");
    finish(&f);
    dt_sim_program_destroy(p);
}

/* Two messages share the link; those of a group go together, in any order. */
static void test_messages(void)
{
    struct fixture f;
    int group, ranks[] = {0, 1};
    uint32_t end[2];
    struct dt_sim_program *p[2];
    start(&f, 2, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "pair", ranks, 2, &group));
    for (int r = 0; r < 2; r++) {
        p[r] = new_program(false, 1, 1);
        CHECK_OK(dt_sim_program_group_start(p[r]));
        CHECK_OK(dt_sim_program_send(p[r], 0, 0, 1 - r, 4, NULL)); /* both send first: a deadlock without the group */
        CHECK_OK(dt_sim_program_recv(p[r], 0, 0, 1 - r, 4, NULL));
        CHECK_OK(dt_sim_program_group_end(p[r]));
        CHECK_OK(r == 0 ? dt_sim_program_send(p[r], 0, 0, 1, 2, NULL) : dt_sim_program_recv(p[r], 0, 0, 0, 2, NULL));
        CHECK_OK(dt_sim_program_record(p[r], 0, &end[r]));
        CHECK_OK(dt_sim_program_finish(p[r]));
        CHECK_OK(dt_sim_engine_set_program(f.engine, r, p[r], &group));
    }
    CHECK_OK(dt_sim_engine_run(f.engine));
    check_near(dt_sim_engine_event_s(f.engine, 0, end[0]), 10, "4 + 4 bytes together, then 2");
    check_near(dt_sim_engine_event_s(f.engine, 1, end[1]), 10, "receiver");
    finish(&f);
    dt_sim_program_destroy(p[0]);
    dt_sim_program_destroy(p[1]);
}

/* One communicator on two streams: the second call waits for the first, as NCCL has it. */
static void test_order_on_a_communicator(void)
{
    struct fixture f;
    int group, rank = 0;
    uint32_t first, second;
    struct dt_sim_program *p = new_program(false, 2, 1);
    start(&f, 1, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "world", &rank, 1, &group));
    CHECK_OK(dt_sim_program_work(p, 1, 2, NULL));
    CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_GATHER, 8, 0, NULL));
    CHECK_OK(dt_sim_program_record(p, 1, &first));
    CHECK_OK(dt_sim_program_collective(p, 0, 0, DT_SIM_REDUCE_SCATTER, 8, 0, NULL));
    CHECK_OK(dt_sim_program_record(p, 0, &second));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, &group));
    CHECK_OK(dt_sim_engine_run(f.engine));
    check_near(dt_sim_engine_event_s(f.engine, 0, first), 3, "first");
    check_near(dt_sim_engine_event_s(f.engine, 0, second), 4, "second");
    finish(&f);
    dt_sim_program_destroy(p);
}

static void check_failure(dt_status status, dt_status expected, const char *const *words)
{
    CHECK(status == expected, "%s: %s", status_name(status), dt_error_message());
    for (; *words; words++)
        CHECK(strstr(dt_error_message(), *words), "\"%s\" is not in: %s", *words, dt_error_message());
}

/* Ranks 0 to 2 reduce; rank 3 waits for a message that rank 2 would send afterwards. */
static void test_deadlock_is_told(void)
{
    struct fixture f;
    int world, pair, all[] = {0, 1, 2, 3}, two[] = {2, 3};
    struct dt_sim_program *p[4];
    start(&f, 4, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "world", all, 4, &world));
    CHECK_OK(dt_sim_engine_add_group(f.engine, "activations", two, 2, &pair));
    for (int r = 0; r < 4; r++) {
        int groups[] = {world, pair};
        p[r] = new_program(false, 1, r >= 2 ? 2 : 1);
        CHECK_OK(dt_sim_program_collective(p[r], 0, 0, DT_SIM_ALL_GATHER, 8, 0, NULL));
        if (r == 3)
            CHECK_OK(dt_sim_program_recv(p[r], 0, 1, 0, 8, NULL));
        CHECK_OK(dt_sim_program_collective(p[r], 0, 0, DT_SIM_ALL_REDUCE, 8, 0, NULL));
        if (r == 2)
            CHECK_OK(dt_sim_program_send(p[r], 0, 1, 1, 8, NULL));
        CHECK_OK(dt_sim_program_synchronize(p[r], 0));
        CHECK_OK(dt_sim_program_finish(p[r]));
        CHECK_OK(dt_sim_engine_set_program(f.engine, r, p[r], groups));
    }
    check_failure(dt_sim_engine_run(f.engine), DT_ERR_COMM,
                  (const char *const[]){"deadlock", "4 of 4 ranks", "all_reduce 2 on world", "0-2 wait", "missing are 3",
                                        "rank 3 is at recv from rank 2 on activations", NULL});
    finish(&f);
    for (int r = 0; r < 4; r++)
        dt_sim_program_destroy(p[r]);
}

static void test_mismatch_is_told(void)
{
    struct fixture f;
    int world, all[] = {0, 1};
    struct dt_sim_program *p[2];
    start(&f, 2, NULL);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "world", all, 2, &world));
    for (int r = 0; r < 2; r++) {
        p[r] = new_program(false, 1, 1);
        CHECK_OK(dt_sim_program_collective(p[r], 0, 0, r ? DT_SIM_ALL_REDUCE : DT_SIM_BROADCAST, 8, 0, NULL));
        CHECK_OK(dt_sim_program_finish(p[r]));
        CHECK_OK(dt_sim_engine_set_program(f.engine, r, p[r], &world));
    }
    check_failure(dt_sim_engine_run(f.engine), DT_ERR_COMM,
                  (const char *const[]){"collective 1 on world", "rank 0 calls broadcast", "rank 1 all_reduce", NULL});
    finish(&f);
    dt_sim_program_destroy(p[0]);
    dt_sim_program_destroy(p[1]);
}

static void test_wrong_programs_are_refused(void)
{
    struct dt_sim_program *p = new_program(false, 1, 1);
    struct fixture f;
    int group, twice[] = {0, 0}, one = 0, beyond = 4;
    start(&f, 2, NULL);
    CHECK(dt_sim_program_work(p, 3, 1, NULL) == DT_ERR_INVALID, "a stream that is not there");
    CHECK(dt_sim_program_work(p, 0, -1, NULL) == DT_ERR_INVALID, "negative work");
    CHECK(dt_sim_program_work(p, 0, NAN, NULL) == DT_ERR_INVALID, "work of NaN");
    CHECK(dt_sim_program_work(p, -1, 1, NULL) == DT_ERR_INVALID, "stream -1");
    CHECK(dt_sim_program_wait(p, 0, 0) == DT_ERR_INVALID, "an event that was never recorded");
    CHECK(dt_sim_program_send(p, 0, 1, 0, 8, NULL) == DT_ERR_INVALID, "a slot that is not there");
    CHECK(dt_sim_program_group_end(p) == DT_ERR_INVALID, "an end without a start");
    CHECK(dt_sim_engine_set_program(f.engine, 0, p, &group) == DT_ERR_INVALID, "an unfinished program");
    CHECK_OK(dt_sim_program_send(p, 0, 0, 0, 8, NULL));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK(dt_sim_program_work(p, 0, 1, NULL) == DT_ERR_INVALID, "a finished program");
    CHECK(dt_sim_engine_add_group(f.engine, "world", twice, 2, &group) == DT_ERR_INVALID, "a rank twice");
    CHECK(dt_sim_engine_add_group(f.engine, "world", &beyond, 1, &group) == DT_ERR_INVALID, "a rank beyond");
    CHECK_OK(dt_sim_engine_add_group(f.engine, "world", &one, 1, &group));
    CHECK(dt_sim_engine_set_program(f.engine, 1, p, &group) == DT_ERR_INVALID, "a rank outside of its group");
    finish(&f);
    dt_sim_program_destroy(p);
}

/* Spans that a collector receives. */
struct bars {
    char text[1024];
    size_t used;
};

static void note_span(void *context, const struct dt_sim_span *s)
{
    struct bars *b = context;
    b->used += (size_t)snprintf(b->text + b->used, sizeof b->text - b->used, "%d %s %s %g-%g\n", s->rank, s->queue_name, s->label,
                                s->start_s, s->end_s);
}

static void test_spans(void)
{
    struct bars bars = {.used = 0};
    struct dt_sim_collector collector = {.context = &bars, .span = note_span};
    struct dt_sim_program *p = new_program(false, 2, 1);
    struct fixture f;
    int group, rank = 0;
    uint32_t event;
    start(&f, 1, &collector);
    CHECK_OK(dt_sim_engine_add_group(f.engine, "world", &rank, 1, &group));
    CHECK_OK(dt_sim_program_host(p, 1));
    CHECK_OK(dt_sim_program_work(p, 0, 2, "gemm"));
    CHECK_OK(dt_sim_program_record(p, 0, &event));
    CHECK_OK(dt_sim_program_wait(p, 1, event));
    CHECK_OK(dt_sim_program_collective(p, 1, 0, DT_SIM_ALL_REDUCE, 8, 0, NULL));
    CHECK_OK(dt_sim_program_copy(p, 1, DT_SIM_TO_HOST, 8, "offload"));
    CHECK_OK(dt_sim_program_finish(p));
    CHECK_OK(dt_sim_engine_set_program(f.engine, 0, p, &group));
    CHECK_OK(dt_sim_engine_run(f.engine));
    CHECK(strcmp(bars.text, "0 host gemm 0-1\n0 compute gemm 1-3\n0 network all_reduce 3-4\n0 network offload 4-12\n") == 0, "%s",
          bars.text);
    CHECK(f.engine->operations == 5, "%d operations", (int)f.engine->operations);
    finish(&f);
    dt_sim_program_destroy(p);
}

/* Each operation keeps its text among many others, and each text is stored once. */
static void test_labels(void)
{
    enum { LABELS = 3 * DT_SIM_LABEL_PLACES };
    struct dt_sim_program *p = NULL;
    int stream;
    char label[32];
    CHECK_OK(dt_sim_program_create(false, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "compute", &stream));
    for (int i = 0; i < 2 * LABELS; i++) {
        snprintf(label, sizeof label, "kernel %d", i % LABELS);
        CHECK_OK(dt_sim_program_work(p, stream, 1, label));
    }
    CHECK(p->op_count == 2 * LABELS && p->label_count == LABELS + 1, "%u texts", p->label_count);
    for (int i = 0; i < 2 * LABELS; i++) {
        snprintf(label, sizeof label, "kernel %d", i % LABELS);
        CHECK(strcmp(p->labels[p->ops[i].label], label) == 0, "%s instead of %s", p->labels[p->ops[i].label], label);
    }
    dt_sim_program_destroy(p);
}

static const struct test_case cases[] = {
    {"labels", test_labels},
    {"host and stream clocks", test_host_and_stream},
    {"consecutive work made one operation gives the same times", test_coalescing_is_exact},
    {"a collective begins with its last rank and ends for all", test_collective},
    {"a collective slows down the work beside it", test_contention},
    {"work slows down the collective beside it", test_slowed_by_work},
    {"the host waits for the whole device", test_whole_device},
    {"messages meet, share a link, and go together in a group", test_messages},
    {"operations of a communicator keep their order over streams", test_order_on_a_communicator},
    {"a deadlock is told with ranks and operations", test_deadlock_is_told},
    {"ranks that call different collectives are told", test_mismatch_is_told},
    {"programs and communicators that cannot be are refused", test_wrong_programs_are_refused},
    {"a collector sees each queue's bars", test_spans},
};

TEST_MAIN(cases)
