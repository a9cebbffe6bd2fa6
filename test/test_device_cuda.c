/* What the cuda device has beyond lib/device.h, and how it treats its memory; skipped with the reason where there is none. */
#include "lib/device_cuda.h"
#include "test/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { STREAMS = 3 };

static struct dt_device *device;
static struct dt_stream *streams[STREAMS];

static bool begin_with(const struct dt_device_options *options)
{
    static const char *const names[STREAMS] = {"compute", "network", "copies"};
    dt_status status = dt_device_create("cuda", options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_create(device, names[i], &streams[i]));
    return true;
}

static bool begin(void)
{
    return begin_with(NULL);
}

static void end(void)
{
    for (int i = 0; i < STREAMS; i++)
        dt_stream_destroy(streams[i]);
    dt_device_destroy(device);
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* ---- tasks on the host ---- */

struct add {
    _Atomic int *to;
    int factor, value;
    long sleep_us;
};

static dt_status run_add(void *arguments)
{
    const struct add *a = arguments;
    if (a->sleep_us)
        sleep_us(a->sleep_us);
    *a->to = *a->to * a->factor + a->value;
    return DT_OK;
}

static dt_status run_failure(void *arguments)
{
    return dt_fail(DT_ERR_IO, "number %d", *(int *)arguments);
}

static void submit_add(struct dt_stream *stream, _Atomic int *to, int factor, int value, long pause_us)
{
    struct add a = {to, factor, value, pause_us};
    CHECK_OK(dt_cuda_submit_host(stream, "add", run_add, &a, sizeof a));
    a.value = -1000; /* the task has its own copy */
}

static void tasks_run_in_the_streams_order(void)
{
    _Atomic int sum = 0;
    struct dt_event *event;
    struct dt_graph *graph;
    if (!begin())
        return;
    CHECK_OK(dt_event_create(device, &event));
    submit_add(streams[0], &sum, 10, 1, 3000);
    submit_add(streams[0], &sum, 10, 2, 0);
    CHECK_OK(dt_event_record(event, streams[0]));
    CHECK_OK(dt_stream_wait(streams[1], event));
    submit_add(streams[1], &sum, 10, 3, 0);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(sum == 123, "%d", sum);
    for (int i = 0; i < 1000; i++)
        submit_add(streams[i % 2], &sum, 1, 1, 0);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_synchronize(streams[i]));
    CHECK_OK(dt_graph_begin(streams[0]));
    submit_add(streams[1], &sum, 0, 7, 0);
    CHECK_OK(dt_event_record(event, streams[1]));
    CHECK_OK(dt_stream_wait(streams[0], event));
    submit_add(streams[0], &sum, 2, 1, 0);
    CHECK_OK(dt_graph_end(streams[0], &graph));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(dt_stream_synchronize(streams[2]));
        CHECK(sum == 15, "launch %d: %d", i, sum);
        sum = 100;
        CHECK_OK(dt_graph_launch(graph, streams[2]));
    }
    CHECK_OK(dt_stream_synchronize(streams[0]));
    dt_graph_destroy(graph);
    dt_event_destroy(event);
    end();
}

static void a_tasks_failure_is_told_once(void)
{
    _Atomic int sum = 0;
    if (!begin())
        return;
    for (int i = 1; i <= 2; i++)
        CHECK_OK(dt_cuda_submit_host(streams[0], "the task", run_failure, &i, sizeof i));
    submit_add(streams[0], &sum, 1, 1, 0);
    CHECK(dt_stream_synchronize(streams[0]) == DT_ERR_IO && strcmp(dt_error_message(), "the task: number 1") == 0, "%s",
          dt_error_message());
    CHECK(sum == 0, "what comes after a failure is skipped");
    submit_add(streams[0], &sum, 1, 1, 0);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(sum == 1);
    end();
}

/* ---- waiting ---- */

static dt_status run_until_open(void *arguments)
{
    _Atomic int *open = *(_Atomic int **)arguments;
    while (!atomic_load(open))
        sleep_us(100);
    return DT_OK;
}

struct watched {
    int polls, most;
    int64_t last_ns;
};

