/* Spans on the cpu device: what is marked, when, and what is not. */
#include "lib/base/clock.h"
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
    struct dt_spans_recorded recorded;
    begin();
    CHECK_OK(dt_zero(compute, to, sizeof to)); /* before the start: not in it */
    CHECK_OK(dt_spans_start(compute));
    CHECK_OK(dt_copy(copies, to, from, sizeof to));
    CHECK_OK(dt_span_begin(compute, "work", DT_SPAN_COMPUTE, 0, NULL));
    CHECK_OK(dt_zero(compute, from, sizeof from)); /* part of the work around it */
    CHECK_OK(dt_span_end(compute));
    CHECK_OK(dt_zero(compute, from, 100));
    CHECK_OK(dt_copy_to_host_around(compute, to, from, 1000, 100, 300));
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK_OK(dt_stream_synchronize(copies));
    CHECK_OK(dt_spans_collect(device, &recorded));
    const struct dt_span *spans = recorded.all;
    int count = recorded.count;
    CHECK(count == 4, "%d", count);
    CHECK(strcmp(spans[0].name, "copy") == 0 && strcmp(spans[0].stream, "copies") == 0 && spans[0].bytes == sizeof to);
    CHECK(spans[0].category == DT_SPAN_COPY && spans[0].stream_number == 0 && spans[1].stream_number == 1);
    CHECK(strcmp(spans[1].name, "work") == 0 && spans[1].category == DT_SPAN_COMPUTE && spans[1].bytes == 0);
    CHECK(strcmp(spans[2].name, "zero") == 0 && spans[2].bytes == 100);
    CHECK(strcmp(spans[3].name, "copy_to_host") == 0 && spans[3].bytes == 800, "%s, %zu bytes", spans[3].name, (size_t)spans[3].bytes);
    for (int i = 0; i < count; i++)
        CHECK(spans[i].start_ns >= 0 && spans[i].end_ns >= spans[i].start_ns, "%lld %lld", (long long)spans[i].start_ns,
              (long long)spans[i].end_ns);
    CHECK(spans[2].start_ns >= spans[1].end_ns);
    free(recorded.all);
    CHECK_OK(dt_zero(compute, from, 100));
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK(dt_spans_collect(device, &recorded) == DT_ERR_INVALID && !recorded.all);
    end();
}

static void messages_and_passes_are_kept(void)
{
    static char memory[64];
    struct dt_spans_recorded recorded;
    begin();
    int64_t before_ns = dt_clock_ns();
    CHECK_OK(dt_spans_start(compute));
    int64_t after_ns = dt_clock_ns();
    CHECK_OK(dt_pass_enter(device, (struct dt_pass){3, 1}));
    CHECK_OK(dt_zero(compute, memory, sizeof memory));
    CHECK_OK(dt_span_begin(copies, "group", DT_SPAN_COMMUNICATION, 0, "pair"));
    CHECK_OK(dt_span_message(copies, true, 5, 100));
    CHECK_OK(dt_pass_enter(device, dt_no_pass()));
    CHECK_OK(dt_zero(compute, memory, sizeof memory));
    CHECK_OK(dt_span_message(copies, false, 6, 28));
    CHECK_OK(dt_zero(copies, memory, sizeof memory)); /* part of the group */
    CHECK_OK(dt_span_end(copies));
    CHECK_OK(dt_span_message(copies, false, 7, 28)); /* of no span */
    CHECK_OK(dt_stream_synchronize(compute));
    CHECK_OK(dt_stream_synchronize(copies));
    CHECK_OK(dt_spans_collect(device, &recorded));
    const struct dt_span *s = recorded.all;
    CHECK(recorded.count == 4, "%d", recorded.count);
    CHECK(before_ns <= recorded.zero_ns && recorded.zero_ns <= after_ns && recorded.zero_error_ns == 0);
    CHECK(s[0].pass.micro_batch == 3 && s[0].pass.part == 1 && s[0].peer == -1);
    CHECK(s[1].pass.micro_batch == 3 && s[1].sends && s[1].peer == 5 && s[1].bytes == 128 && !s[1].inside);
    CHECK(s[2].pass.micro_batch == -1 && s[2].pass.part == -1 && s[2].peer == -1);
    CHECK(s[3].inside && !s[3].sends && s[3].peer == 6 && s[3].bytes == 28 && strcmp(s[3].group, "pair") == 0);
    CHECK(s[3].start_ns == s[1].start_ns && s[3].end_ns == s[1].end_ns && s[3].stream_number == s[1].stream_number);
    free(recorded.all);
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
    {"messages and passes are kept", messages_and_passes_are_kept},
    {"they start once and can be forgotten", they_start_once_and_can_be_forgotten},
    {"more streams than there is room for are refused", more_streams_than_there_is_room_for_are_refused},
};
TEST_MAIN(cases)
