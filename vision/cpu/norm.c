/* Batch normalisation. Sums over many rows are made in pieces whose sizes depend only on the rows.
 * So results do not depend on the number of threads, nor on how samples are divided over ranks. */
#include "vision/cpu/kernels.h"

#include "lib/kernels/cpu/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double EPSILON = 1e-5, MOMENTUM = 0.1; /* PyTorch's defaults */

/* sums of a piece are fp32, sums of a run of pieces fp64; each thread computes some of the runs */
enum { ROWS_OF_PIECE = 64, MOST_RUNS = 32 };

/* A call, for one group of samples. */
struct group {
    struct vision_kernels *k;
    struct vision_norm_of of; /* this group's x, residual, mean, rstd */
    void *y, *dy, *dx;
    size_t rows, runs;
    bool backward;              /* which sums sum_runs makes */
    double *sums;               /* [runs, 2, channels] */
    float *pieces;              /* [runs, 3, channels]: a piece's sums, and the shift */
    float *scale, *bias;        /* [channels]: factors of normalise */
    float *of_dy, *of_x, *rest; /* [channels], backward */
    double *dgain, *dbias;      /* [channels], backward: over all groups */
};

/* Allocate the arrays of a group of up to `most_rows` rows: doubles before floats. Owner: the
 * caller, free; NULL: no memory. */
static void *room_for(struct group *g, size_t most_rows)
{
    size_t c = g->of.channels, runs = (most_rows + ROWS_OF_PIECE - 1) / ROWS_OF_PIECE;
    g->runs = runs < MOST_RUNS ? runs : MOST_RUNS;
    double *room = malloc((g->runs * 2 + 2) * c * sizeof(double) + (5 + 3 * g->runs) * c * sizeof(float));
    if (!room)
        return NULL;
    g->sums = room;
    g->dgain = room + g->runs * 2 * c;
    g->dbias = g->dgain + c;
    g->scale = (float *)(g->dbias + c);
    g->bias = g->scale + c;
    g->of_dy = g->bias + c;
    g->of_x = g->of_dy + c;
    g->rest = g->of_x + c;
    g->pieces = g->rest + c;
    memset(g->dgain, 0, 2 * c * sizeof *g->dgain);
    return room;
}

/* Row `row` of one of the group's matrices. */
static void *rows_of(const struct group *g, const void *matrix, size_t row)
{
    return matrix ? vision_cpu_at(g->k, matrix, row * g->of.channels) : NULL;
}

static void sum_piece(const struct group *g, float *sums, float *more, const float *shift, size_t first, size_t count)
{
    const struct vision_loops *loops = g->k->backend->loops;
    void *x = rows_of(g, g->of.x, first);
    if (g->backward)
        loops->norm_sums(sums, more, rows_of(g, g->dy, first), x, rows_of(g, g->of.residual, first), g->of.mean, g->scale, g->bias, count,
                         g->of.channels, g->of.relu);
    else
        loops->moments(sums, more, x, shift, count, g->of.channels);
}

static int group_threads(const struct group *g)
{
    return vision_cpu_threads(g->k, g->rows * g->of.channels);
}

/* forward: sums of x - shift and of its square, where shift is the group's first row; backward:
 * sums of dy and of dy * (x - mean). */
static void sum_runs(void *argument, int thread, int threads)
{
    const struct group *g = argument;
    size_t c = g->of.channels, pieces = (g->rows + ROWS_OF_PIECE - 1) / ROWS_OF_PIECE;
    struct dt_cpu_share mine = dt_cpu_share(g->runs, 1, thread, threads);
    for (size_t run = mine.first; run < mine.end; run++) {
        double *sums = g->sums + run * 2 * c;
        float *piece = g->pieces + run * 3 * c;
        memset(sums, 0, 2 * c * sizeof *sums);
        if (!g->backward)
            g->k->base.host.loops->widen(piece + 2 * c, g->of.x, c);
        for (size_t p = pieces * run / g->runs; p < pieces * (run + 1) / g->runs; p++) {
            size_t first = p * ROWS_OF_PIECE, count = g->rows - first < ROWS_OF_PIECE ? g->rows - first : ROWS_OF_PIECE;
            memset(piece, 0, 2 * c * sizeof *piece);
            sum_piece(g, piece, piece + c, piece + 2 * c, first, count);
            for (size_t i = 0; i < 2 * c; i++)
                sums[i] += (double)piece[i];
        }
    }
}

/* Add the sums of all runs to those of the first. */
static void join_runs(const struct group *g)
{
    size_t n = 2 * g->of.channels;
    for (size_t run = 1; run < g->runs; run++)
        for (size_t i = 0; i < n; i++)
            g->sums[i] += g->sums[run * n + i];
}

static void find_scale(const struct group *g)
{
    const struct dt_simd *loops = g->k->base.host.loops;
    size_t c = g->of.channels;
    loops->widen(g->scale, g->of.gain, c);
    loops->widen(g->bias, g->of.bias, c);
    for (size_t i = 0; i < c; i++)
        g->scale[i] *= g->of.rstd[i];
}

