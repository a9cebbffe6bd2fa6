/* Pooling and resampling. Each thread computes some rows of images. Backward reads all gradients of
 * an element (gather) instead of adding to many elements (scatter), so that one thread computes
 * each element in a fixed order, and rounds once. */
#include "vision/cpu/kernels.h"

#include "lib/kernels/cpu/team.h"

#include <math.h>
#include <stdlib.h>

/* ---- shared by the calls of this file ---- */

enum { MOST_WINDOW = 64 };

/* `count` rows of images (or other pieces). `make` computes each, with memory for one float per
 * channel. */
struct rows_task {
    struct vision_kernels *k;
    void (*make)(const struct rows_task *t, size_t index, float *sums);
    size_t count, channels;
    const void *from;
    void *to;
    const uint8_t *places_in;
    uint8_t *places_out;
    struct vision_sliding over;
    size_t positions;
    size_t elems; /* elements of the larger side */
    float *sums;  /* [threads, channels] */
};

static void rows_part(void *argument, int thread, int threads)
{
    const struct rows_task *t = argument;
    struct dt_cpu_share share = dt_cpu_share(t->count, 1, thread, threads);
    for (size_t i = share.first; i < share.end; i++)
        t->make(t, i, t->sums + (size_t)thread * t->channels);
}

static dt_status run_rows(void *arguments)
{
    struct rows_task *t = arguments;
    int threads = vision_cpu_threads(t->k, t->elems);
    t->sums = malloc((size_t)threads * t->channels * sizeof *t->sums);
    DT_TRY(dt_allocated(t->sums, "no host memory"));
    dt_cpu_parallel(threads, rows_part, t);
    free(t->sums);
    return DT_OK;
}

/* The channels of image `sample` at a position. */
static void *at(const struct vision_kernels *k, const void *images, struct vision_shape s, size_t sample, int row, int column)
{
    size_t position = (sample * (size_t)s.height + (size_t)row) * (size_t)s.width + (size_t)column;
    return vision_cpu_at(k, images, position * (size_t)s.channels);
}

static void clear(float *sums, size_t channels)
{
    for (size_t i = 0; i < channels; i++)
        sums[i] = 0;
}

/* ---- the largest of each window ---- */

static void pool_row(const struct rows_task *t, size_t index, float *sums)
{
    const struct vision_sliding *o = &t->over;
    const struct vision_window *w = &o->window;
    size_t sample = index / (size_t)o->out.height;
    int p = (int)(index % (size_t)o->out.height);
    for (int q = 0; q < o->out.width; q++) {
        const void *window[MOST_WINDOW];
        uint8_t places[MOST_WINDOW];
        int count = 0;
        for (int e = 0; e < w->kernel * w->kernel; e++) {
            int row = p * w->stride - w->padding + e / w->kernel, column = q * w->stride - w->padding + e % w->kernel;
            if (row < 0 || column < 0 || row >= o->in.height || column >= o->in.width)
                continue;
            window[count] = at(t->k, t->from, o->in, sample, row, column);
            places[count++] = (uint8_t)e;
        }
        size_t position = (index * (size_t)o->out.width + (size_t)q) * t->channels;
        t->k->backend->loops->max_pool(vision_cpu_at(t->k, t->to, position), t->places_out + position, window, places, count, t->channels);
    }
}

VISION_KERNEL_FUNCTION(vision_cpu_max_pool, vision_max_pool)
{
    struct rows_task t = {.k = k,
                          .make = pool_row,
                          .count = a->over.samples * (size_t)a->over.out.height,
                          .channels = (size_t)a->over.in.channels,
                          .elems = a->over.samples * vision_shape_elems(a->over.in),
                          .from = a->x,
                          .to = a->y,
                          .places_out = a->places,
                          .over = a->over};
    return dt_cpu_submit(stream, "max pool", run_rows, &t, sizeof t);
}

/* The windows that contain position i along one side of the image: from *first to *last. */
static void windows_with(int i, int windows, const struct vision_window *w, int *first, int *last)
{
    int least = i + w->padding - w->kernel + 1;
    *first = least <= 0 ? 0 : (least + w->stride - 1) / w->stride;
    *last = (i + w->padding) / w->stride;
    *last = *last < windows - 1 ? *last : windows - 1;
}

