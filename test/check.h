/* Helpers of C tests: TAP output and counted checks. A test program is a table of functions, which
 * main runs. */
#pragma once

#include "lib/base/status.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

static int test_failures; /* failures of the running case */
static char test_skip_reason[256];

/* A short lower-case name: "ok", "oom", "invalid", ... Never NULL. */
static inline const char *status_name(dt_status status)
{
    switch (status) {
    case DT_OK: return "ok";
    case DT_ERR_INVALID: return "invalid";
    case DT_ERR_OOM: return "oom";
    case DT_ERR_HOST_MEMORY: return "host_memory";
    case DT_ERR_IO: return "io";
    case DT_ERR_COMM: return "comm";
    case DT_ERR_TIMEOUT: return "timeout";
    case DT_ERR_DEVICE: return "device";
    case DT_ERR_UNAVAILABLE: return "unavailable";
    case DT_ERR_INTERRUPTED: return "interrupted";
    case DT_ERR_VERIFY: return "verify";
    case DT_ERR_WORLD: return "world";
    }
    return "unknown";
}

/* Count a failure and continue, so that one run shows all failures. */
#define CHECK(condition, ...)                                                                                                              \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            test_failures++;                                                                                                               \
            printf("# %s:%d: %s: ", __FILE__, __LINE__, #condition);                                                                       \
            printf("" __VA_ARGS__);                                                                                                        \
            printf("\n");                                                                                                                  \
        }                                                                                                                                  \
    } while (0)

#define CHECK_OK(call)                                                                                                                     \
    do {                                                                                                                                   \
        dt_status check_status_ = (call);                                                                                                  \
        CHECK(check_status_ == DT_OK, "%s: %s", status_name(check_status_), dt_error_message());                                           \
    } while (0)

/* Leave the case with a reason instead of a verdict. */
#define SKIP(...)                                                                                                                          \
    do {                                                                                                                                   \
        snprintf(test_skip_reason, sizeof test_skip_reason, __VA_ARGS__);                                                                  \
        return;                                                                                                                            \
    } while (0)

static inline int test_main(const struct test_case *cases, int count)
{
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* output before a crash is not lost */
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        test_failures = 0;
        test_skip_reason[0] = 0;
        cases[i].run();
        failed += test_failures != 0;
        printf("%s %d - %s%s%s\n", test_failures ? "not ok" : "ok", i + 1, cases[i].name, test_skip_reason[0] ? " # SKIP " : "",
               test_skip_reason);
    }
    return failed != 0;
}

/* Is the next of many similar experiments left out? With DTBENCH_TEST_EVERY=4 every fourth one is
 * tried, with 4:1 every fourth one from the second. Sanitizers take ten times as long, and need
 * each path only once. Every rank must call it equally often. */
static inline bool test_leave_out(void)
{
    static int asked;
    const char *text = getenv("DTBENCH_TEST_EVERY");
    int every = 1, first = 0;
    if (text)
        sscanf(text, "%d:%d", &every, &first);
    return every > 1 && asked++ % every != first;
}

#define TEST_MAIN(cases)                                                                                                                   \
    int main(void)                                                                                                                         \
    {                                                                                                                                      \
        return test_main(cases, (int)(sizeof(cases) / sizeof((cases)[0])));                                                                \
    }