/* ---- forward ---- */

struct moments {
    double mean, variance;
};

/* Make the sums that moments_of reads. */
static void sum_moments(const struct group *g)
{
    dt_cpu_parallel(group_threads(g), sum_runs, (void *)g);
    join_runs(g);
    g->k->base.host.loops->widen(g->scale, g->of.x, g->of.channels); /* the shift */
}

static struct moments moments_of(const struct group *g, size_t channel)
{
    double n = (double)g->rows, off = g->sums[channel] / n;
    return (struct moments){(double)g->scale[channel] + off, fmax(g->sums[g->of.channels + channel] / n - off * off, 0)};
}

/* n: the number of rows that `of` is about. running: this channel's mean; its variance follows
 * after the means of all channels. NULL: none. */
static void use_moments(struct moments of, double n, float *mean, float *rstd, float *running, size_t channels)
{
    *mean = (float)of.mean;
    *rstd = (float)(1 / sqrt(of.variance + EPSILON));
    if (!running)
        return;
    running[0] += (float)(MOMENTUM * (of.mean - (double)running[0]));
    running[channels] += (float)(MOMENTUM * (of.variance * n / fmax(n - 1, 1) - (double)running[channels]));
}

static void statistics(const struct group *g, float *running)
{
    sum_moments(g);
    for (size_t i = 0; i < g->of.channels; i++)
        use_moments(moments_of(g, i), (double)g->rows, &g->of.mean[i], &g->of.rstd[i], running ? running + i : NULL, g->of.channels);
}

static void normalise_part(void *argument, int thread, int threads)
{
    const struct group *g = argument;
    struct dt_cpu_share share = dt_cpu_share(g->rows, 8, thread, threads);
    if (share.first < share.end)
        g->k->backend->loops->normalise(rows_of(g, g->y, share.first), rows_of(g, g->of.x, share.first),
                                        rows_of(g, g->of.residual, share.first), g->of.mean, g->scale, g->bias, share.end - share.first,
                                        g->of.channels, g->of.relu);
}

/* Group `index`'s part of a call's arrays. */
static struct group group_of(const struct group *all, const struct vision_norm_of *of, size_t index, void *y, void *dy, void *dx)
{
    struct group g = *all;
    size_t samples = of->samples - index * of->group < of->group ? of->samples - index * of->group : of->group;
    size_t first = index * of->group * of->positions;
    g.rows = samples * of->positions;
    g.of = *of;
    g.of.x = rows_of(all, of->x, first);
    g.of.residual = rows_of(all, of->residual, first);
    g.of.mean += index * of->channels;
    g.of.rstd += index * of->channels;
    g.y = rows_of(all, y, first);
    g.dy = rows_of(all, dy, first);
    g.dx = rows_of(all, dx, first);
    return g;
}

struct norm_task {
    struct vision_kernels *k;
    struct vision_norm a;
};

static dt_status run_norm(void *arguments)
{
    const struct norm_task *t = arguments;
    const struct vision_norm_of *of = &t->a.of;
    struct group all = {.k = t->k, .of = *of};
    void *room = room_for(&all, of->group * of->positions);
    DT_TRY(dt_allocated(room, "no host memory"));
    for (size_t i = 0; i * of->group < of->samples; i++) {
        struct group g = group_of(&all, of, i, t->a.y, NULL, NULL);
        if (t->a.part == VISION_NORM_WHOLE)
            statistics(&g, t->a.running);
        find_scale(&g);
        dt_cpu_parallel(group_threads(&g), normalise_part, &g);
    }
    free(room);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_norm, vision_norm)
{
    struct norm_task t = {k, *a};
    return dt_cpu_submit(stream, "norm", run_norm, &t, sizeof t);
}

/* ---- statistics of a group that several ranks have parts of ---- */

struct moments_task {
    struct vision_kernels *k;
    struct vision_moments a;
};

static dt_status run_moments(void *arguments)
{
    const struct moments_task *t = arguments;
    struct group g = {.k = t->k, .of = {.x = t->a.x, .channels = t->a.channels}, .rows = t->a.rows};
    void *room = room_for(&g, t->a.rows);
    DT_TRY(dt_allocated(room, "no host memory"));
    sum_moments(&g);
    for (size_t i = 0; i < t->a.channels; i++) {
        struct moments of = moments_of(&g, i);
        t->a.moments[i] = (float)of.mean;
        t->a.moments[t->a.channels + i] = (float)of.variance;
    }
    free(room);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_moments, vision_moments)
{
    struct moments_task t = {k, *a};
    return dt_cpu_submit(stream, "moments", run_moments, &t, sizeof t);
}

/* The parts have equally many rows, so the variance of all is the mean of their variances, plus the
 * variance of their means. */
