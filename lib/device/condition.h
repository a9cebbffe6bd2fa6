/* A device's condition while it works: its clocks, its power, what slows it down, and which other
 * processes use it. It shows if a throughput was measured on a GPU that was hot or shared.
 *
 * Only GPUs report it (lib/device/cuda/nvml.c). */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Why clocks are lower than their limit. */
enum dt_slowdown {
    DT_SLOWDOWN_IDLE, /* nothing to do: not a fault */
    DT_SLOWDOWN_CLOCKS_SET,
    DT_SLOWDOWN_POWER_CAP,
    DT_SLOWDOWN_HEAT,
    DT_SLOWDOWN_POWER_BRAKE,
    DT_SLOWDOWN_HARDWARE,
    DT_SLOWDOWN_SYNC_BOOST,
    DT_SLOWDOWN_COUNT
};

/* The condition at one moment. Unknown numbers are NaN; unknown switches and counts are -1. */
struct dt_device_condition {
    bool known;                         /* false: the device reports nothing */
    double clock_mhz, memory_clock_mhz; /* of the multiprocessors, and of the memory */
    double clock_limit_mhz;             /* the highest that the multiprocessors' clock can be */
    double temperature_c, power_w, power_limit_w;
    double energy_j;                  /* since the driver was loaded: only differences matter */
    double power_slow_s, heat_slow_s; /* how long clocks were reduced for power, and for heat; also since then */
    bool slowdown_known, slowdown[DT_SLOWDOWN_COUNT];
    int ecc, mig, persistence; /* 0: off, 1: on */
    int processes;             /* processes that compute on it, this one included */
};

/* Everything unknown. */
void dt_condition_init(struct dt_device_condition *condition);

const char *dt_slowdown_name(enum dt_slowdown slowdown); /* "heat", "power_cap" */

/* Why a measurement between the two moments may not show what the device can do, in a few words
 * ("clocks held down by heat for 1.2 s, 1 other process on it"); "": no doubts. own: number of this
 * run's ranks that compute on it. A power cap is normal at full load, and no reason. */
void dt_condition_doubts(const struct dt_device_condition *before, const struct dt_device_condition *after, int own, char *out,
                         size_t out_bytes);
