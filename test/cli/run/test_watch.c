/* A time limit on a thread's work, tested in a child process, because passing it ends the
 * process. */
#include "cli/run/run.h"
#include "lib/base/clock.h"
#include "test/check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT = 0, OVERDUE = 3, WENT_ON = 4 };

static void end(void *context)
{
    *(volatile int *)context = 1;
    dt_sleep_ms(200); /* time for another thread to continue, if nothing stops it */
    _exit(OVERDUE);
}

enum { UNTIL_OVER = -1 };

/* Work of `works_ms` again and again, with a limit for each; UNTIL_OVER: until `end` has begun.
 * Returns the child's exit code. */
static int work_in_child(int times, int works_ms, double limit_s)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        volatile int is_over = 0;
        struct watch watch;
        watch_begin(&watch, end, (void *)&is_over);
        for (int i = 0; i < times; i++) {
            watch_limit(&watch, limit_s);
            if (is_over)
                _exit(WENT_ON);
            do
                dt_sleep_ms(works_ms == UNTIL_OVER ? 1 : works_ms);
            while (works_ms == UNTIL_OVER && !is_over);
        }
        watch_end(&watch);
        _exit(is_over ? WENT_ON : KEPT);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void limits_that_are_kept(void)
{
    CHECK(work_in_child(20, 10, 60) == KEPT);
    CHECK(work_in_child(2, 100, 0) == KEPT);
}

/* The hanging rank returns from the library while the record is written: it must do nothing any
 * more. */
static void limit_that_passes(void)
{
    CHECK(work_in_child(2, UNTIL_OVER, 0.05) == OVERDUE);
    CHECK(work_in_child(1, 60000, 0.05) == OVERDUE);
}

static void nobody_watches(void)
{
    watch_limit(NULL, 1);
}

static const struct test_case cases[] = {
    {"limits that are kept", limits_that_are_kept},
    {"a limit that passes ends the process, and only that", limit_that_passes},
    {"nobody watches", nobody_watches},
};

int main(void)
{
    return test_main(cases, (int)(sizeof cases / sizeof cases[0]));
}
