/* Arrows of a trace: which ends of messages belong together, and which have none. */
#include "lib/device/trace.h"
#include "test/check.h"

#include <stdlib.h>
#include <unistd.h>

static void tell(struct dt_trace *trace, int process, int peer, bool sends, int64_t start_ns, int64_t end_ns, const char *group)
{
    struct dt_trace_span span = {.process = process,
                                 .name = "work",
                                 .category = "test",
                                 .start_ns = start_ns,
                                 .end_ns = end_ns,
                                 .group = group,
                                 .pass = dt_no_pass()};
    dt_trace_message(trace, &span, peer, sends);
}

/* The whole file; the caller's to free. */
static char *read_file(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *file = fopen(path, "r");
    if (file && text)
        CHECK(fread(text, 1, 65535, file) > 0);
    if (file)
        fclose(file);
    return text;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

static void arrows_join_the_ends_of_a_message(void)
{
    char path[] = "/tmp/dtbench-test-trace-XXXXXX";
    struct dt_trace *trace;
    int file = mkstemp(path);
    close(file);
    CHECK_OK(dt_trace_open(path, &trace));
    tell(trace, 1, 0, false, 50, 2000, "pair"); /* a receiver may be reported first */
    tell(trace, 0, 1, true, 100, 300, "pair");
    tell(trace, 0, 1, true, 400, 500, "other"); /* other communicators and directions are counted separately */
    tell(trace, 1, 0, true, 600, 700, "pair");
    tell(trace, 0, 1, true, 3000, 3100, "pair");
    tell(trace, 1, 0, false, 2000, 4001, "pair");
    tell(trace, 0, 1, true, 9000, 9100, "pair"); /* by the clocks it arrives before it is sent */
    tell(trace, 1, 0, false, 8000, 8500, "pair");
    CHECK_OK(dt_trace_close(trace));
    char *text = read_file(path);
    CHECK(count_of(text, "\"ph\": \"s\"") == 2 && count_of(text, "\"ph\": \"f\"") == 2, "%s", text);
    CHECK(count_of(text, "\"id\": \"pair 0>1 #0\"") == 2 && count_of(text, "\"id\": \"pair 0>1 #1\"") == 2, "%s", text);
    CHECK(strstr(text, "{\"ph\": \"s\", \"pid\": 0, \"tid\": 0, \"ts\": 0.100, ") &&
              strstr(text, "\"pid\": 1, \"tid\": 0, \"ts\": 1.999, "),
          "%s", text);
    CHECK(strstr(text, "{\"ph\": \"s\", \"pid\": 0, \"tid\": 0, \"ts\": 3.000, ") &&
              strstr(text, "\"pid\": 1, \"tid\": 0, \"ts\": 4.000, "),
          "%s", text);
    free(text);
    unlink(path);
}

static const struct test_case cases[] = {{"arrows join the ends of a message", arrows_join_the_ends_of_a_message}};
TEST_MAIN(cases)
