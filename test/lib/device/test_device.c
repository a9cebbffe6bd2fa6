/* The device interface, one body for every kind. What needs computing is checked in
 * test_device_cpu.c. */
#include "lib/device/device.h"
#include "test/check.h"

#include <stdint.h>
#include <stdlib.h>

static struct dt_device *device;
static struct dt_stream *compute, *network;

static bool begin(const char *kind, uint64_t limit_bytes)
{
    struct dt_device_options options = {.memory_limit_bytes = limit_bytes, .threads = 1};
    dt_status status = dt_device_create(kind, &options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return false;
    }
    CHECK_OK(status);
    CHECK_OK(dt_stream_create(device, "compute", &compute));
    CHECK_OK(dt_stream_create(device, "network", &network));
    return true;
}

static void end(void)
{
    dt_stream_destroy(compute);
    dt_stream_destroy(network);
    dt_device_destroy(device);
}

static void names_itself(const char *kind)
{
    if (!begin(kind, 0))
        return;
    struct dt_device_info info;
    dt_device_info(device, &info);
    CHECK(info.kind == dt_device_kind_find(kind) && info.name[0] && info.threads == 1);
    CHECK((info.memory_bytes == 0) == (strcmp(kind, "sim") == 0));
    CHECK(dt_stream_device(compute) == device);
    end();
}

static void data_goes_there_and_back(const char *kind)
{
    if (!begin(kind, 0))
        return;
    enum { COUNT = 3 << 20 }; /* bytes; enough to be cut in pieces, and no whole number of them */
    size_t bytes = COUNT + 5;
    unsigned char *from = malloc(bytes), *to = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 31 + i / 4096);
    memset(to, 1, bytes);
    struct dt_buffer a, b;
    CHECK_OK(dt_alloc(compute, DT_WORKSPACE, bytes, &a));
    CHECK_OK(dt_alloc(compute, DT_WORKSPACE, bytes, &b));
    CHECK(a.data && b.data && a.data != b.data && a.bytes == bytes && a.category == DT_WORKSPACE);
    CHECK((uintptr_t)a.data % DT_ALLOCATION_BYTES == 0 && (uintptr_t)b.data % DT_ALLOCATION_BYTES == 0);
    CHECK_OK(dt_copy_from_host(compute, a.data, from, bytes));
    CHECK_OK(dt_copy(compute, b.data, a.data, bytes));
    CHECK_OK(dt_zero(compute, (char *)b.data + 7, 100));
    CHECK_OK(dt_copy_to_host(compute, to, b.data, bytes));
    CHECK_OK(dt_stream_synchronize(compute));
    if (strcmp(kind, "sim") == 0)
        memset(from, 0, bytes);
    memset(from + 7, 0, 100);
    CHECK(memcmp(from, to, bytes) == 0);
    memset(to, 1, bytes);
    CHECK_OK(dt_copy_to_host_around(compute, to, b.data, bytes, 1000, 3000));
    CHECK_OK(dt_copy_to_host_around(compute, to + 1000, b.data, 2000, 0, 2000));
    CHECK_OK(dt_stream_synchronize(compute));
    memset(from + 1000, 1, 2000);
    CHECK(strcmp(kind, "sim") == 0 || memcmp(from, to, bytes) == 0, "the hole is left as it was");
    dt_free(compute, &a);
    dt_free(compute, &b);
    CHECK(!a.data && !a.bytes && !b.block);
    dt_free(compute, &b); /* a zeroed buffer is none */
    end();
    free(from);
    free(to);
}

static void events_order_and_measure(const char *kind)
{
    if (!begin(kind, 0))
        return;
    struct dt_event *start, *stop;
    int64_t ns = -1;
    CHECK_OK(dt_event_create_timed(device, &start));
    CHECK_OK(dt_event_create_timed(device, &stop));
    CHECK_OK(dt_stream_wait(compute, start)); /* never recorded: passed already */
    CHECK(dt_event_elapsed_ns(start, stop, &ns) == DT_ERR_INVALID);
    for (int step = 0; step < 3; step++) { /* recorded anew every step */
        CHECK_OK(dt_event_record(start, compute));
        CHECK_OK(dt_stream_wait(network, start));
        CHECK_OK(dt_event_record(stop, network));
        CHECK_OK(dt_stream_wait(compute, stop));
        CHECK_OK(dt_stream_synchronize(compute));
        CHECK_OK(dt_event_elapsed_ns(start, stop, &ns));
        CHECK(strcmp(kind, "sim") == 0 ? ns == 0 : ns >= 0 && ns < 10000000000, "%lld ns", (long long)ns);
    }
    struct dt_event *plain;
    CHECK_OK(dt_event_create(device, &plain));
    CHECK_OK(dt_event_record(plain, compute));
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK(dt_event_elapsed_ns(plain, stop, &ns) == DT_ERR_INVALID && dt_event_elapsed_ns(start, plain, &ns) == DT_ERR_INVALID);
    dt_event_destroy(plain);
    dt_event_destroy(start);
    dt_event_destroy(stop);
    end();
}

