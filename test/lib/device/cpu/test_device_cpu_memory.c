/* Reuse of the cpu device's memory between streams. */
#include "test/lib/device/cpu_streams.h"

#include <stdlib.h>
#include <sys/resource.h>

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
    if (a->sleep_us)
        sleep_us(a->sleep_us);
    for (size_t i = 0; i < a->count; i++) {
        if (a->data[i] != a->value)
            return dt_fail(DT_ERR_DEVICE, "element %zu of %zu is %u, not %u", i, a->count, a->data[i], a->value);
    }
    return DT_OK;
}

static struct pattern pattern_of(const struct dt_buffer *buffer, uint32_t value)
{
    return (struct pattern){.data = buffer->data, .count = buffer->bytes / 4, .value = value};
}

/* Buffers are written on one stream and checked on another before they are freed there. Memory that
 * is reused too early would have another buffer's value. There are few sizes, so that blocks are
 * reused, and pauses, so that the streams drift apart. */
static void reuse_never_overlaps_live_data(void)
{
    enum { SLOTS = 24, ROUNDS = 6000 };
    static const size_t sizes[] = {256, 4096, 60000, 65536, 70000, 262144, 270000};
    struct {
        struct dt_buffer buffer;
        struct dt_event *written;
        uint32_t value;
    } slots[SLOTS] = {0};
    begin();
    dt_cpu_stream_exchanges(streams[2]);
    srand(5);
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(dt_event_create(device, &slots[i].written));
    for (int i = 0; i < ROUNDS; i++) {
        struct dt_stream *stream = streams[rand() % STREAMS];
        int at = rand() % SLOTS;
        long pause_us = rand() % 40 == 0 ? 300 : 0;
        struct dt_buffer *buffer = &slots[at].buffer;
        if (buffer->data) {
            struct pattern a = pattern_of(buffer, slots[at].value);
            a.sleep_us = pause_us;
            CHECK_OK(dt_stream_wait(stream, slots[at].written));
            CHECK_OK(dt_cpu_submit(stream, "check", run_check, &a, sizeof a));
            dt_free(stream, buffer);
        } else {
            slots[at].value = (uint32_t)i;
            CHECK_OK(dt_alloc(stream, DT_WORKSPACE, sizes[(size_t)rand() % (sizeof sizes / sizeof sizes[0])], buffer));
            struct pattern a = pattern_of(buffer, slots[at].value);
            a.sleep_us = pause_us;
            CHECK_OK(dt_cpu_submit(stream, "write", run_write, &a, sizeof a));
            CHECK_OK(dt_event_record(slots[at].written, stream));
        }
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(dt_stream_synchronize(streams[i]));
    for (int i = 0; i < SLOTS; i++) {
        dt_event_destroy(slots[i].written);
        if (i % 2)
            dt_free(streams[0], &slots[i].buffer); /* the device frees the rest */
    }
    end();
}

static void another_streams_memory_is_waited_for(void)
{
    enum { BYTES = 2 << 20 };
    struct gate gate = {0};
    struct dt_buffer a, b, c;
    begin();
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &a));
    void *first = a.data;
    struct pattern late = pattern_of(&a, 1), check;
    submit_gate(streams[0], &gate);
    CHECK_OK(dt_cpu_submit(streams[0], "write", run_write, &late, sizeof late));
    dt_free(streams[0], &a);
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, BYTES, &c)); /* the same stream takes it back at once */
    CHECK(c.data == first);
    dt_free(streams[0], &c);
    CHECK_OK(dt_alloc(streams[1], DT_WORKSPACE, BYTES - BYTES / 16, &b)); /* and a somewhat smaller buffer fits, too */
    CHECK(b.data == first);
    check = pattern_of(&b, 2);
    CHECK_OK(dt_cpu_submit(streams[1], "write", run_write, &check, sizeof check));
    sleep_us(2000);
    atomic_store(&gate.open, 1);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK_OK(dt_cpu_submit(streams[1], "check", run_check, &check, sizeof check));
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK(dt_device_reserved_bytes(device) == BYTES);
    dt_free(streams[1], &b);
    CHECK_OK(dt_alloc(streams[1], DT_WORKSPACE, BYTES / 2, &a));
    CHECK_OK(dt_alloc(streams[2], DT_WORKSPACE, BYTES / 2, &b));
    CHECK(a.data == first && (char *)b.data == (char *)first + BYTES / 2, "two halves of it");
    dt_free(streams[2], &b);
    dt_free(streams[1], &a);
    CHECK_OK(dt_stream_synchronize(streams[2]));
    CHECK_OK(dt_alloc(streams[1], DT_WORKSPACE, BYTES, &a));
    CHECK(a.data == first && dt_device_reserved_bytes(device) == BYTES, "and both are one again");
    dt_free(streams[1], &a);
    end();
}

