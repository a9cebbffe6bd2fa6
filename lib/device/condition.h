/* What a device says of itself while it works: its clocks, its power, what slows it down, and who else computes on it. A throughput that was
 * measured on a GPU that was hot, or that others used, looks like any other; this is what tells them apart.
 *
 * Only GPUs say anything (lib/device/cuda/nvml.c). */
#ifndef LIB_DEVICE_CONDITION_H
#define LIB_DEVICE_CONDITION_H

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Why clocks are lower than they could be. */
enum dt_slowdown {
    DT_SLOWDOWN_IDLE, /* nothing to do: no fault */
    DT_SLOWDOWN_CLOCKS_SET,
    DT_SLOWDOWN_POWER_CAP,
    DT_SLOWDOWN_HEAT,
    DT_SLOWDOWN_POWER_BRAKE,
    DT_SLOWDOWN_HARDWARE,
    DT_SLOWDOWN_SYNC_BOOST,
    DT_SLOWDOWN_COUNT
};

/* At one moment. Numbers are NaN, and switches and counts -1, where unknown. */
struct dt_device_condition {
    bool known;                         /* false: the device says nothing at all */
    double clock_mhz, memory_clock_mhz; /* of the multiprocessors, and of the memory */
    double clock_limit_mhz;             /* the highest that the multiprocessors' clock can be */
    double temperature_c, power_w, power_limit_w;
    double energy_j;                  /* since the driver was loaded: differences count */
    double power_slow_s, heat_slow_s; /* how long clocks were held down for power, and for heat; since then, too */
    bool slowdown_known, slowdown[DT_SLOWDOWN_COUNT];
    int ecc, mig, persistence; /* 0: off, 1: on */
    int processes;             /* that compute on it, this one included */
};

/* Everything unknown. */
void dt_condition_init(struct dt_device_condition *condition);

const char *dt_slowdown_name(enum dt_slowdown slowdown); /* "heat", "power_cap" */

/* Why a measurement between the two may not be what the device can do, in a few words ("clocks held down by heat for 1.2 s, 1 other
 * process on it"); "" where nothing speaks against it. own: how many of this run's ranks compute on it. A power cap is how GPUs run at
 * full load, and is no reason. */
void dt_condition_doubts(const struct dt_device_condition *before, const struct dt_device_condition *after, int own, char *out,
                         size_t out_bytes);

#endif