static struct moments join_channel(const struct vision_join_moments *a, size_t channel)
{
    struct moments all = {0, 0};
    for (size_t part = 0; part < a->ranks; part++)
        all.mean += (double)a->moments[2 * part * a->channels + channel] / (double)a->ranks;
    for (size_t part = 0; part < a->ranks; part++) {
        const float *of = a->moments + 2 * part * a->channels + channel;
        double off = (double)of[0] - all.mean;
        all.variance += ((double)of[a->channels] + off * off) / (double)a->ranks;
    }
    return all;
}

static dt_status run_join_moments(void *arguments)
{
    const struct vision_join_moments *a = arguments;
    for (size_t i = 0; i < a->channels; i++)
        use_moments(join_channel(a, i), (double)(a->ranks * a->rows), &a->mean[i], &a->rstd[i], a->running ? a->running + i : NULL,
                    a->channels);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_join_moments, vision_join_moments)
{
    return dt_cpu_submit(stream, "join moments", run_join_moments, a, sizeof *a);
}

/* ---- backward ---- */

/* The gradient subtracts the means over the rows of dy, and of dy times the normalised x: Ioffe and
 * Szegedy, section 3. */
static void gradient_factors(const struct group *g, double n)
{
    size_t c = g->of.channels;
    for (size_t i = 0; i < c; i++) {
        double rstd = (double)g->of.rstd[i], scale = (double)g->scale[i], sum = g->sums[i], product = g->sums[c + i];
        g->of_dy[i] = (float)scale;
        g->of_x[i] = (float)(-scale * rstd * rstd * product / n);
        g->rest[i] = (float)(-scale * sum / n);
    }
}

/* The gradients of gain and bias are the sums themselves. */
static void add_parameter_gradients(const struct group *g)
{
    size_t c = g->of.channels;
    for (size_t i = 0; i < c; i++) {
        g->dbias[i] += g->sums[i];
        g->dgain[i] += g->sums[c + i] * (double)g->of.rstd[i];
    }
}

static void gradient_part(void *argument, int thread, int threads)
{
    const struct group *g = argument;
    struct dt_cpu_share share = dt_cpu_share(g->rows, 8, thread, threads);
    if (share.first < share.end)
        g->k->backend->loops->norm_gradient(rows_of(g, g->dx, share.first), rows_of(g, g->dy, share.first),
                                            rows_of(g, g->of.x, share.first), g->of_dy, g->of_x, g->rest, g->of.mean,
                                            share.end - share.first, g->of.channels);
}

/* Write the sums over the groups. Uses `scale` as memory for their fp32 values. */
static void write_gradient(const struct group *g, void *to, const double *from, bool accumulate)
{
    const struct dt_simd *loops = g->k->base.host.loops;
    for (size_t i = 0; i < g->of.channels; i++)
        g->scale[i] = (float)from[i];
    (accumulate ? loops->narrow_add : loops->narrow)(to, g->scale, g->of.channels);
}

struct gradient_task {
    struct vision_kernels *k;
    struct vision_norm_gradient a;
    bool finds_sums, makes_dx;
};

/* For one group: make the sums, or take those of all ranks; then compute the gradients. */
static void group_gradient(const struct gradient_task *t, struct group *g)
{
    size_t c = g->of.channels;
    find_scale(g);
    if (t->finds_sums) {
        dt_cpu_parallel(group_threads(g), sum_runs, g);
        join_runs(g);
        add_parameter_gradients(g);
    }
    for (size_t i = 0; t->a.sums && i < 2 * c; i++) {
        if (t->finds_sums)
            t->a.sums[i] = (float)g->sums[i];
        else
            g->sums[i] = (double)t->a.sums[i];
    }
    if (!t->makes_dx)
        return;
    gradient_factors(g, (double)g->rows * (t->a.sums ? (double)t->a.ranks : 1));
    dt_cpu_parallel(group_threads(g), gradient_part, g);
}

static dt_status run_gradient(void *arguments)
{
    const struct gradient_task *t = arguments;
    const struct vision_norm_of *of = &t->a.of;
    struct group all = {.k = t->k, .of = *of, .backward = true};
    void *room = room_for(&all, of->group * of->positions);
    DT_TRY(dt_allocated(room, "no host memory"));
    for (size_t i = 0; i * of->group < of->samples; i++) {
        struct group g = group_of(&all, of, i, NULL, t->a.dy, t->a.dx);
        group_gradient(t, &g);
    }
    if (t->finds_sums) {
        write_gradient(&all, t->a.dgain, all.dgain, t->a.accumulate);
        write_gradient(&all, t->a.dbias, all.dbias, t->a.accumulate);
    }
    free(room);
    return DT_OK;
}

VISION_KERNEL_FUNCTION(vision_cpu_norm_gradient, vision_norm_gradient)
{
    struct gradient_task t = {k, *a, .finds_sums = !a->sums, .makes_dx = true};
    return dt_cpu_submit(stream, "norm gradient", run_gradient, &t, sizeof t);
}

VISION_KERNEL_FUNCTION(vision_cpu_norm_gradient_sums, vision_norm_gradient)
{
    struct gradient_task t = {k, *a, .finds_sums = true};
    return dt_cpu_submit(stream, "norm gradient sums", run_gradient, &t, sizeof t);
}