/* Otherwise two ranks that each send before they receive could wait for each other through their
 * memory. */
static void nobody_waits_for_a_stream_that_exchanges(void)
{
    enum { BYTES = 2 << 20 };
    struct gate gate = {0};
    struct dt_buffer a, b;
    begin();
    dt_cpu_stream_exchanges(streams[1]);
    CHECK_OK(dt_alloc(streams[1], DT_ACTIVATIONS, BYTES, &a));
    void *sent = a.data;
    submit_gate(streams[1], &gate);
    dt_free(streams[1], &a);
    CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, BYTES, &b));
    CHECK(b.data != sent);
    CHECK_OK(dt_stream_synchronize(streams[0])); /* while the gate is shut */
    CHECK_OK(dt_alloc(streams[1], DT_ACTIVATIONS, BYTES, &a));
    CHECK(a.data == sent, "the stream itself need not wait");
    dt_free(streams[1], &a);
    atomic_store(&gate.open, 1);
    CHECK_OK(dt_stream_synchronize(streams[1]));
    CHECK_OK(dt_alloc(streams[2], DT_ACTIVATIONS, BYTES, &a));
    CHECK(a.data == sent, "nor does another once it has been passed");
    dt_free(streams[2], &a);
    dt_free(streams[0], &b);
    end();
}

static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* A training step in miniature: activations grow layer by layer and shrink again, with temporaries
 * of other sizes in between. */
static void run_training_step(size_t unit_bytes)
{
    enum { LAYERS = 12, SIZES = 3 };
    static const size_t units[SIZES] = {1, 3, 4};
    struct dt_buffer kept[LAYERS][SIZES], temporary;
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < SIZES; i++) {
            CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, units[i] * unit_bytes, &kept[layer][i]));
            CHECK_OK(dt_zero(streams[0], kept[layer][i].data, kept[layer][i].bytes));
        }
    }
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, 5 * unit_bytes, &temporary));
        CHECK_OK(dt_zero(streams[0], temporary.data, temporary.bytes));
        dt_free(streams[0], &temporary);
        for (int i = 0; i < SIZES; i++)
            dt_free(streams[0], &kept[layer][i]);
    }
}

static void a_steady_step_touches_no_new_page(void)
{
    begin();
    for (int step = 0; step < 3; step++)
        run_training_step(100000);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    long before = page_faults();
    for (int step = 0; step < 5; step++)
        run_training_step(100000);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    long faults = page_faults() - before, pages = 5 * 12 * 8 * 100000 / 4096;
    CHECK(faults < pages / 20, "%ld faults, %ld pages were used", faults, pages);
    end();
}

/* Changing sizes would accumulate memory if none was given back. */
static void what_is_held_stays_near_the_peak(void)
{
    begin();
    for (int step = 0; step < 12; step++) {
        run_training_step(400000 + (size_t)step * 100000);
        CHECK_OK(dt_stream_synchronize(streams[0]));
        struct dt_memory_usage usage;
        dt_memory_usage(device, &usage);
        uint64_t reserved = dt_device_reserved_bytes(device);
        CHECK(reserved >= usage.device.current_total_bytes);
        CHECK(reserved < usage.device.peak_total_bytes / 10 * 11 + (64 << 20), "step %d: %llu reserved, peak %llu", step,
              (unsigned long long)reserved, (unsigned long long)usage.device.peak_total_bytes);
    }
    end();
}

/* The host runs ahead and gives back small blocks before the stream has used them: giving them to
 * the system too early would be a fault. */
static void memory_is_given_back_in_stream_order(void)
{
    enum { COUNT = 1500, BYTES = 60000, LARGE_BYTES = 150 << 20 };
    struct gate gate = {0};
    struct dt_buffer *small = calloc(COUNT, sizeof *small), large;
    begin();
    submit_gate(streams[0], &gate);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, BYTES, &small[i]));
        CHECK_OK(dt_zero(streams[0], small[i].data, BYTES));
    }
    for (int i = 0; i < COUNT; i++)
        dt_free(streams[0], &small[i]);
    CHECK_OK(dt_alloc(streams[0], DT_ACTIVATIONS, LARGE_BYTES, &large));
    dt_free(streams[0], &large);
    uint64_t ahead = dt_device_reserved_bytes(device);
    atomic_store(&gate.open, 1);
    CHECK_OK(dt_stream_synchronize(streams[0]));
    CHECK(dt_device_reserved_bytes(device) < ahead, "%llu", (unsigned long long)ahead);
    end();
    free(small);
}

