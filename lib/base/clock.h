/* Time. Durations and deadlines use the monotonic clock, which cannot be set: all processes of a
 * machine read the same one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The monotonic clock. Its zero is some moment in the past. */
int64_t dt_clock_ns(void);
double dt_clock_s(void);
double dt_clock_since_s(int64_t start_ns); /* seconds since that value of dt_clock_ns */

/* The dt_clock_ns at which `seconds` from now have passed; 0, no deadline, if seconds is not above
 * 0. */
int64_t dt_deadline_ns(double seconds);
bool dt_deadline_passed(int64_t deadline_ns); /* false for 0 */
/* The same moment, for calls that take an absolute time of CLOCK_MONOTONIC. */
struct timespec dt_clock_timespec(int64_t clock_ns);

/* Block the calling thread. A signal may end it early. */
void dt_sleep_ns(int64_t length_ns);
void dt_sleep_ms(int milliseconds);
void dt_sleep_until_s(double clock_s); /* until dt_clock_s has reached this value */

/* Other clocks. */
double dt_wall_clock_s(void);      /* seconds since 1970 UTC; may be set at any time */
double dt_processor_clock_s(void); /* processor time of this process, over all threads */
