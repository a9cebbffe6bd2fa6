#include "lib/device/condition.h"

#include "lib/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const slowdown_names[DT_SLOWDOWN_COUNT] = {
    [DT_SLOWDOWN_IDLE] = "idle",
    [DT_SLOWDOWN_CLOCKS_SET] = "clocks_set",
    [DT_SLOWDOWN_POWER_CAP] = "power_cap",
    [DT_SLOWDOWN_HEAT] = "heat",
    [DT_SLOWDOWN_POWER_BRAKE] = "power_brake",
    [DT_SLOWDOWN_HARDWARE] = "hardware",
    [DT_SLOWDOWN_SYNC_BOOST] = "sync_boost",
};

const char *dt_slowdown_name(enum dt_slowdown slowdown)
{
    return slowdown_names[slowdown];
}

void dt_condition_init(struct dt_device_condition *c)
{
    *c = (struct dt_device_condition){.clock_mhz = NAN,
                                      .memory_clock_mhz = NAN,
                                      .clock_limit_mhz = NAN,
                                      .temperature_c = NAN,
                                      .power_w = NAN,
                                      .power_limit_w = NAN,
                                      .energy_j = NAN,
                                      .power_slow_s = NAN,
                                      .heat_slow_s = NAN,
                                      .ecc = -1,
                                      .mig = -1,
                                      .persistence = -1,
                                      .processes = -1};
}

/* ---- for the reader of a table ---- */

void dt_condition_doubts(const struct dt_device_condition *before, const struct dt_device_condition *after, int own, char *out,
                         size_t out_bytes)
{
    double hot_s = after->heat_slow_s - before->heat_slow_s; /* NaN: unknown; then only the current state counts */
    snprintf(out, out_bytes, "%s", "");
    if (!after->known)
        return;
    if (hot_s > 0)
        dt_append(out, out_bytes, ", ", "clocks held down by heat for %.1f s", hot_s);
    else if (isnan(hot_s) && after->slowdown[DT_SLOWDOWN_HEAT])
        dt_append(out, out_bytes, ", ", "clocks held down by heat");
    if (after->slowdown[DT_SLOWDOWN_POWER_BRAKE])
        dt_append(out, out_bytes, ", ", "clocks held down by the power supply");
    else if (after->slowdown[DT_SLOWDOWN_HARDWARE] && !after->slowdown[DT_SLOWDOWN_HEAT])
        dt_append(out, out_bytes, ", ", "clocks held down by the hardware");
    if (after->slowdown[DT_SLOWDOWN_CLOCKS_SET])
        dt_append(out, out_bytes, ", ", "clocks set to %.0f of %.0f MHz", after->clock_mhz, after->clock_limit_mhz);
    if (after->processes > own)
        dt_append(out, out_bytes, ", ", "%d other %s on it", after->processes - own, after->processes - own == 1 ? "process" : "processes");
}
