#include "cli/run/run.h"

#include "lib/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- is there time? ---- */

static void set_end(struct sweep_time *time, double job_left_s)
{
    static const double reserve_s = 120, reserve_share = 0.1;
    time->asked_s = dt_clock_s();
    time->end_s = time->asked_s + job_left_s - fmin(reserve_s, job_left_s * reserve_share);
}

dt_status sweep_time_init(struct sweep_time *time, const char *limit, double job_left_s)
{
    *time = (struct sweep_time){.end_s = INFINITY};
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
    forecaster_finish(&time->forecaster);
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
    struct forecast forecast = forecaster_predict(&time->forecaster, next);
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

/* ---- shards ---- */

struct load {
    double flops; /* of one rank, all steps */
    int experiment;
};

dt_status sweep_shard_parse(const char *text, struct sweep_shard *out)
{
    int length = 0;
    bool read = *text >= '0' && *text <= '9' && sscanf(text, "%9d/%n", &out->number, &length) == 1 && length > 0;
    const char *rest = text + length;
    int all = 0;
    read = read && *rest >= '0' && *rest <= '9' && sscanf(rest, "%9d%n", &out->count, &all) == 1 && rest[all] == 0;
    if (!read || out->number < 1 || out->number > out->count)
        return dt_fail(DT_ERR_INVALID, "--shard %s: expected K/N with K from 1 to N, such as 1/4", text);
    return DT_OK;
}

static int by_load(const void *left, const void *right)
{
    const struct load *a = left, *b = right;
    if (a->flops != b->flops)
        return a->flops < b->flops ? 1 : -1;
    return (a->experiment > b->experiment) - (a->experiment < b->experiment);
}

dt_status sweep_shard_select(struct sweep_shard shard, const struct experiment_list *experiments, bool *elsewhere)
{
    int count = experiments->count;
    DT_FREED struct load *loads = malloc(((size_t)count + 1) * sizeof *loads);
    DT_TRY(dt_allocated(loads, "no memory for a sweep of %d experiments", count));
    for (int i = 0; i < count; i++) {
        const struct experiment *e = &experiments->all[i];
        loads[i] = (struct load){forecast_rank_flops(e) * forecast_steps(e), i};
    }
    qsort(loads, (size_t)count, sizeof *loads, by_load);
    for (int i = 0; i < count; i++) {
        int round = i / shard.count, seat = i % shard.count;
        int dealt_to = round % 2 == 0 ? seat : shard.count - 1 - seat;
        elsewhere[loads[i].experiment] = dealt_to != shard.number - 1;
    }
    return DT_OK;
}
