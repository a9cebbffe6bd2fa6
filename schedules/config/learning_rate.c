#include "schedules/config/learning_rate.h"

#include <math.h>

bool experiment_rate_varies(const struct experiment *e)
{
    return e->optimizer.schedule != SCHEDULE_CONSTANT || e->optimizer.warmup_steps > 0 || e->optimizer.scale_with_batch != SCALE_NONE;
}

static double batch_factor(const struct experiment *e)
{
    double ratio = (double)experiment_global_batch(e) / e->optimizer.base_batch;
    switch (e->optimizer.scale_with_batch) {
    case SCALE_NONE: return 1;
    case SCALE_LINEAR: return ratio;
    case SCALE_ROOT: break;
    }
    return sqrt(ratio);
}

/* The factor after warm-up. done: the finished part of the schedule's steps, from 0 to 1. */
static double scheduled(const struct experiment *e, double done)
{
    double final = e->optimizer.final_rate;
    switch (e->optimizer.schedule) {
    case SCHEDULE_CONSTANT: return 1;
    case SCHEDULE_LINEAR: return final + (1 - final) * (1 - done);
    case SCHEDULE_COSINE: break;
    }
    return final + (1 - final) * (1 + cos(M_PI * done)) / 2;
}

double experiment_rate_factor(const struct experiment *e, int step)
{
    int warmup = e->optimizer.warmup_steps, all = e->steps_made + e->steps.warmup + e->steps.timed;
    int end = e->optimizer.schedule_steps ? e->optimizer.schedule_steps : all;
    if (step < warmup)
        return batch_factor(e) * (step + 1) / warmup;
    return batch_factor(e) * scheduled(e, end > warmup ? fmin((double)(step - warmup) / (end - warmup), 1) : 1);
}