static void pool_gradient_row(const struct rows_task *t, size_t index, float *sums)
{
    const struct vision_sliding *o = &t->over;
    const struct vision_window *w = &o->window;
    size_t sample = index / (size_t)o->in.height;
    int row = (int)(index % (size_t)o->in.height), p_first, p_last, q_first, q_last;
    windows_with(row, o->out.height, w, &p_first, &p_last);
    for (int column = 0; column < o->in.width; column++) {
        windows_with(column, o->out.width, w, &q_first, &q_last);
        clear(sums, t->channels);
        for (int p = p_first; p <= p_last; p++)
            for (int q = q_first; q <= q_last; q++) {
                int place = (row + w->padding - p * w->stride) * w->kernel + column + w->padding - q * w->stride;
                size_t position = ((sample * (size_t)o->out.height + (size_t)p) * (size_t)o->out.width + (size_t)q) * t->channels;
                t->k->backend->loops->max_pool_gradient(sums, vision_cpu_at(t->k, t->from, position), t->places_in + position,
                                                        (uint8_t)place, t->channels);
            }
        t->k->base.host.loops->narrow(at(t->k, t->to, o->in, sample, row, column), sums, t->channels);
    }
}

VISION_KERNEL_FUNCTION(vision_cpu_max_pool_gradient, vision_max_pool_gradient)
{
    struct rows_task t = {.k = k,
                          .make = pool_gradient_row,
                          .count = a->over.samples * (size_t)a->over.in.height,
                          .channels = (size_t)a->over.in.channels,
                          .elems = a->over.samples * vision_shape_elems(a->over.in),
                          .from = a->dy,
                          .to = a->dx,
                          .places_in = a->places,
                          .over = a->over};
    return dt_cpu_submit(stream, "max pool gradient", run_rows, &t, sizeof t);
}

/* ---- the mean of all positions ---- */

static void mean_row(const struct rows_task *t, size_t sample, float *sums)
{
    clear(sums, t->channels);
    for (size_t p = 0; p < t->positions; p++)
        t->k->backend->loops->add_scaled(sums, vision_cpu_at(t->k, t->from, (sample * t->positions + p) * t->channels), 1, t->channels);
    for (size_t i = 0; i < t->channels; i++)
        sums[i] /= (float)t->positions;
    t->k->base.host.loops->narrow(vision_cpu_at(t->k, t->to, sample * t->channels), sums, t->channels);
}

static void mean_gradient_row(const struct rows_task *t, size_t sample, float *sums)
{
    clear(sums, t->channels);
    t->k->backend->loops->add_scaled(sums, vision_cpu_at(t->k, t->from, sample * t->channels), 1 / (float)t->positions, t->channels);
    for (size_t p = 0; p < t->positions; p++)
        t->k->base.host.loops->narrow(vision_cpu_at(t->k, t->to, (sample * t->positions + p) * t->channels), sums, t->channels);
}

static struct rows_task mean_task(struct vision_kernels *k, const struct vision_mean_pool *a,
                                  void (*make)(const struct rows_task *t, size_t index, float *sums))
{
    return (struct rows_task){.k = k,
                              .make = make,
                              .count = a->samples,
                              .channels = a->channels,
                              .elems = a->samples * a->positions * a->channels,
                              .positions = a->positions,
                              .from = a->from,
                              .to = a->to};
}

VISION_KERNEL_FUNCTION(vision_cpu_mean_pool, vision_mean_pool)
{
    struct rows_task t = mean_task(k, a, mean_row);
    return dt_cpu_submit(stream, "mean pool", run_rows, &t, sizeof t);
}

VISION_KERNEL_FUNCTION(vision_cpu_mean_pool_gradient, vision_mean_pool)
{
    struct rows_task t = mean_task(k, a, mean_gradient_row);
    return dt_cpu_submit(stream, "mean pool gradient", run_rows, &t, sizeof t);
}

/* ---- bilinear resampling ---- */

/* Position i of a side of `out` is between two positions of `in`: the second has the weight
 * `second`, the first 1 - second. */
struct between {
    int first, last;
    float second;
};

