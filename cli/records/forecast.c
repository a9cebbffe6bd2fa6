#include "cli/records/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one done experiment says. */
struct sample {
    char hash[sizeof((struct experiment *)0)->hash];
    char device[sizeof((struct experiment *)0)->device];
    enum paradigm_kind paradigm;
    int world_size;
    enum dt_dtype dtype;
    double s_per_flop; /* of one rank */
    double overhead_s; /* all that is not steps */
};

struct forecaster {
    struct sample *samples;
    int count, capacity;
};

static double flops_of_rank(const struct experiment *e)
{
    uint64_t tokens = experiment_global_batch(e) * (uint64_t)e->model.block_size;
    return dt_model_step_flops(&e->model, tokens) / e->world_size;
}

static double steps_of(const struct experiment *e)
{
    return (double)e->steps.warmup + e->steps.timed;
}

dt_status forecaster_create(struct forecaster **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for a forecast");
}

void forecaster_destroy(struct forecaster *forecaster)
{
    if (!forecaster)
        return;
    free(forecaster->samples);
    free(forecaster);
}

dt_status forecaster_add(struct forecaster *f, const struct experiment *done, double step_s, double startup_s, double wall_s)
{
    if (!isfinite(step_s) || step_s <= 0)
        return DT_OK;
    if (f->count == f->capacity) {
        int capacity = 2 * f->capacity + 16;
        struct sample *samples = realloc(f->samples, (size_t)capacity * sizeof *samples);
        if (!samples)
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a forecast from %d experiments", f->count);
        f->samples = samples;
        f->capacity = capacity;
    }
    double overhead_s = isfinite(wall_s) ? wall_s - steps_of(done) * step_s : startup_s;
    struct sample *s = &f->samples[f->count++];
    *s = (struct sample){
        .paradigm = done->paradigm,
        .world_size = done->world_size,
        .dtype = done->model.dtype,
        .s_per_flop = step_s / flops_of_rank(done),
        .overhead_s = overhead_s > 0 ? overhead_s : 0, /* a few slow steps can make the median times their number more than all there was */
    };
    memcpy(s->hash, done->hash, sizeof s->hash);
    memcpy(s->device, done->device, sizeof s->device);
    return DT_OK;
}

static bool is_alike(const struct sample *s, const struct experiment *e, enum forecast_basis basis)
{
    bool same_device = strcmp(s->device, e->device) == 0;
    bool same_ranks = same_device && s->world_size == e->world_size && s->dtype == e->model.dtype;
    switch (basis) {
    case FORECAST_SAME: return strcmp(s->hash, e->hash) == 0;
    case FORECAST_ALIKE: return same_ranks && s->paradigm == e->paradigm;
    case FORECAST_SAME_RANKS: return same_ranks;
    case FORECAST_ANY: return same_device;
    case FORECAST_NONE: break;
    }
    return false;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct forecast forecaster_predict(const struct forecaster *f, const struct experiment *e)
{
    struct forecast out = {NAN, NAN, 0, FORECAST_NONE};
    double *times = malloc((size_t)f->count * sizeof *times + sizeof *times);
    if (!times) /* as good as knowing nothing */
        return out;
    for (int basis = FORECAST_SAME; basis < FORECAST_NONE && out.based_on == 0; basis++) {
        for (int i = 0; i < f->count; i++) {
            const struct sample *s = &f->samples[i];
            if (is_alike(s, e, (enum forecast_basis)basis))
                times[out.based_on++] = s->overhead_s + steps_of(e) * s->s_per_flop * flops_of_rank(e);
        }
        out.basis = out.based_on > 0 ? (enum forecast_basis)basis : FORECAST_NONE;
    }
    if (out.based_on > 0) {
        qsort(times, (size_t)out.based_on, sizeof *times, ascending);
        int middle = out.based_on / 2;
        out.expected_s = out.based_on % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
        out.high_s = times[out.based_on - 1];
    }
    free(times);
    return out;
}
