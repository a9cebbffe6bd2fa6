/* Reuse of the cuda device's memory between streams. */
#include "test/lib/device/cuda_streams.h"

#include <stdlib.h>

struct pattern {
    uint32_t *data;
    size_t count;
    uint32_t value;
    long sleep_us;
};

static dt_status run_write(void *arguments)
{
    const struct pattern *a = arguments;
    if (a->sleep_us)
        sleep_us(a->sleep_us);
    for (size_t i = 0; i < a->count; i++)
        a->data[i] = a->value;
    return DT_OK;
}

static dt_status run_check(void *arguments)
{
    const struct pattern *a = arguments;
    for (size_t i = 0; i < a->count; i++) {
        if (a->data[i] != a->value)
            return dt_fail(DT_ERR_DEVICE, "element %zu of %zu is %u, not %u", i, a->count, a->data[i], a->value);
    }
    return DT_OK;
}

/* Buffers of host memory are written on one stream and checked on another before they are freed
 * there; through device memory meanwhile. Memory that is reused too early would have another
 * buffer's value. */
static void reuse_never_overlaps_live_data(void)
{
    enum { SLOTS = 16, ROUNDS = 1500 };
    static const size_t sizes[] = {256, 4096, 60000, 65536, 600000};
    struct {
        struct dt_buffer host, on_device;
        struct dt_event *written;
        uint32_t value;
    } slots[SLOTS] = {0};
    if (!begin())
        return;
    dt_cuda_stream_exchanges(streams[2]);
    srand(5);
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(dt_event_create(device, &slots[i].written));
    for (int i = 0; i < ROUNDS; i++) {
        struct dt_stream *stream = streams[rand() % STREAMS];
        int at = rand() % SLOTS;
        long pause_us = rand() % 40 == 0 ? 300 : 0;
        struct dt_buffer *host = &slots[at].host, *on_device = &slots[at].on_device;
        struct pattern a = {host->data, host->bytes / 4, slots[at].value, 0};
        if (host->data) {
            CHECK_OK(dt_stream_wait(stream, slots[at].written));
            CHECK_OK(dt_cuda_submit_host(stream, "check", run_check, &a, sizeof a));
            CHECK_OK(dt_copy_to_host(stream, host->data, on_device->data, host->bytes));
            CHECK_OK(dt_cuda_submit_host(stream, "check of the device's", run_check, &a, sizeof a));
            dt_free(stream, host);
            dt_free(stream, on_device);
        } else {
            size_t bytes = sizes[(size_t)rand() % (sizeof sizes / sizeof sizes[0])];
            slots[at].value = (uint32_t)i;
            CHECK_OK(dt_alloc_host(stream, DT_WORKSPACE, bytes, host));
            CHECK_OK(dt_alloc(stream, DT_WORKSPACE, bytes, on_device));
            a = (struct pattern){host->data, bytes / 4, slots[at].value, pause_us};
            CHECK_OK(dt_cuda_submit_host(stream, "write", run_write, &a, sizeof a));
            CHECK_OK(dt_copy_from_host(stream, on_device->data, host->data, bytes));
            CHECK_OK(dt_event_record(slots[at].written, stream));
        }
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_synchronize(streams[i]));
    for (int i = 0; i < SLOTS; i++)
        dt_event_destroy(slots[i].written);
    end(); /* the device frees the rest */
}

/* A buffer that has a segment to itself, so that a second one of its size is the same memory. */
enum { WHOLE_BYTES = 20 << 20 };

static void submit_write(struct dt_stream *stream, const struct dt_buffer *to, uint32_t value, long pause_us)
{
    struct pattern a = {to->data, 1024, value, pause_us};
    CHECK_OK(dt_cuda_submit_host(stream, "write", run_write, &a, sizeof a));
}

static void submit_check(struct dt_stream *stream, const struct dt_buffer *of, uint32_t value)
{
    struct pattern a = {of->data, 1024, value, 0};
    CHECK_OK(dt_cuda_submit_host(stream, "check", run_check, &a, sizeof a));
}

static void another_streams_memory_is_waited_for(void)
{
    struct dt_buffer a, b;
    if (!begin())
        return;
    CHECK_OK(dt_alloc_host(streams[0], DT_WORKSPACE, WHOLE_BYTES, &a));
    void *first = a.data;
    submit_write(streams[0], &a, 1, 20000);
    dt_free(streams[0], &a);
    CHECK_OK(dt_alloc_host(streams[1], DT_WORKSPACE, WHOLE_BYTES, &b));
    CHECK(b.data == first);
    submit_write(streams[1], &b, 2, 0);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    submit_check(streams[1], &b, 2);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    dt_free(streams[1], &b);
    end();
}

