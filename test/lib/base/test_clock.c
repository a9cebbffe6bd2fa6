/* The monotonic clock, deadlines on it, and sleeping. */
#include "lib/base/clock.h"
#include "test/check.h"

#include <math.h>

static void test_clocks_agree(void)
{
    int64_t start_ns = dt_clock_ns();
    double start_s = dt_clock_s();
    CHECK(fabs(start_s - (double)start_ns * 1e-9) < 1, "%g s and %lld ns", start_s, (long long)start_ns);
    dt_sleep_ms(20);
    CHECK(dt_clock_ns() - start_ns >= 20000000);
    CHECK(dt_clock_since_s(start_ns) >= 0.02);
    CHECK(dt_clock_s() - start_s >= 0.0199);
    dt_sleep_until_s(start_s + 0.05);
    CHECK(dt_clock_s() >= start_s + 0.0499);
    CHECK(dt_wall_clock_s() > 1.7e9, "%g s since 1970", dt_wall_clock_s());
}

static void test_deadlines(void)
{
    CHECK(dt_deadline_ns(0) == 0 && dt_deadline_ns(-1) == 0);
    CHECK(!dt_deadline_passed(0), "there is no deadline");
    int64_t far_ns = dt_deadline_ns(1000), near_ns = dt_deadline_ns(0.01);
    CHECK(far_ns > near_ns && far_ns - near_ns < INT64_C(1000000000000));
    dt_sleep_ms(15);
    CHECK(dt_deadline_passed(near_ns) && !dt_deadline_passed(far_ns));
    struct timespec far = dt_clock_timespec(far_ns);
    CHECK(far.tv_sec * INT64_C(1000000000) + far.tv_nsec == far_ns && far.tv_nsec < 1000000000);
}

static void test_processor_time_stands_still_while_asleep(void)
{
    double start_s = dt_processor_clock_s();
    dt_sleep_ms(100);
    CHECK(dt_processor_clock_s() - start_s < 0.05, "%g s", dt_processor_clock_s() - start_s);
}

static const struct test_case cases[] = {
    {"nanoseconds and seconds are of one clock", test_clocks_agree},
    {"deadlines pass, and none never does", test_deadlines},
    {"processor time does not pass in sleep", test_processor_time_stands_still_while_asleep},
};
TEST_MAIN(cases)