static void limit_is_out_of_memory(const char *kind)
{
    if (!begin(kind, 1 << 20))
        return;
    struct dt_buffer a, b;
    CHECK_OK(dt_alloc(compute, DT_PARAMETERS, 1 << 19, &a));
    CHECK(dt_alloc(network, DT_GRADIENTS, (1 << 19) + 1, &b) == DT_ERR_OOM && !b.data && !b.bytes);
    CHECK(strstr(dt_error_message(), "gradients") && strstr(dt_error_message(), "1048576"), "%s", dt_error_message());
    dt_free(compute, &a);
    CHECK_OK(dt_alloc(network, DT_GRADIENTS, 1 << 20, &b));
    dt_free(network, &b);
    CHECK_OK(dt_alloc(network, DT_GRADIENTS, 0, &b));
    CHECK(!b.data);
    CHECK(dt_alloc(compute, (enum dt_category)99, 8, &b) == DT_ERR_INVALID);
    end();
}

static void host_memory_counts_by_itself(const char *kind)
{
    struct dt_device_options options = {.memory_limit_bytes = 1 << 20, .host_memory_limit_bytes = 1 << 19, .threads = 1};
    dt_status status = dt_device_create(kind, &options, &device);
    if (status == DT_ERR_UNAVAILABLE) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", dt_error_message());
        return;
    }
    CHECK_OK(status);
    CHECK_OK(dt_stream_create(device, "compute", &compute));
    CHECK_OK(dt_stream_create(device, "copies", &network));
    struct dt_buffer a, b, c;
    struct dt_memory_usage usage;
    CHECK_OK(dt_alloc(compute, DT_PARAMETERS, 1 << 20, &a));
    CHECK_OK(dt_alloc_host(network, DT_PARAMETERS, (1 << 18) + 1, &b));
    CHECK(b.on_host && b.data && !a.on_host && b.category == DT_PARAMETERS && (uintptr_t)b.data % DT_ALLOCATION_BYTES == 0);
    CHECK(dt_alloc_host(compute, DT_OPTIMIZER, 1 << 18, &c) == DT_ERR_OOM && !c.data && !c.on_host);
    CHECK(strstr(dt_error_message(), "out of host memory: 262144 bytes asked for optimizer, 262400 in use, limit 524288"), "%s",
          dt_error_message());
    dt_memory_usage(device, &usage);
    CHECK(usage.device.current_total_bytes == 1 << 20 && usage.device.current_bytes[DT_PARAMETERS] == 1 << 20);
    CHECK(usage.host.current_total_bytes == 262400 && usage.host.peak_bytes[DT_PARAMETERS] == 262400);
    CHECK(usage.host.peak_bytes[DT_OPTIMIZER] == 0, "a refusal counts nothing");
    if (strcmp(kind, "sim") != 0)
        CHECK(dt_device_reserved_bytes(device) >= (1 << 20) + 262400);
    dt_free(compute, &a);
    dt_free(compute, &b);
    dt_memory_reset_peak(device);
    dt_memory_usage(device, &usage);
    CHECK(usage.host.peak_total_bytes == 0 && usage.host.current_total_bytes == 0 && usage.device.peak_total_bytes == 0);
    CHECK_OK(dt_alloc_host(compute, DT_OPTIMIZER, 1 << 19, &b));
    dt_free(network, &b);
    CHECK_OK(dt_alloc_host(compute, DT_OPTIMIZER, 0, &b));
    CHECK(!b.data && dt_alloc_host(compute, (enum dt_category)99, 8, &b) == DT_ERR_INVALID);
    end();
}

/* Out to host memory on one stream and back on another; what was on the device in between is
 * overwritten. */
