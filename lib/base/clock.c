#include "lib/base/clock.h"

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now;
}

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int64_t dt_clock_ns(void)
{
    struct timespec now = read_clock(CLOCK_MONOTONIC);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

double dt_clock_s(void)
{
    return seconds_of(read_clock(CLOCK_MONOTONIC));
}

double dt_clock_since_s(int64_t start_ns)
{
    return (double)(dt_clock_ns() - start_ns) * 1e-9;
}

int64_t dt_deadline_ns(double seconds)
{
    return seconds > 0 ? dt_clock_ns() + (int64_t)(seconds * 1e9) : 0;
}

bool dt_deadline_passed(int64_t deadline_ns)
{
    return deadline_ns != 0 && dt_clock_ns() >= deadline_ns;
}

struct timespec dt_clock_timespec(int64_t clock_ns)
{
    return (struct timespec){.tv_sec = clock_ns / 1000000000, .tv_nsec = clock_ns % 1000000000};
}

void dt_sleep_ns(int64_t length_ns)
{
    struct timespec length = dt_clock_timespec(length_ns);
    nanosleep(&length, NULL);
}

void dt_sleep_ms(int milliseconds)
{
    dt_sleep_ns(milliseconds * INT64_C(1000000));
}

void dt_sleep_until_s(double clock_s)
{
    struct timespec until = dt_clock_timespec((int64_t)(clock_s * 1e9));
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

double dt_wall_clock_s(void)
{
    return seconds_of(read_clock(CLOCK_REALTIME));
}

double dt_processor_clock_s(void)
{
    return seconds_of(read_clock(CLOCK_PROCESS_CPUTIME_ID));
}
