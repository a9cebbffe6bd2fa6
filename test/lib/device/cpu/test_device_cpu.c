/* In which order the cpu device works: tasks, events and failures. */
#include "test/lib/device/cpu_streams.h"

/* Tasks */

struct step {
    int *log, *length; /* the log is ordered like the tasks */
    int value;
    long sleep_us;
};

static dt_status run_step(void *arguments)
{
    const struct step *a = arguments;
    if (a->sleep_us)
        sleep_us(a->sleep_us);
    a->log[(*a->length)++] = a->value;
    return DT_OK;
}

static dt_status run_failure(void *arguments)
{
    return dt_fail(DT_ERR_COMM, "rank %d is gone", *(int *)arguments);
}

static void submit_step(struct dt_stream *stream, int *log, int *length, int value, long us)
{
    struct step a = {log, length, value, us};
    CHECK_OK(dt_cpu_submit(stream, "step", run_step, &a, sizeof a));
}

static void submit_failure(struct dt_stream *stream, int rank)
{
    CHECK_OK(dt_cpu_submit(stream, "gather", run_failure, &rank, sizeof rank));
}

static void a_stream_keeps_its_order(void)
{
    enum { COUNT = 20000 }; /* several times the queue */
    static int log[COUNT];
    int length = 0;
    begin();
    for (int i = 0; i < COUNT; i++)
        submit_step(streams[0], log, &length, i, i % 4096 == 0 ? 2000 : 0);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(length == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(log[i] == i, "%d at %d", log[i], i);
    char big[DT_CPU_ARGUMENT_BYTES + 1] = "";
    CHECK(dt_cpu_submit(streams[0], "big", run_step, big, sizeof big) == DT_ERR_INVALID);
    CHECK(dt_cpu_threads(device) == 1);
    end();
}

static void events_order_streams(void)
{
    enum { ROUNDS = 300 };
    static int log[2 * ROUNDS];
    int length = 0;
    struct dt_event *there, *back;
    begin();
    CHECK_OK(dt_event_create(device, &there));
    CHECK_OK(dt_event_create(device, &back));
    for (int i = 0; i < ROUNDS; i++) { /* both events are recorded again while earlier records are still queued */
        submit_step(streams[0], log, &length, 2 * i, i % 50 ? 0 : 1000);
        CHECK_OK(dt_event_record(there, streams[0]));
        CHECK_OK(dt_stream_wait(streams[1], there));
        submit_step(streams[1], log, &length, 2 * i + 1, i % 70 ? 0 : 1000);
        CHECK_OK(dt_event_record(back, streams[1]));
        CHECK_OK(dt_stream_wait(streams[0], back));
    }
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(length == 2 * ROUNDS);
    for (int i = 0; i < 2 * ROUNDS; i++)
        CHECK(log[i] == i, "%d at %d", log[i], i);
    dt_event_destroy(there);
    dt_event_destroy(back);
    end();
}

/* A wait is for the last record before it, not for a later one, which is behind the gate. */
static void a_wait_means_the_record_before_it(void)
{
    struct gate gate = {0};
    struct dt_event *event;
    int64_t ns;
    begin();
    CHECK_OK(dt_event_create_timed(device, &event));
    CHECK_OK(dt_event_record(event, streams[0]));
    CHECK_OK(dt_stream_wait(streams[1], event));
    submit_gate(streams[0], &gate);
    CHECK_OK(dt_event_record(event, streams[0]));
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(dt_event_elapsed_ns(event, event, &ns) == DT_ERR_INVALID, "the last mark is still ahead");
    atomic_store(&gate.open, 1);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK_OK(dt_event_elapsed_ns(event, event, &ns));
    dt_event_destroy(event);
    end();
}

static void elapsed_is_the_streams_time(void)
{
    struct dt_event *start, *stop;
    int log[1], length = 0;
    int64_t ns, back_ns;
    begin();
    CHECK_OK(dt_event_create_timed(device, &start));
    CHECK_OK(dt_event_create_timed(device, &stop));
    CHECK_OK(dt_event_record(start, streams[0]));
    submit_step(streams[0], log, &length, 0, 20000);
    CHECK_OK(dt_event_record(stop, streams[0]));
    sleep_us(60000); /* the host's delay does not count as the stream's time */
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK_OK(dt_event_elapsed_ns(start, stop, &ns));
    CHECK_OK(dt_event_elapsed_ns(stop, start, &back_ns));
    CHECK(ns >= 20000000 && ns < 1000000000 && back_ns == -ns, "%lld ns", (long long)ns);
    dt_event_destroy(start);
    dt_event_destroy(stop);
    end();
}

/* Failures */

static void a_failure_skips_what_follows(void)
{
    int log[8], length = 0;
    struct dt_event *event;
    begin();
    CHECK_OK(dt_event_create_timed(device, &event));
    submit_step(streams[0], log, &length, 1, 0);
    submit_failure(streams[0], 3);
    submit_step(streams[0], log, &length, 2, 0);
    submit_failure(streams[0], 4);
    CHECK_OK(dt_event_record(event, streams[0]));
    CHECK(dt_stream_synchronize(streams[0]) == DT_ERR_COMM);
    CHECK(strstr(dt_error_message(), "rank 3 is gone") && strstr(dt_error_message(), "gather (stream compute)"), "%s", dt_error_message());
    CHECK(length == 1);
    int64_t ns;
    CHECK_OK(dt_event_elapsed_ns(event, event, &ns)); /* marks pass all the same */
    CHECK_OK(dt_stream_synchronize(streams[0]));      /* told once */
    submit_step(streams[0], log, &length, 5, 0);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(length == 2 && log[1] == 5);
    dt_event_destroy(event);
    end();
}

static void a_failure_is_inherited_through_events(void)
{
    int log[8], length = 0;
    struct gate gate = {0};
    struct dt_event *before, *after, *third;
    begin();
    CHECK_OK(dt_event_create(device, &before));
    CHECK_OK(dt_event_create(device, &after));
    CHECK_OK(dt_event_create(device, &third));
    CHECK_OK(dt_event_record(before, streams[0]));
    submit_failure(streams[0], 7);
    CHECK_OK(dt_event_record(after, streams[0]));
    CHECK_OK(dt_stream_wait(streams[1], before));
    submit_step(streams[1], log, &length, 1, 0);
    CHECK_OK(dt_stream_synchronize(streams[1])); /* what came before the failure is good */
    submit_gate(streams[1], &gate);
    CHECK_OK(dt_stream_wait(streams[1], after));
    submit_step(streams[1], log, &length, 2, 0);
    CHECK_OK(dt_event_record(third, streams[1]));
    CHECK_OK(dt_stream_wait(streams[2], third));
    submit_step(streams[2], log, &length, 3, 0);
    CHECK(dt_stream_synchronize(streams[0]) == DT_ERR_COMM);
    atomic_store(&gate.open, 1); /* only now does the wait run: a reported failure still counts for what was queued before */
    CHECK(dt_stream_synchronize(streams[2]) == DT_ERR_COMM && strstr(dt_error_message(), "rank 7 is gone"), "%s", dt_error_message());
    CHECK(dt_stream_synchronize(streams[1]) == DT_ERR_COMM);
    CHECK(length == 1);
    for (int i = 0; i < STREAMS; i++) { /* all failures were reported: start again */
        CHECK_OK(dt_stream_wait(streams[i], after));
        CHECK_OK(dt_stream_wait(streams[i], third));
        submit_step(streams[i], log, &length, 4, 0);
        CHECK_OK(dt_stream_synchronize(streams[i]));
    }
    CHECK(length == 4);
    dt_event_destroy(before);
    dt_event_destroy(after);
    dt_event_destroy(third);
    end();
}

static bool has_passed(const struct dt_event *event)
{
    int64_t ns;
    return dt_event_elapsed_ns(event, event, &ns) == DT_OK;
}

/* Both streams are held up by gates until everything is queued and the source has failed. */
static void only_the_first_failure_counts_and_only_what_follows_it(void)
{
    int log[8], length = 0;
    struct gate gates[2] = {{0}, {0}};
    struct dt_event *before, *after;
    begin();
    CHECK_OK(dt_event_create(device, &before));
    CHECK_OK(dt_event_create_timed(device, &after));
    CHECK_OK(dt_event_record(before, streams[0]));
    submit_failure(streams[0], 1);
    CHECK_OK(dt_event_record(after, streams[0]));
    submit_gate(streams[1], &gates[0]);
    CHECK_OK(dt_stream_wait(streams[1], before));
    submit_step(streams[1], log, &length, 1, 0);
    submit_gate(streams[2], &gates[1]);
    submit_failure(streams[2], 2);
    CHECK_OK(dt_stream_wait(streams[2], after));
    while (!has_passed(after))
        sleep_us(100);
    atomic_store(&gates[0].open, 1);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(length == 1, "the mark before the failure is good although the failure was there first");
    atomic_store(&gates[1].open, 1);
    CHECK(dt_stream_synchronize(streams[2]) == DT_ERR_COMM && strstr(dt_error_message(), "rank 2"), "%s", dt_error_message());
    CHECK(dt_stream_synchronize(streams[0]) == DT_ERR_COMM && strstr(dt_error_message(), "rank 1"), "%s", dt_error_message());
    dt_event_destroy(before);
    dt_event_destroy(after);
    end();
}

static void destroying_waits_for_the_queue(void)
{
    int log[64], length = 0;
    struct dt_event *event;
    begin();
    CHECK_OK(dt_event_create_timed(device, &event));
    for (int i = 0; i < 64; i++)
        submit_step(streams[2], log, &length, i, 100);
    CHECK_OK(dt_event_record(event, streams[2]));
    dt_event_destroy(event);
    CHECK(length == 64);
    submit_failure(streams[2], 1);
    end();
}

static const struct test_case cases[] = {
    {"a stream keeps its order, also past its queue's length", a_stream_keeps_its_order},
    {"events order streams", events_order_streams},
    {"a wait means the record before it", a_wait_means_the_record_before_it},
    {"elapsed is the stream's time", elapsed_is_the_streams_time},
    {"a failure skips what follows and is told once", a_failure_skips_what_follows},
    {"a failure is inherited through events", a_failure_is_inherited_through_events},
    {"only the first failure counts, and only for what follows it", only_the_first_failure_counts_and_only_what_follows_it},
    {"destroying waits for the queue", destroying_waits_for_the_queue},
};
TEST_MAIN(cases)