static dt_status poll_watch(void *context, int64_t waited_ns)
{
    struct watched *w = context;
    CHECK(waited_ns >= w->last_ns || w->polls == 0);
    w->last_ns = waited_ns;
    return ++w->polls < w->most ? DT_OK : dt_fail(DT_ERR_TIMEOUT, "rank 3 is missing");
}

static void a_watch_ends_a_wait(void)
{
    static _Atomic int open;
    _Atomic int *argument = &open;
    struct watched watched = {.most = 50};
    struct dt_cuda_watch watch = {.poll = poll_watch, .context = &watched}, other = {.poll = poll_watch, .context = &watched};
    if (!begin())
        return;
    atomic_store(&open, 0);
    dt_cuda_watch(device, &other);
    dt_cuda_watch(device, &watch);
    dt_cuda_unwatch(device, &other);
    CHECK_OK(dt_cuda_submit_host(streams[1], "gate", run_until_open, &argument, sizeof argument));
    CHECK(dt_stream_synchronize(streams[1]) == DT_ERR_TIMEOUT && strstr(dt_error_message(), "rank 3"), "%s", dt_error_message());
    CHECK(watched.polls == 50 && watched.last_ns > 0);
    atomic_store(&open, 1);
    watched = (struct watched){.most = 1 << 30};
    CHECK_OK(dt_stream_synchronize(streams[1]));
    watched.polls = 0;
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(watched.polls > 0, "asked even where there is nothing to wait for");
    dt_cuda_unwatch(device, &watch);
    end();
}

/* ---- memory ---- */

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

/* Buffers of host memory are written on one stream and checked on another before they are freed there; through device memory meanwhile.
 * What reached a new owner too early would show as somebody else's value. */
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

static void nobody_waits_for_a_stream_that_exchanges(void)
{
    enum { BYTES = 1 << 20 };
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

/* ---- which GPU ---- */

static void each_rank_takes_its_gpu(void)
{
    char reason[256];
    struct dt_device *other;
    struct dt_device_info first, info;
    int count = dt_device_count("cuda");
    if (!dt_device_available("cuda", reason, sizeof reason))
        SKIP("%.200s", reason);
    CHECK(count >= 1 && !dt_device_look("cuda", count, &info) && dt_device_look("cuda", 0, &first));
    CHECK(strncmp(first.uuid, "GPU-", 4) == 0 && strlen(first.uuid) == 40 && first.uuid[12] == '-', "%s", first.uuid);
    CHECK(first.memory_bytes > 0 && first.name[0] && first.driver[0] && strncmp(first.versions, "CUDA runtime 1", 14) == 0, "%s",
          first.versions);
    for (int rank = 0; rank <= count; rank++) {
        struct dt_device_options options = {.local_rank = rank, .local_size = count + 1};
        dt_status status = dt_device_create("cuda", &options, &device);
        if (rank == count && count > 1) {
            CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), "no GPU of its own"), "%s", dt_error_message());
            options.share = true;
            status = dt_device_create("cuda", &options, &device);
        }
        CHECK_OK(status);
        dt_device_look("cuda", rank % count, &info);
        CHECK(strcmp(dt_cuda_uuid(device), info.uuid) == 0 && (rank % count == 0) == (strcmp(info.uuid, first.uuid) == 0));
        CHECK_OK(dt_device_create("cuda", &(struct dt_device_options){.local_rank = rank, .local_size = count + 1, .share = true}, &other));
        CHECK(strcmp(dt_cuda_uuid(other), info.uuid) == 0);
        dt_device_destroy(other);
        dt_device_destroy(device);
    }
}

static const struct test_case cases[] = {
    {"tasks run in the stream's order", tasks_run_in_the_streams_order},
    {"a task's failure is told once", a_tasks_failure_is_told_once},
    {"a watch ends a wait", a_watch_ends_a_wait},
    {"reuse never overlaps live data", reuse_never_overlaps_live_data},
    {"nobody waits for a stream that exchanges messages", nobody_waits_for_a_stream_that_exchanges},
    {"out of memory is told and survived", out_of_memory_is_told_and_survived},
    {"the kernels' own memory is zeroed and not counted", own_memory_is_zeroed_and_uncounted},
    {"a capture may need new memory", a_capture_may_need_new_memory},
    {"each rank takes its GPU", each_rank_takes_its_gpu},
};
TEST_MAIN(cases)
