#include "cli/records/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one done experiment says. */
struct sample {
    char hash[sizeof((struct experiment *)0)->hash];
    double s_per_flop; /* of one rank */
    double overhead_s; /* all that is not steps */
};

enum { KEPT = 64 };

/* Done experiments that are alike. */
struct group {
    char device[sizeof((struct experiment *)0)->device];
    enum paradigm_kind paradigm;
    int world_size;
    enum dt_dtype dtype;
    struct sample samples[KEPT]; /* the newest */
    int added, kept;
};

struct forecaster {
    struct group *groups;
    int count;
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
    free(forecaster->groups);
    free(forecaster);
}

double forecast_steps_s(const struct experiment *e, double step_s)
{
    return experiment_is_simulated(e) ? 0 : steps_of(e) * step_s;
}

static bool is_alike(const struct group *g, const struct experiment *e, enum forecast_basis basis)
{
    bool same_device = strcmp(g->device, e->device) == 0;
    bool same_ranks = same_device && g->world_size == e->world_size && g->dtype == e->model.dtype;
    switch (basis) {
    case FORECAST_SAME:
    case FORECAST_ALIKE: return same_ranks && g->paradigm == e->paradigm;
    case FORECAST_SAME_RANKS: return same_ranks;
    case FORECAST_ANY: return same_device;
    case FORECAST_NONE: break;
    }
    return false;
}

/* NULL: no memory. */
static struct group *find_group(struct forecaster *f, const struct experiment *e)
{
    for (int i = 0; i < f->count; i++)
        if (is_alike(&f->groups[i], e, FORECAST_ALIKE))
            return &f->groups[i];
    struct group *groups = realloc(f->groups, ((size_t)f->count + 1) * sizeof *groups);
    if (!groups)
        return NULL;
    struct group *added = &groups[f->count++];
    *added = (struct group){.paradigm = e->paradigm, .world_size = e->world_size, .dtype = e->model.dtype};
    memcpy(added->device, e->device, sizeof added->device);
    f->groups = groups;
    return added;
}

dt_status forecaster_add(struct forecaster *f, const struct experiment *done, double step_s, double startup_s, double wall_s)
{
    if (!isfinite(step_s) || step_s <= 0)
        return DT_OK;
    struct group *g = find_group(f, done);
    if (!g)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a forecast");
    double steps_s = forecast_steps_s(done, step_s);
    double overhead_s = isfinite(wall_s) ? wall_s - steps_s : startup_s;
    struct sample *s = &g->samples[g->added++ % KEPT];
    *s = (struct sample){
        .s_per_flop = steps_s / steps_of(done) / flops_of_rank(done),
        .overhead_s = overhead_s > 0 ? overhead_s : 0, /* a few slow steps can make the median times their number more than all there was */
    };
    memcpy(s->hash, done->hash, sizeof s->hash);
    g->kept = g->added < KEPT ? g->added : KEPT;
    return DT_OK;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct forecast forecaster_predict(const struct forecaster *f, const struct experiment *e)
{
    struct forecast out = {NAN, NAN, 0, FORECAST_NONE};
    double *times = malloc(((size_t)f->count * KEPT + 1) * sizeof *times);
    if (!times) /* as good as knowing nothing */
        return out;
    for (int basis = FORECAST_SAME; basis < FORECAST_NONE && out.based_on == 0; basis++) {
        for (int i = 0; i < f->count; i++) {
            const struct group *g = &f->groups[i];
            for (const struct sample *s = g->samples; is_alike(g, e, (enum forecast_basis)basis) && s < g->samples + g->kept; s++)
                if (basis != FORECAST_SAME || strcmp(s->hash, e->hash) == 0)
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
