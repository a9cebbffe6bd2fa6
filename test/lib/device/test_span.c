/* Spans on the cpu device: what is marked, when, and what is not. */
#include "lib/device/span.h"
#include "test/check.h"

#include <stdlib.h>
#include <string.h>

static struct dt_device *device;
static struct dt_stream *compute, *copies;

static void begin(void)
{
    CHECK_OK(dt_device_create("cpu", NULL, &device));
    CHECK_OK(dt_stream_create(device, "compute", &compute));
    CHECK_OK(dt_stream_create(device, "copies", &copies));
}

static void end(void)
{
    dt_stream_destroy(compute);
    dt_stream_destroy(copies);
    dt_device_destroy(device);
}

static void copies_and_streams_are_told_apart(void)
{
    static char from[1 << 20], to[1 << 20];
    struct dt_span *spans;
    int count;
    begin();
    CHECK_OK(dt_zero(compute, to, sizeof to)); /* before the start: not in it */
    CHECK_OK(dt_spans_start(compute));
    CHECK_OK(dt_copy(copies, to, from, sizeof to));
    CHECK_OK(dt_span_begin(compute, "work", DT_SPAN_COMPUTE, 0, NULL));
    CHECK_OK(dt_zero(compute, from, sizeof from)); /* part of the work around it */
    CHECK_OK(dt_span_end(compute));
    CHECK_OK(dt_zero(compute, from, 100));
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK_OK(dt_stream_synchronize(copies));
    CHECK_OK(dt_spans_collect(device, &spans, &count));
    CHECK(count == 3, "%d", count);
    CHECK(strcmp(spans[0].name, "copy") == 0 && strcmp(spans[0].stream, "copies") == 0 && spans[0].bytes == sizeof to);
    CHECK(spans[0].category == DT_SPAN_COPY && spans[0].stream_number == 0 && spans[1].stream_number == 1);
    CHECK(strcmp(spans[1].name, "work") == 0 && spans[1].category == DT_SPAN_COMPUTE && spans[1].bytes == 0);
    CHECK(strcmp(spans[2].name, "zero") == 0 && spans[2].bytes == 100);
    for (int i = 0; i < count; i++)
        CHECK(spans[i].start_ns >= 0 && spans[i].end_ns >= spans[i].start_ns, "%lld %lld", (long long)spans[i].start_ns,
              (long long)spans[i].end_ns);
    CHECK(spans[2].start_ns >= spans[1].end_ns);
    free(spans);
    CHECK_OK(dt_zero(compute, from, 100));
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK(dt_spans_collect(device, &spans, &count) == DT_ERR_INVALID && !spans);
    end();
}

static void they_start_once_and_can_be_forgotten(void)
{
    static char memory[4096];
    begin();
    CHECK_OK(dt_spans_start(compute));
    CHECK(dt_spans_start(copies) == DT_ERR_INVALID);
    CHECK_OK(dt_zero(copies, memory, sizeof memory));
    dt_spans_forget(device);
    dt_spans_forget(device);
    CHECK_OK(dt_spans_start(copies));
    CHECK_OK(dt_zero(copies, memory, sizeof memory));
    end(); /* the device's end forgets, too */
}

static void more_streams_than_there_is_room_for_are_refused(void)
{
    static char memory[64];
    struct dt_stream *many[80];
    dt_status status = DT_OK;
    begin();
    CHECK_OK(dt_spans_start(compute));
    for (int i = 0; i < 80; i++)
        CHECK_OK(dt_stream_create(device, "one of many", &many[i]));
    for (int i = 0; i < 80 && status == DT_OK; i++)
        status = dt_zero(many[i], memory, sizeof memory);
    CHECK(status == DT_ERR_INVALID && strstr(dt_error_message(), "streams"));
    for (int i = 0; i < 80; i++)
        dt_stream_destroy(many[i]);
    end();
}

static const struct test_case cases[] = {
    {"copies and streams are told apart", copies_and_streams_are_told_apart},
    {"they start once and can be forgotten", they_start_once_and_can_be_forgotten},
    {"more streams than there is room for are refused", more_streams_than_there_is_room_for_are_refused},
};
TEST_MAIN(cases)