static void host_memory_keeps_data(const char *kind)
{
    if (!begin(kind, 0))
        return;
    enum { COUNT = (5 << 20) + 3 };
    unsigned char *from = malloc(COUNT), *to = malloc(COUNT);
    struct dt_buffer device_buffer, host;
    struct dt_event *out;
    for (size_t i = 0; i < COUNT; i++)
        from[i] = (unsigned char)(i * 37 + i / 8192);
    memset(to, 1, COUNT);
    CHECK_OK(dt_event_create(device, &out));
    CHECK_OK(dt_alloc(compute, DT_WORKSPACE, COUNT, &device_buffer));
    CHECK_OK(dt_alloc_host(compute, DT_WORKSPACE, COUNT, &host));
    CHECK_OK(dt_copy_from_host(compute, device_buffer.data, from, COUNT));
    CHECK_OK(dt_copy_to_host(compute, host.data, device_buffer.data, COUNT)); /* sim: an address, which it must not touch */
    CHECK_OK(dt_zero(compute, device_buffer.data, COUNT));
    CHECK_OK(dt_event_record(out, compute));
    CHECK_OK(dt_stream_wait(network, out));
    CHECK_OK(dt_copy_from_host(network, (char *)device_buffer.data + 1, (char *)host.data + 1, COUNT - 1));
    dt_free(network, &host);
    CHECK_OK(dt_copy_to_host(network, to, device_buffer.data, COUNT));
    CHECK_OK(dt_stream_synchronize(network));
    from[0] = 0;
    if (strcmp(kind, "sim") == 0)
        memset(from, 0, COUNT);
    CHECK(memcmp(from, to, COUNT) == 0);
    dt_free(network, &device_buffer);
    dt_event_destroy(out);
    end();
    free(from);
    free(to);
}

static void wrong_arguments_are_refused(const char *kind)
{
    if (!begin(kind, 0))
        return;
    struct dt_device *other;
    struct dt_event *event;
    CHECK_OK(dt_device_create("sim", NULL, &other));
    CHECK_OK(dt_event_create(other, &event));
    CHECK(dt_event_record(event, compute) == DT_ERR_INVALID && dt_stream_wait(compute, event) == DT_ERR_INVALID);
    CHECK(dt_copy(compute, NULL, event, 8) == DT_ERR_INVALID && dt_zero(compute, NULL, 8) == DT_ERR_INVALID);
    CHECK_OK(dt_copy(compute, NULL, NULL, 0));
    dt_event_destroy(event);
    dt_device_destroy(other);
    end();
    struct dt_device_options options = {.local_rank = 2, .local_size = 2};
    CHECK(dt_device_create(kind, &options, &other) == DT_ERR_INVALID && !other);
    options = (struct dt_device_options){.threads = -1};
    CHECK(dt_device_create(kind, &options, &other) == DT_ERR_INVALID && !other);
}

/* A made-up program of allocations, the same for every kind. */
static void run_program(const char *kind, struct dt_memory_usage *out)
{
    memset(out, 0, sizeof *out);
    if (!begin(kind, 0))
        return;
    enum { SLOTS = 40 };
    struct dt_buffer slots[SLOTS] = {{0}};
    uint32_t random = 12345;
    for (int i = 0; i < 4000; i++) {
        random = random * 1664525 + 1013904223;
        struct dt_stream *stream = random >> 30 & 1 ? compute : network;
        struct dt_buffer *slot = &slots[(random >> 8) % SLOTS];
        if (slot->data)
            dt_free(stream, slot);
        else
            CHECK_OK((random >> 27 & 1 ? dt_alloc_host : dt_alloc)(stream, (enum dt_category)(random % DT_CATEGORY_COUNT),
                                                                   1 + (random >> 4) % 300000, slot));
        if (i == 1000)
            dt_memory_reset_peak(device);
    }
    dt_memory_usage(device, out);
    for (int i = 0; i < SLOTS; i++)
        dt_free(compute, &slots[i]);
    struct dt_memory_usage after;
    dt_memory_usage(device, &after);
    CHECK(after.device.current_total_bytes == 0 && after.host.current_total_bytes == 0);
    if (strcmp(kind, "sim") == 0)
        CHECK(dt_device_reserved_bytes(device) == 0);
    end();
}

static void ledgers_agree(const char *kind)
{
    struct dt_memory_usage sim, mine;
    run_program("sim", &sim);
    run_program(kind, &mine);
    if (!test_skip_reason[0])
        CHECK(memcmp(&sim, &mine, sizeof sim) == 0, "peak %llu and %llu", (unsigned long long)sim.device.peak_total_bytes,
              (unsigned long long)mine.device.peak_total_bytes);
    const struct dt_memory_bytes *both[] = {&sim.device, &sim.host};
    for (int i = 0; i < 2; i++)
        CHECK(both[i]->peak_total_bytes > both[i]->current_total_bytes && both[i]->current_total_bytes > 0);
}

static void graphs_are_refused(const char *kind)
{
    if (!begin(kind, 0))
        return;
    struct dt_graph *graph = (struct dt_graph *)device;
    CHECK(!dt_device_captures(device) && dt_graph_begin(compute) == DT_ERR_INVALID);
    CHECK(strstr(dt_error_message(), kind), "%s", dt_error_message());
    CHECK(dt_graph_end(compute, &graph) == DT_ERR_INVALID && !graph);
    dt_graph_destroy(NULL);
    CHECK_OK(dt_stream_synchronize(compute));
    end();
}