static struct between between(int i, int in, int out)
{
    float place = fmaxf(((float)i + 0.5f) * ((float)in / (float)out) - 0.5f, 0);
    int first = (int)place < in - 1 ? (int)place : in - 1;
    return (struct between){first, first < in - 1 ? first + 1 : first, place - (float)first};
}

static void resize_row(const struct rows_task *t, size_t index, float *sums)
{
    const struct vision_sliding *o = &t->over;
    void (*add)(float *, const void *, float, size_t) = t->k->backend->loops->add_scaled;
    size_t sample = index / (size_t)o->out.height;
    int p = (int)(index % (size_t)o->out.height);
    struct between rows = between(p, o->in.height, o->out.height);
    for (int q = 0; q < o->out.width; q++) {
        struct between columns = between(q, o->in.width, o->out.width);
        clear(sums, t->channels);
        add(sums, at(t->k, t->from, o->in, sample, rows.first, columns.first), (1 - rows.second) * (1 - columns.second), t->channels);
        add(sums, at(t->k, t->from, o->in, sample, rows.first, columns.last), (1 - rows.second) * columns.second, t->channels);
        add(sums, at(t->k, t->from, o->in, sample, rows.last, columns.first), rows.second * (1 - columns.second), t->channels);
        add(sums, at(t->k, t->from, o->in, sample, rows.last, columns.last), rows.second * columns.second, t->channels);
        t->k->base.host.loops->narrow(at(t->k, t->to, o->out, sample, p, q), sums, t->channels);
    }
}

/* The weight of position i of `in` in position p of `out`. */
static float part_of(int i, int p, int in, int out)
{
    struct between b = between(p, in, out);
    return (b.first == i ? 1 - b.second : 0) + (b.last == i ? b.second : 0);
}

/* The positions of `out` in which position i of `in` may have a weight: [*first, *end). */
static void reach(int i, int in, int out, int *first, int *end)
{
    float scale = (float)out / (float)in;
    int low = (int)floorf(((float)i - 0.5f) * scale) - 1, high = (int)ceilf(((float)i + 1.5f) * scale) + 1;
    *first = low > 0 ? low : 0;
    *end = high < out ? high : out;
}

static void resize_gradient_row(const struct rows_task *t, size_t index, float *sums)
{
    const struct vision_sliding *o = &t->over;
    size_t sample = index / (size_t)o->in.height;
    int row = (int)(index % (size_t)o->in.height), p_first, p_end, q_first, q_end;
    reach(row, o->in.height, o->out.height, &p_first, &p_end);
    for (int column = 0; column < o->in.width; column++) {
        reach(column, o->in.width, o->out.width, &q_first, &q_end);
        clear(sums, t->channels);
        for (int p = p_first; p < p_end; p++)
            for (int q = q_first; q < q_end; q++) {
                float part = part_of(row, p, o->in.height, o->out.height) * part_of(column, q, o->in.width, o->out.width);
                if (part > 0)
                    t->k->backend->loops->add_scaled(sums, at(t->k, t->from, o->out, sample, p, q), part, t->channels);
            }
        t->k->base.host.loops->narrow(at(t->k, t->to, o->in, sample, row, column), sums, t->channels);
    }
}

static struct rows_task resize_task(struct vision_kernels *k, const struct vision_resize *a, int height,
                                    void (*make)(const struct rows_task *t, size_t index, float *sums))
{
    return (struct rows_task){.k = k,
                              .make = make,
                              .count = a->samples * (size_t)height,
                              .channels = (size_t)a->in.channels,
                              .elems = a->samples * vision_shape_elems(a->out),
                              .from = a->from,
                              .to = a->to,
                              .over = {.samples = a->samples, .in = a->in, .out = a->out}};
}

VISION_KERNEL_FUNCTION(vision_cpu_resize, vision_resize)
{
    struct rows_task t = resize_task(k, a, a->out.height, resize_row);
    return dt_cpu_submit(stream, "resize", run_rows, &t, sizeof t);
}

VISION_KERNEL_FUNCTION(vision_cpu_resize_gradient, vision_resize)
{
    struct rows_task t = resize_task(k, a, a->in.height, resize_gradient_row);
    return dt_cpu_submit(stream, "resize gradient", run_rows, &t, sizeof t);
}