static void a_refusal_by_the_system_is_out_of_memory(void)
{
    struct dt_device_options options = {.memory_limit_bytes = UINT64_MAX / 2, .threads = 1};
    struct dt_buffer buffer;
    struct dt_memory_usage usage;
    CHECK_OK(dt_device_create("cpu", &options, &device));
    CHECK_OK(dt_stream_create(device, "compute", &streams[0]));
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, 1 << 20, &buffer));
    dt_free(streams[0], &buffer);
    CHECK(dt_alloc(streams[0], DT_WORKSPACE, (size_t)1 << 52, &buffer) == DT_ERR_OOM && !buffer.data);
    CHECK(strstr(dt_error_message(), "refuses"), "%s", dt_error_message());
    CHECK(dt_device_reserved_bytes(device) == 0, "what was free has been given back before giving up");
    CHECK_OK(dt_alloc(streams[0], DT_WORKSPACE, 1 << 20, &buffer));
    dt_memory_usage(device, &usage);
    CHECK(usage.device.current_total_bytes == 1 << 20, "a refused allocation does not count");
    dt_free(streams[0], &buffer);
    dt_stream_destroy(streams[0]);
    dt_device_destroy(device);
}

static void poison_fills_every_allocation(void)
{
    setenv("DTBENCH_POISON", "1", 1);
    begin();
    unsetenv("DTBENCH_POISON");
    for (int i = 0; i < 8; i++) {
        struct dt_buffer buffer;
        CHECK_OK(dt_alloc(streams[i % 2], DT_WORKSPACE, i < 4 ? 3 << 20 : 1000, &buffer));
        struct pattern a = pattern_of(&buffer, UINT32_MAX), dirt = pattern_of(&buffer, 7);
        CHECK_OK(dt_cpu_submit(streams[i % 2], "check", run_check, &a, sizeof a));
        CHECK_OK(dt_cpu_submit(streams[i % 2], "write", run_write, &dirt, sizeof dirt));
        CHECK_OK(dt_stream_synchronize(streams[i % 2]));
        dt_free(streams[i % 2], &buffer);
    }
    end();
}

static void ranks_share_the_processors(void)
{
    struct dt_device_options all = {0}, share = {.local_rank = 1, .local_size = 1 << 20};
    struct dt_device *whole, *part;
    struct dt_device_info info;
    CHECK_OK(dt_device_create("cpu", &all, &whole));
    CHECK_OK(dt_device_create("cpu", &share, &part));
    CHECK(dt_cpu_threads(whole) >= 1 && dt_cpu_threads(part) == 1);
    dt_device_info(whole, &info);
    CHECK(info.threads == dt_cpu_threads(whole) && info.memory_bytes > 0 && strncmp(info.versions, "oneDNN ", 7) == 0, "%s", info.versions);
    struct dt_stream *stream;
    struct dt_buffer buffer;
    CHECK_OK(dt_stream_create(part, "compute", &stream));
    CHECK(dt_alloc(stream, DT_WORKSPACE, info.memory_bytes + 1, &buffer) == DT_ERR_OOM, "more than the machine has");
    dt_stream_destroy(stream);
    dt_device_destroy(whole);
    dt_device_destroy(part);
}

static const struct test_case cases[] = {
    {"reuse never overlaps live data", reuse_never_overlaps_live_data},
    {"another stream's memory is waited for", another_streams_memory_is_waited_for},
    {"nobody waits for a stream that exchanges messages", nobody_waits_for_a_stream_that_exchanges},
    {"a steady step touches no new page", a_steady_step_touches_no_new_page},
    {"what is held stays near the peak", what_is_held_stays_near_the_peak},
    {"memory is given back in stream order", memory_is_given_back_in_stream_order},
    {"a refusal by the system is out of memory", a_refusal_by_the_system_is_out_of_memory},
    {"poison fills every allocation", poison_fills_every_allocation},
    {"ranks share the processors, and the machine's memory is the limit", ranks_share_the_processors},
};
TEST_MAIN(cases)
