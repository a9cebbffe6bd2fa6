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

/* Clocks are known badly, messages are not: they arrive 10 to 12 us after they are sent, but by the
 * first guess before. */
static void messages_narrow_clocks(void)
{
    enum { PROCESSES = 4, MESSAGES = 40 };
    static const int64_t true_ns[PROCESSES] = {500000, 0, 900000, 700000}; /* the last has no messages */
    struct dt_trace_clock clocks[PROCESSES] = {{500000 + 80000, 90000}, {-70000, 90000}, {900000 - 85000, 90000}, {700000, 1000}};
    char path[] = "/tmp/dtbench-test-trace-XXXXXX";
    struct dt_trace *trace;
    close(mkstemp(path));
    CHECK_OK(dt_trace_open(path, &trace));
    for (int i = 0; i < MESSAGES; i++) {
        int from = i % 3, to = (from + 1 + i / 3 % 2) % 3;
        int64_t sent_ns = 1000000 + 50000 * i, received_ns = sent_ns + 10000 + i % 3 * 1000;
        tell(trace, from, to, true, sent_ns - true_ns[from], sent_ns + 20000 - true_ns[from], "all");
        tell(trace, to, from, false, sent_ns - true_ns[to], received_ns - true_ns[to], "all");
    }
    dt_trace_place(trace, clocks, PROCESSES);
    CHECK_OK(dt_trace_close(trace));
    char *text = read_file(path);
    CHECK(count_of(text, "\"ph\": \"s\"") == MESSAGES && count_of(text, "\"ph\": \"f\"") == MESSAGES, "%s", text);
    for (int i = 0; i < 3; i++) { /* nothing says more of all three together than the first guesses */
        int64_t apart_ns = clocks[i].zero_ns - clocks[1].zero_ns - (true_ns[i] - true_ns[1]);
        CHECK(llabs(apart_ns) <= 12000, "%d: %lld", i, (long long)apart_ns);
        CHECK(clocks[i].error_ns < 30000, "%d: %lld", i, (long long)clocks[i].error_ns);
    }
    CHECK(clocks[3].error_ns == 1000 && clocks[1].zero_ns == 0);
    free(text);
    unlink(path);
}

/* Exact clocks stay, whatever messages say: their arrows are left out. */
static void messages_do_not_move_exact_clocks(void)
{
    struct dt_trace_clock clocks[] = {{1000, 0}, {3000, 0}};
    char path[] = "/tmp/dtbench-test-trace-XXXXXX";
    struct dt_trace *trace;
    close(mkstemp(path));
    CHECK_OK(dt_trace_open(path, &trace));
    tell(trace, 0, 1, true, 9000, 9100, "pair");
    tell(trace, 1, 0, false, 5000, 6000, "pair");
    tell(trace, 0, 1, true, 9200, 9300, "pair");
    tell(trace, 1, 0, false, 7000, 8001, "pair");
    dt_trace_place(trace, clocks, 2);
    CHECK_OK(dt_trace_close(trace));
    CHECK(clocks[0].zero_ns == 0 && clocks[1].zero_ns == 2000 && clocks[0].error_ns == 0 && clocks[1].error_ns == 0);
    char *text = read_file(path);
    CHECK(count_of(text, "\"id\": \"pair 0>1 #0\"") == 0 && count_of(text, "\"id\": \"pair 0>1 #1\"") == 2, "%s", text);
    CHECK(strstr(text, "\"ts\": 9.200, ") && strstr(text, "\"ts\": 10.000, "), "%s", text);
    free(text);
    unlink(path);
}

static const struct test_case cases[] = {
    {"arrows join the ends of a message", arrows_join_the_ends_of_a_message},
    {"messages narrow clocks", messages_narrow_clocks},
    {"messages do not move exact clocks", messages_do_not_move_exact_clocks},
};
TEST_MAIN(cases)