/* Memory freed in an abandoned capture, on a stream whose wait for the last use never ran. */
static void memory_freed_in_vain_is_waited_for(void)
{
    struct dt_buffer a, b;
    struct dt_event *used;
    if (!begin())
        return;
    CHECK_OK(dt_event_create(device, &used));
    CHECK_OK(dt_alloc_host(streams[1], DT_WORKSPACE, WHOLE_BYTES, &a));
    void *first = a.data;
    submit_write(streams[1], &a, 1, 20000);
    CHECK_OK(dt_event_record(used, streams[1]));
    CHECK_OK(dt_graph_begin(streams[0]));
    CHECK_OK(dt_stream_wait(streams[0], used));
    dt_free(streams[0], &a);
    CHECK_OK(dt_graph_end(streams[0], NULL));
    CHECK_OK(dt_alloc_host(streams[0], DT_WORKSPACE, WHOLE_BYTES, &b));
    CHECK(b.data == first);
    submit_write(streams[0], &b, 2, 0);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    submit_check(streams[0], &b, 2);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    dt_event_destroy(used);
    end();
}

static void nobody_waits_for_a_stream_that_exchanges(void)
{
    enum { BYTES = WHOLE_BYTES };
    static _Atomic int open;
    _Atomic int *argument = &open;
    struct dt_buffer a, b, c;
    if (!begin())
        return;
    atomic_store(&open, 0);
    dt_cuda_stream_exchanges(streams[1]);
    CHECK_OK(dt_alloc(streams[1], DT_ACTIVATIONS, BYTES, &a));
    void *sent = a.data;
    CHECK_OK(dt_cuda_submit_host(streams[1], "gate", run_until_open, &argument, sizeof argument));
    dt_free(streams[1], &a);
    CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, BYTES, &b));
    CHECK_OK(dt_zero(streams[0], b.data, BYTES));
    CHECK(b.data != sent);
    CHECK_OK(dt_stream_synchronize(streams[0])); /* while the gate is shut */
    CHECK_OK(dt_alloc(streams[1], DT_ACTIVATIONS, BYTES, &c));
    CHECK(c.data == sent, "the stream itself need not wait");
    dt_free(streams[1], &c);
    atomic_store(&open, 1);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK_OK(dt_alloc(streams[2], DT_ACTIVATIONS, BYTES, &c));
    CHECK(c.data == sent, "nor does another once the host has waited");
    dt_free(streams[2], &c);
    dt_free(streams[0], &b);
    end();
}

static void out_of_memory_is_told_and_survived(void)
{
    struct dt_device_options options = {.memory_limit_bytes = (uint64_t)1 << 60};
    struct dt_device_info info, again;
    struct dt_buffer half, buffer;
    for (int experiment = 0; experiment < 2; experiment++) { /* the second begins as the first did */
        if (!begin_with(&options))
            return;
        dt_device_info(device, &info);
        CHECK_OK(dt_alloc(streams[0], DT_PARAMETERS, info.memory_bytes / 2, &half));
        CHECK(dt_alloc(streams[1], DT_ACTIVATIONS, info.memory_bytes * 3 / 4, &buffer) == DT_ERR_OOM && !buffer.data);
        CHECK(strstr(dt_error_message(), "out of device memory"), "%s", dt_error_message());
        dt_free(streams[0], &half);
        CHECK_OK(dt_alloc(streams[1], DT_ACTIVATIONS, info.memory_bytes * 3 / 4, &buffer)); /* what was free is given back for it */
        CHECK_OK(dt_zero(streams[1], buffer.data, 4096));
        CHECK_OK(dt_stream_synchronize(streams[1]));
        dt_device_info(device, &again);
        CHECK(again.available_bytes > info.memory_bytes * 3 / 4, "free, or held by buffers");
        end();
    }
}

static void a_graphs_memory_stays(void)
{
    struct dt_device_options options = {.memory_limit_bytes = (uint64_t)1 << 60};
    struct dt_device_info info;
    struct dt_buffer temporary, buffer;
    struct dt_graph *graph;
    if (!begin_with(&options))
        return;
    dt_device_info(device, &info);
    CHECK_OK(dt_graph_begin(streams[0]));
    CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, info.memory_bytes / 2, &temporary));
    CHECK_OK(dt_zero(streams[0], temporary.data, 4096));
    dt_free(streams[0], &temporary);
    CHECK_OK(dt_graph_end(streams[0], &graph));
    CHECK(dt_alloc(streams[0], DT_ACTIVATIONS, info.memory_bytes * 3 / 4, &buffer) == DT_ERR_OOM);
    CHECK_OK(dt_graph_launch(graph, streams[1]));
    CHECK_OK(dt_stream_synchronize(streams[1]));
    dt_graph_destroy(graph);
    CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, info.memory_bytes * 3 / 4, &buffer));
    dt_free(streams[0], &buffer);
    end();
}