static void kinds_and_reasons(void)
{
    char reason[256];
    CHECK(dt_device_kind_at(0) == dt_device_kind_find("cuda") && dt_device_kind_at(1) == dt_device_kind_find("cpu"));
    CHECK(dt_device_kind_at(2) == dt_device_kind_find("sim") && !dt_device_kind_at(3) && !dt_device_kind_at(-1));
    for (int i = 0; dt_device_kind_at(i); i++) {
        bool available = dt_device_available(dt_device_kind_at(i)->name, reason, sizeof reason);
        CHECK(available == (reason[0] == 0), "%s: %s", dt_device_kind_at(i)->name, reason);
    }
    CHECK(dt_device_available("sim", reason, sizeof reason));
    CHECK(!dt_device_available("tpu", reason, sizeof reason) && strstr(reason, "tpu"), "%s", reason);
    CHECK(dt_device_create("tpu", NULL, &device) == DT_ERR_INVALID && !device);
    if (!dt_device_available("cuda", reason, sizeof reason))
        CHECK(dt_device_create("cuda", NULL, &device) == DT_ERR_UNAVAILABLE && strstr(dt_error_message(), reason));
    dt_device_destroy(NULL);
    dt_stream_destroy(NULL);
    dt_event_destroy(NULL);
}

#define FOR_EACH_KIND(body)                                                                                                                \
    static void body##_cpu(void)                                                                                                           \
    {                                                                                                                                      \
        body("cpu");                                                                                                                       \
    }                                                                                                                                      \
    static void body##_sim(void)                                                                                                           \
    {                                                                                                                                      \
        body("sim");                                                                                                                       \
    }                                                                                                                                      \
    static void body##_cuda(void)                                                                                                          \
    {                                                                                                                                      \
        body("cuda");                                                                                                                      \
    }
FOR_EACH_KIND(names_itself)
FOR_EACH_KIND(data_goes_there_and_back)
FOR_EACH_KIND(events_order_and_measure)
FOR_EACH_KIND(limit_is_out_of_memory)
FOR_EACH_KIND(host_memory_counts_by_itself)
FOR_EACH_KIND(host_memory_keeps_data)
FOR_EACH_KIND(wrong_arguments_are_refused)
FOR_EACH_KIND(ledgers_agree)

static void graphs_are_refused_cpu(void)
{
    graphs_are_refused("cpu");
}
static void graphs_are_refused_sim(void)
{
    graphs_are_refused("sim");
}

static const struct test_case cases[] = {
    {"kinds, and why one is not available", kinds_and_reasons},
    {"cpu: names itself", names_itself_cpu},
    {"sim: names itself", names_itself_sim},
    {"cuda: names itself", names_itself_cuda},
    {"cpu: data goes there and back", data_goes_there_and_back_cpu},
    {"sim: data goes there and back as zeros", data_goes_there_and_back_sim},
    {"cuda: data goes there and back", data_goes_there_and_back_cuda},
    {"cpu: events order and measure", events_order_and_measure_cpu},
    {"sim: events order and measure", events_order_and_measure_sim},
    {"cuda: events order and measure", events_order_and_measure_cuda},
    {"cpu: the limit is out of memory", limit_is_out_of_memory_cpu},
    {"sim: the limit is out of memory", limit_is_out_of_memory_sim},
    {"cuda: the limit is out of memory", limit_is_out_of_memory_cuda},
    {"cpu: host memory counts by itself", host_memory_counts_by_itself_cpu},
    {"sim: host memory counts by itself", host_memory_counts_by_itself_sim},
    {"cuda: host memory counts by itself", host_memory_counts_by_itself_cuda},
    {"cpu: host memory keeps data", host_memory_keeps_data_cpu},
    {"sim: host memory is never touched", host_memory_keeps_data_sim},
    {"cuda: host memory keeps data", host_memory_keeps_data_cuda},
    {"cpu: wrong arguments are refused", wrong_arguments_are_refused_cpu},
    {"sim: wrong arguments are refused", wrong_arguments_are_refused_sim},
    {"cuda: wrong arguments are refused", wrong_arguments_are_refused_cuda},
    {"cpu: the ledger is the same as sim's", ledgers_agree_cpu},
    {"sim: the ledger repeats", ledgers_agree_sim},
    {"cuda: the ledger is the same as sim's", ledgers_agree_cuda},
    {"cpu: has no graphs", graphs_are_refused_cpu},
    {"sim: has no graphs", graphs_are_refused_sim},
};
TEST_MAIN(cases)
