#include "cli/run/sweep_time.h"
#include "lib/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void set_end(struct sweep_time *time, double job_left_s)
{
    static const double reserve_s = 120, reserve_share = 0.1;
    time->asked_s = dt_clock_s();
    time->end_s = time->asked_s + job_left_s - fmin(reserve_s, job_left_s * reserve_share);
}

dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s)
{
    *time = (struct sweep_time){.end_s = INFINITY};
    DT_TRY(forecaster_create(&time->forecaster));
    if (limit) {
        char *end;
        double seconds = strtod(limit, &end);
        if (end == limit || *end || !(seconds >= 0) || !isfinite(seconds))
            return dt_fail(DT_ERR_INVALID, "--time-limit %s: expected a number of seconds", limit);
        time->end_s = dt_clock_s() + seconds;
    } else if (!isnan(job_left_s)) {
        set_end(time, job_left_s);
        time->is_job = true;
    }
    return DT_OK;
}

void sweep_time_follow(struct sweep_time *time, double (*job_left_s)(void *context), void *context)
{
    time->job_left_s = time->is_job ? job_left_s : NULL;
    time->context = context;
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

static bool is_in_time(const struct sweep_time *time, const struct forecast *forecast)
{
    double left_s = time->end_s - dt_clock_s();
    return left_s > 0 && (!time->begun || forecast->basis == FORECAST_NONE || forecast->high_s <= left_s);
}

static void ask(struct sweep_time *time)
{
    double job_left_s = time->job_left_s(time->context);
    if (isnan(job_left_s))
        time->asked_s = dt_clock_s();
    else
        set_end(time, job_left_s);
}

bool sweep_time_allows(struct sweep_time *time, const struct experiment *next, char *why, size_t why_bytes)
{
    static const double old_s = 60;
    struct forecast forecast = forecaster_predict(time->forecaster, next);
    if (time->job_left_s && (dt_clock_s() - time->asked_s > old_s || !is_in_time(time, &forecast)))
        ask(time);
    if (is_in_time(time, &forecast)) {
        time->begun = true;
        return true;
    }
    double left_s = time->end_s - dt_clock_s();
    if (left_s <= 0 || forecast.basis == FORECAST_NONE)
        snprintf(why, why_bytes, "no time left");
    else
        snprintf(why, why_bytes, "may take %.0f s (estimated from %d done), and %.0f s are left", ceil(forecast.high_s), forecast.based_on,
                 floor(left_s));
    return false;
}
