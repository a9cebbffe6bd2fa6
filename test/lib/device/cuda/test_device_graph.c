/* Graphs, on every kind of device that has them; skipped with the reason where there is none. */
#include "lib/device/device.h"
#include "test/check.h"

#include <stdint.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, COUNT = BYTES / 4 };

static struct dt_device *device;
static struct dt_stream *compute, *network, *copies;
static uint32_t host[COUNT];

static bool begin(void)
{
    dt_status status = dt_device_create("cuda", NULL, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    CHECK_OK(dt_stream_create(device, "compute", &compute));
    CHECK_OK(dt_stream_create(device, "network", &network));
    CHECK_OK(dt_stream_create(device, "copies", &copies));
    CHECK(dt_device_captures(device));
    return true;
}

static void end(void)
{
    dt_stream_destroy(compute);
    dt_stream_destroy(network);
    dt_stream_destroy(copies);
    dt_device_destroy(device);
}

static struct dt_buffer allocate(struct dt_stream *stream)
{
    struct dt_buffer buffer;
    CHECK_OK(dt_alloc(stream, DT_WORKSPACE, BYTES, &buffer));
    return buffer;
}

/* All elements of `to`, now. */
static void write_values(const struct dt_buffer *to, uint32_t value)
{
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    CHECK_OK(dt_copy_from_host(compute, to->data, host, BYTES));
    CHECK_OK(dt_stream_synchronize(compute));
}

/* The value of all elements of `from`, once `stream` has passed; UINT32_MAX when they differ. */
static uint32_t read_values(struct dt_stream *stream, const struct dt_buffer *from)
{
    memset(host, 0x55, BYTES);
    CHECK_OK(dt_copy_to_host(stream, host, from->data, BYTES));
    CHECK_OK(dt_stream_synchronize(stream));
    for (int i = 1; i < COUNT; i++) {
        if (host[i] != host[0])
            return UINT32_MAX;
    }
    return host[0];
}

static void a_replay_sees_memory_as_it_is_then(void)
{
    struct dt_graph *graph;
    if (!begin())
        return;
    struct dt_buffer from = allocate(compute), to = allocate(compute);
    write_values(&from, 1);
    write_values(&to, 9);
    CHECK_OK(dt_graph_begin(compute));
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    CHECK(dt_graph_begin(network) == DT_ERR_INVALID && dt_stream_synchronize(compute) == DT_ERR_INVALID);
    CHECK(dt_graph_end(network, &graph) == DT_ERR_INVALID && !graph, "it began on another stream");
    CHECK_OK(dt_graph_end(compute, &graph));
    CHECK(read_values(compute, &to) == 1, "the end queues the work once");
    for (uint32_t value = 2; value < 5; value++) {
        write_values(&from, value);
        CHECK(read_values(network, &to) == value - 1);
        CHECK_OK(dt_graph_launch(graph, value % 2 ? compute : network));
        CHECK(read_values(copies, &to) == value, "every stream comes after the launch");
    }
    dt_graph_destroy(graph);
    dt_free(compute, &from);
    dt_free(compute, &to);
    end();
}

/* A chain over three streams and back, with a temporary that is freed on another stream than it
 * came from. */
static void queue_chain(struct dt_event *events[2], const struct dt_buffer *from, const struct dt_buffer *to, void **temporary)
{
    struct dt_buffer between = allocate(compute), late;
    *temporary = between.data;
    CHECK_OK(dt_copy(compute, between.data, from->data, BYTES));
    CHECK_OK(dt_event_record(events[0], compute));
    CHECK_OK(dt_zero(compute, from->data, BYTES));
    CHECK_OK(dt_stream_wait(network, events[0]));
    late = allocate(network);
    CHECK_OK(dt_copy(network, late.data, between.data, BYTES));
    dt_free(network, &between);
    CHECK_OK(dt_event_record(events[1], network));
    CHECK_OK(dt_stream_wait(copies, events[1]));
    CHECK_OK(dt_copy(copies, to->data, late.data, BYTES));
    dt_free(copies, &late);
    CHECK_OK(dt_event_record(events[0], copies));
    CHECK_OK(dt_stream_wait(compute, events[0]));
    struct dt_buffer again = allocate(compute); /* memory of the others': their work in this capture is waited for */
    CHECK_OK(dt_zero(compute, again.data, BYTES));
    dt_free(compute, &again);
}

static void streams_fork_and_join_within(void)
{
    struct dt_graph *graph;
    struct dt_event *events[2], *before;
    void *first, *captured;
    if (!begin())
        return;
    CHECK_OK(dt_event_create(device, &events[0]));
    CHECK_OK(dt_event_create_timed(device, &events[1])); /* orders like the others */
    CHECK_OK(dt_event_create(device, &before));
    struct dt_buffer from = allocate(compute), to = allocate(compute);
    for (uint32_t step = 1; step <= 2; step++) { /* as they are without a graph; addresses repeat from the second on */
        write_values(&from, step);
        queue_chain(events, &from, &to, &first);
        CHECK(read_values(compute, &to) == step);
    }
    write_values(&from, 3);
    CHECK_OK(dt_event_record(before, network));
    CHECK_OK(dt_graph_begin(compute));
    CHECK_OK(dt_stream_wait(compute, before)); /* passed already */
    queue_chain(events, &from, &to, &captured);
    CHECK(captured == first);
    CHECK_OK(dt_graph_end(compute, &graph));
    CHECK(read_values(network, &to) == 3);
    for (uint32_t step = 4; step < 8; step++) {
        write_values(&from, step);
        CHECK_OK(dt_graph_launch(graph, compute));
        CHECK_OK(dt_stream_wait(network, events[0])); /* recorded in the capture: passed where the graph ends */
        CHECK(read_values(network, &to) == step && read_values(copies, &from) == 0);
    }
    write_values(&from, 8);
    queue_chain(events, &from, &to, &first);
    CHECK(read_values(compute, &to) == 8 && first == captured, "and without a graph again");
    dt_graph_destroy(graph);
    for (int i = 0; i < 2; i++)
        dt_event_destroy(events[i]);
    dt_event_destroy(before);
    end();
}

static void other_memory_is_refused(void)
{
    struct dt_graph *graph, *good;
    if (!begin())
        return;
    struct dt_buffer from = allocate(compute), to = allocate(compute), kept, freed = allocate(compute);
    write_values(&from, 1);
    CHECK_OK(dt_graph_begin(compute));
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    kept = allocate(compute);
    CHECK_OK(dt_copy(compute, kept.data, from.data, BYTES));
    CHECK(dt_graph_end(compute, &graph) == DT_ERR_INVALID && !graph);
    CHECK(strstr(dt_error_message(), "other memory"), "%s", dt_error_message());
    CHECK(read_values(compute, &to) == 1 && read_values(network, &kept) == 1, "the work is done all the same");

    CHECK_OK(dt_graph_begin(compute));
    dt_free(compute, &freed);
    CHECK(dt_graph_end(compute, &graph) == DT_ERR_INVALID && !graph);

    CHECK_OK(dt_graph_begin(network));
    struct dt_buffer temporary = allocate(network);
    CHECK_OK(dt_copy(network, temporary.data, from.data, BYTES));
    CHECK_OK(dt_copy(network, to.data, temporary.data, BYTES));
    dt_free(network, &temporary);
    CHECK_OK(dt_graph_end(network, &good));
    write_values(&from, 2);
    struct dt_buffer more = allocate(compute); /* may lie where the graph's temporary does */
    CHECK(dt_graph_launch(good, compute) == DT_ERR_INVALID);
    dt_free(compute, &more);
    CHECK_OK(dt_graph_launch(good, compute));
    CHECK(read_values(compute, &to) == 2);
    dt_graph_destroy(good);
    end();
}

static void what_is_thrown_away_never_runs(void)
{
    struct dt_graph *graph = NULL;
    if (!begin())
        return;
    struct dt_buffer from = allocate(compute), to = allocate(compute);
    write_values(&from, 1);
    write_values(&to, 2);
    CHECK_OK(dt_graph_begin(compute));
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    CHECK_OK(dt_copy_from_host(network, to.data, host, BYTES));
    dt_free(compute, &from);
    CHECK_OK(dt_graph_end(compute, NULL));
    CHECK(read_values(compute, &to) == 2);
    from = allocate(network);
    write_values(&from, 3);
    CHECK_OK(dt_graph_begin(compute)); /* and again with a graph */
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    CHECK_OK(dt_graph_end(compute, &graph));
    CHECK(read_values(compute, &to) == 3);
    dt_graph_destroy(graph);
    CHECK_OK(dt_graph_begin(compute)); /* destroying the streams ends it */
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    end();
}

static void timed_events_tell_each_launchs_times(void)
{
    struct dt_graph *graph;
    struct dt_event *marks[3], *outside;
    int64_t ns[3];
    if (!begin())
        return;
    for (int i = 0; i < 3; i++)
        CHECK_OK(dt_event_create_timed(device, &marks[i]));
    CHECK_OK(dt_event_create_timed(device, &outside));
    struct dt_buffer from = allocate(compute), to = allocate(compute);
    write_values(&from, 1);
    CHECK_OK(dt_event_record(outside, compute));
    CHECK_OK(dt_graph_begin(compute));
    CHECK(dt_event_elapsed_ns(outside, outside, &ns[0]) == DT_ERR_INVALID, "not while capturing");
    CHECK_OK(dt_event_record(marks[0], compute));
    CHECK_OK(dt_copy(compute, to.data, from.data, BYTES));
    CHECK_OK(dt_event_record(marks[1], compute));
    CHECK_OK(dt_stream_wait(network, marks[1]));
    CHECK_OK(dt_copy(network, to.data, from.data, BYTES));
    CHECK_OK(dt_event_record(marks[2], network));
    CHECK_OK(dt_graph_end(compute, &graph));
    CHECK_OK(dt_stream_synchronize(network));
    int64_t last_ns = 0;
    for (int launch = 0; launch < 3; launch++) {
        CHECK_OK(dt_event_elapsed_ns(outside, marks[0], &ns[0]));
        CHECK_OK(dt_event_elapsed_ns(marks[0], marks[1], &ns[1]));
        CHECK_OK(dt_event_elapsed_ns(marks[1], marks[2], &ns[2]));
        CHECK(ns[0] > last_ns && ns[1] > 0 && ns[2] > 0, "%lld %lld %lld", (long long)ns[0], (long long)ns[1], (long long)ns[2]);
        last_ns = ns[0] + ns[1] + ns[2];
        CHECK_OK(dt_graph_launch(graph, compute));
        CHECK_OK(dt_stream_synchronize(compute));
    }
    dt_graph_destroy(graph);
    for (int i = 0; i < 3; i++)
        dt_event_destroy(marks[i]);
    dt_event_destroy(outside);
    end();
}

static void peaks_count_as_without_a_graph(void)
{
    struct dt_graph *graph;
    struct dt_memory_usage usage;
    if (!begin())
        return;
    struct dt_buffer kept = allocate(compute), temporary, on_host;
    CHECK_OK(dt_graph_begin(compute));
    CHECK_OK(dt_alloc(compute, DT_ACTIVATIONS, 3 * BYTES, &temporary));
    CHECK_OK(dt_alloc_host(copies, DT_OPTIMIZER, BYTES, &on_host));
    CHECK_OK(dt_zero(compute, temporary.data, temporary.bytes));
    dt_free(copies, &on_host);
    dt_free(compute, &temporary);
    CHECK_OK(dt_graph_end(compute, &graph));
    for (int launch = 0; launch < 2; launch++) {
        dt_memory_usage(device, &usage);
        CHECK(usage.device.peak_total_bytes == 4 * BYTES && usage.device.peak_bytes[DT_ACTIVATIONS] == 3 * BYTES);
        CHECK(usage.host.peak_bytes[DT_OPTIMIZER] == BYTES && usage.device.current_total_bytes == BYTES);
        dt_memory_reset_peak(device);
        dt_memory_usage(device, &usage);
        CHECK(usage.device.peak_total_bytes == BYTES && usage.host.peak_total_bytes == 0);
        CHECK_OK(dt_graph_launch(graph, compute));
    }
    CHECK_OK(dt_stream_synchronize(compute));
    dt_graph_destroy(graph);
    dt_free(compute, &kept);
    end();
}

static const struct test_case cases[] = {
    {"a replay sees memory as it is then", a_replay_sees_memory_as_it_is_then},
    {"streams fork and join within a graph", streams_fork_and_join_within},
    {"other memory than at the begin is refused", other_memory_is_refused},
    {"what is thrown away never runs", what_is_thrown_away_never_runs},
    {"timed events tell each launch's times", timed_events_tell_each_launchs_times},
    {"peaks of memory count as without a graph", peaks_count_as_without_a_graph},
};
TEST_MAIN(cases)