static void own_memory_is_zeroed_and_uncounted(void)
{
    enum { BYTES = 3 << 20 };
    static uint32_t host[BYTES / 4];
    struct dt_memory_usage usage;
    void *mine[2], *none;
    if (!begin())
        return;
    for (int i = 0; i < 2; i++)
        CHECK_OK(dt_cuda_own_alloc(device, BYTES, &mine[i]));
    CHECK_OK(dt_cuda_own_alloc(device, 0, &none));
    CHECK(!none && (uintptr_t)mine[0] % 256 == 0);
    memset(host, 1, BYTES);
    CHECK_OK(dt_copy_to_host(streams[0], host, mine[1], BYTES));
    CHECK_OK(dt_stream_synchronize(streams[0]));
    for (int i = 0; i < BYTES / 4; i++)
        CHECK(host[i] == 0);
    dt_memory_usage(device, &usage);
    CHECK(usage.device.peak_total_bytes == 0);
    CHECK_OK(dt_graph_begin(streams[0]));
    CHECK(dt_cuda_capturing(device) && dt_cuda_own_alloc(device, BYTES, &none) == DT_ERR_INVALID);
    CHECK_OK(dt_graph_end(streams[0], NULL));
    CHECK(!dt_cuda_capturing(device));
    dt_cuda_own_free(device, mine[0]);
    dt_cuda_own_free(device, NULL);
    CHECK(dt_cuda_multiprocessors(device) > 0);
    end(); /* the device frees the rest */
}

/* More memory than the pool has, asked for within a capture. */
static void a_capture_may_need_new_memory(void)
{
    enum { BYTES = 40 << 20 };
    static unsigned char host[BYTES];
    struct dt_buffer from, temporary;
    struct dt_graph *graph;
    if (!begin())
        return;
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &from));
    CHECK_OK(dt_graph_begin(streams[0]));
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &temporary));
    CHECK_OK(dt_copy_from_host(streams[0], temporary.data, host, BYTES)); /* the caller's own memory, at every launch */
    CHECK_OK(dt_copy(streams[0], from.data, temporary.data, BYTES));
    CHECK_OK(dt_copy_to_host(streams[0], host, from.data, BYTES / 2));
    dt_free(streams[0], &temporary);
    memset(host, 3, BYTES);
    CHECK_OK(dt_graph_end(streams[0], &graph));
    CHECK_OK(dt_stream_synchronize(streams[0]));
    memset(host, 4, BYTES);
    CHECK_OK(dt_graph_launch(graph, streams[0]));
    CHECK_OK(dt_stream_synchronize(streams[0]));
    memset(host, 5, BYTES);
    CHECK_OK(dt_copy_to_host(streams[1], host, from.data, BYTES));
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(host[0] == 4 && host[BYTES / 2] == 4 && host[BYTES - 1] == 4);
    dt_graph_destroy(graph);
    end();
}

/* What goes past the end of a buffer, far enough for an emulated GPU, which gives whole pieces of
 * 256 bytes. A real GPU reports it only under compute-sanitizer. */
static dt_status write_past_the_end(void)
{
    enum { BYTES = 1000 };
    struct dt_buffer a, b;
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &a));
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &b));
    CHECK_OK(dt_stream_synchronize(streams[0]));
    dt_status status = dt_zero(streams[0], a.data, BYTES + 256);
    if (status == DT_OK)
        status = dt_stream_synchronize(streams[0]);
    dt_free(streams[0], &a);
    dt_free(streams[0], &b);
    end();
    return status;
}

static void separate_buffers_end_where_they_end(void)
{
    struct dt_device_info info;
    if (!begin())
        return;
    dt_device_info(device, &info);
    if (strcmp(info.name, "emulated GPU") != 0) {
        end();
        SKIP("a GPU is not to be broken");
    }
    CHECK_OK(write_past_the_end()); /* a neighbour's, or nobody's */
    setenv("DTBENCH_SEPARATE_BUFFERS", "1", 1);
    if (begin())
        CHECK(write_past_the_end() == DT_ERR_DEVICE);
    unsetenv("DTBENCH_SEPARATE_BUFFERS");
}

static const struct test_case cases[] = {
    {"reuse never overlaps live data", reuse_never_overlaps_live_data},
    {"another stream's memory is waited for", another_streams_memory_is_waited_for},
    {"memory freed in a capture that was thrown away is waited for", memory_freed_in_vain_is_waited_for},
    {"nobody waits for a stream that exchanges messages", nobody_waits_for_a_stream_that_exchanges},
    {"out of memory is told and survived", out_of_memory_is_told_and_survived},
    {"a graph's memory stays as long as it does", a_graphs_memory_stays},
    {"the kernels' own memory is zeroed and not counted", own_memory_is_zeroed_and_uncounted},
    {"a capture may need new memory", a_capture_may_need_new_memory},
    {"separate buffers end where they end", separate_buffers_end_where_they_end}, /* last, because the GPU cannot be used after it */
};
TEST_MAIN(cases)
