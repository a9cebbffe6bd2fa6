#include "cli/sweep_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s)
{
    static const double reserve_s = 120, reserve_share = 0.1;
    *time = (struct sweep_time){.end_s = INFINITY};
    DT_TRY(forecaster_create(&time->forecaster));
    if (limit) {
        char *end;
        double seconds = strtod(limit, &end);
        if (end == limit || *end || !(seconds >= 0) || !isfinite(seconds))
            return dt_fail(DT_ERR_INVALID, "'--time-limit %s' is not a number of seconds", limit);
        time->end_s = now_s() + seconds;
    } else if (!isnan(job_left_s)) {
        time->end_s = now_s() + job_left_s - fmin(reserve_s, job_left_s * reserve_share);
    }
    return DT_OK;
}

void sweep_time_finish(struct sweep_time *time)
{
    forecaster_destroy(time->forecaster);
    time->forecaster = NULL;
}

bool sweep_time_is_limited(const struct sweep_time *time)
{
    return isfinite(time->end_s);
}

dt_status sweep_time_learn(struct sweep_time *time, const struct experiment *done, double step_s, double startup_s, double wall_s)
{
    return forecaster_add(time->forecaster, done, step_s, startup_s, wall_s);
}

bool sweep_time_allows(struct sweep_time *time, const struct experiment *next, char *why, size_t why_bytes)
{
    double left_s = time->end_s - now_s();
    struct forecast forecast = forecaster_predict(time->forecaster, next);
    bool known = forecast.basis != FORECAST_NONE;
    if (left_s > 0 && (!time->begun || !known || forecast.high_s <= left_s)) {
        time->begun = true;
        return true;
    }
    if (left_s <= 0 || !known)
        snprintf(why, why_bytes, "no time is left");
    else
        snprintf(why, why_bytes, "may take %.0f s (by %d done), and %.0f s are left", ceil(forecast.high_s), forecast.based_on,
                 floor(left_s));
    return false;
}
