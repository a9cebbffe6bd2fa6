/* The kernels of a device (test/lib/device/device_kind.h) against formulas in double precision, in
 * each dtype: with one and three threads on cpu, with aligned and unaligned arrays on a GPU. */
#include "lib/model/stage.h"
#include "test/check.h"
#include "test/lib/device/device_kind.h"
#include "vision/kernels.h"

#include <stdlib.h>

/* An array twice: `values` for the formulas, `data` for the kernel. */
struct array {
    double *values;
    void *data;
    size_t count;
};

enum { MOST_ARRAYS = 32 };

static struct {
    enum dt_dtype dtype;
    struct dt_device *device;
    struct dt_stream *stream;
    struct vision_kernels *k;
    double *values[MOST_ARRAYS];
    int value_count;
    void *memory[MOST_ARRAYS]; /* on cpu */
    struct dt_buffer buffers[MOST_ARRAYS];
    int memory_count;
    size_t shift_bytes; /* bytes from an aligned address to the beginning of data */
} t;

static float to_float(const void *data, size_t i)
{
    unsigned short bits = t.dtype == DT_FP32 ? 0 : ((const unsigned short *)data)[i];
    return t.dtype == DT_FP32 ? ((const float *)data)[i] : t.dtype == DT_FP16 ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

static void set(void *data, size_t i, double value)
{
    if (t.dtype == DT_FP32)
        ((float *)data)[i] = (float)value;
    else
        ((unsigned short *)data)[i] = t.dtype == DT_FP16 ? dt_fp32_to_fp16((float)value) : dt_fp32_to_bf16((float)value);
}

/* Memory for kernels, full of NaN, until free_arrays; host memory that a GPU can access. */
static void *allocate(size_t bytes)
{
    int i = t.memory_count++;
    bool on_cpu = strcmp(test_device_kind(), "cpu") == 0;
    if (on_cpu)
        t.memory[i] = malloc(bytes);
    else
        CHECK_OK(dt_alloc_host(t.stream, DT_WORKSPACE, bytes + t.shift_bytes, &t.buffers[i]));
    CHECK_OK(dt_stream_synchronize(t.stream));
    return memset(on_cpu ? t.memory[i] : (char *)t.buffers[i].data + t.shift_bytes, 0xFF, bytes);
}

static struct array output(size_t count)
{
    struct array a = {calloc(count, sizeof *a.values), allocate(count * 4), count};
    t.values[t.value_count++] = a.values;
    return a;
}

/* For arrays that libraries need aligned. */
static struct array aligned_output(size_t count)
{
    size_t shift_bytes = t.shift_bytes;
    t.shift_bytes = 0;
    struct array a = output(count);
    t.shift_bytes = shift_bytes;
    return a;
}

/* Random numbers in [-1, 1), rounded to the dtype, in values and data. */
static struct array filled(struct array a)
{
    for (size_t i = 0; i < a.count; i++) {
        set(a.data, i, 2.0 * rand() / RAND_MAX - 1);
        a.values[i] = (double)to_float(a.data, i);
    }
    return a;
}

static struct array input(size_t count)
{
    return filled(output(count));
}

/* Libraries need parameters in device memory: returns the place of a copy there. */
static void *to_device(const struct array *a)
{
    if (strcmp(test_device_kind(), "cpu") == 0)
        return a->data;
    struct dt_buffer *buffer = &t.buffers[t.memory_count++];
    CHECK_OK(dt_alloc(t.stream, DT_WORKSPACE, 4 * a->count + t.shift_bytes, buffer));
    CHECK_OK(dt_copy_from_host(t.stream, (char *)buffer->data + t.shift_bytes, a->data, 4 * a->count));
    return (char *)buffer->data + t.shift_bytes;
}

static void from_device(const struct array *a, const void *there)
{
    if (a->data != there)
        CHECK_OK(dt_copy_to_host(t.stream, a->data, there, 4 * a->count));
}

static void free_arrays(void)
{
    CHECK_OK(dt_stream_synchronize(t.stream));
    while (t.value_count > 0)
        free(t.values[--t.value_count]);
    while (t.memory_count > 0) {
        int i = --t.memory_count;
        free(t.memory[i]);
        t.memory[i] = NULL;
        dt_free(t.stream, &t.buffers[i]);
    }
}

/* Errors are relative to the largest value. */
static void check_array(const struct array *a, const char *what)
{
    double largest = 1e-30, error = 0;
    CHECK_OK(dt_stream_synchronize(t.stream));
    for (size_t i = 0; i < a->count; i++)
        largest = fmax(largest, fabs(a->values[i]));
    for (size_t i = 0; i < a->count; i++) {
        double off = fabs((double)to_float(a->data, i) - a->values[i]) / largest;
        error = off <= error ? error : off; /* NaN too */
    }
    double allowed = t.dtype == DT_FP32 ? 5e-6 : t.dtype == DT_FP16 ? 0x1p-10 : 0x1p-8;
    CHECK(error <= allowed, "%s: error %.3g, limit %.3g, in %s, arrays %zu past alignment", what, error, allowed, dt_dtype_name(t.dtype),
          t.shift_bytes);
}

static void try_dtype(enum dt_dtype dtype, void (*body)(void))
{
    struct dt_model model = {.dtype = dtype};
    struct dt_kernels *kernels;
    t.dtype = dtype;
    CHECK_OK(dt_kernels_create(&vision_own_kernels, &model, t.device, &kernels));
    t.k = (struct vision_kernels *)kernels;
    if (t.k)
        body();
    free_arrays();
    dt_kernels_destroy(kernels);
}

static void for_each_setup(void (*body)(void))
{
    const char *kind = test_device_kind();
    bool on_cpu = strcmp(kind, "cpu") == 0;
    char reason[256];
    if (!dt_device_available(kind, reason, sizeof reason) || !vision_kernels_available(dt_device_kind_find(kind), reason, sizeof reason))
        SKIP("%.200s", reason);
    for (int way = 0; way < 2; way++) {
        struct dt_device_options options = {.threads = on_cpu ? 1 + 2 * way : 0, .local_size = 1};
        CHECK_OK(dt_device_create(kind, &options, &t.device));
        CHECK_OK(dt_stream_create(t.device, "compute", &t.stream));
        t.shift_bytes = on_cpu ? 0 : 4 * (size_t)way;
        for (enum dt_dtype dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
            if (!on_cpu || dtype != DT_FP16)
                try_dtype(dtype, body);
        dt_stream_destroy(t.stream);
        dt_device_destroy(t.device);
    }
}

/* Place of a channel of a position in an image. */
static size_t place(struct vision_shape s, size_t n, int row, int column, int c)
{
    return ((n * (size_t)s.height + (size_t)row) * (size_t)s.width + (size_t)column) * (size_t)s.channels + (size_t)c;
}

static bool inside(struct vision_shape s, int row, int column)
{
    return row >= 0 && column >= 0 && row < s.height && column < s.width;
}

/* ---- convolutions ---- */

/* All products of a convolution: forward, or backward for the gradients of x and w. */
static void convolve(const struct vision_sliding *o, const struct array *x, const struct array *w, struct array *y, struct array *dx,
                     struct array *dw)
{
    int kernel = o->window.kernel;
    for (size_t n = 0; n < o->samples; n++)
        for (int i = 0; i < o->out.height * o->out.width * o->out.channels * kernel * kernel; i++) {
            int s = i % kernel, r = i / kernel % kernel, rest = i / kernel / kernel, k = rest % o->out.channels;
            int q = rest / o->out.channels % o->out.width, p = rest / o->out.channels / o->out.width;
            int row = p * o->window.stride - o->window.padding + r * o->window.dilation;
            int column = q * o->window.stride - o->window.padding + s * o->window.dilation;
            size_t out = place(o->out, n, p, q, k), weight = (size_t)((k * kernel + r) * kernel + s) * (size_t)o->in.channels;
            for (int c = 0; inside(o->in, row, column) && c < o->in.channels; c++) {
                size_t in = place(o->in, n, row, column, c);
                if (!dx) {
                    y->values[out] += x->values[in] * w->values[weight + (size_t)c];
                } else {
                    dx->values[in] += y->values[out] * w->values[weight + (size_t)c];
                    dw->values[weight + (size_t)c] += y->values[out] * x->values[in];
                }
            }
        }
}

static size_t elems(const struct vision_sliding *o, struct vision_shape s)
{
    return o->samples * vision_shape_elems(s);
}

static void try_convolution(const struct vision_sliding *o, bool bias)
{
    size_t weights = (size_t)(o->out.channels * o->window.kernel * o->window.kernel * o->in.channels), k = (size_t)o->out.channels;
    struct array x = filled(aligned_output(elems(o, o->in))), w = input(weights), b = input(k), y = aligned_output(elems(o, o->out));
    struct array dy = filled(aligned_output(elems(o, o->out))), dx = aligned_output(elems(o, o->in)), dw = output(weights), db = output(k);
    void *w_there = to_device(&w), *dw_there = to_device(&dw);
    struct vision_convolution forward = {x.data, w_there, bias ? b.data : NULL, y.data, *o};
    struct vision_convolution_input_gradient inputs = {dy.data, w_there, dx.data, *o};
    struct vision_convolution_weight_gradient weight = {dy.data, x.data, dw_there, bias ? db.data : NULL, *o, false};
    for (size_t i = 0; i < y.count; i++)
        y.values[i] = bias ? b.values[i % k] : 0;
    convolve(o, &x, &w, &y, NULL, NULL);
    convolve(o, &x, &w, &dy, &dx, &dw);
    for (size_t i = 0; i < dy.count; i++)
        db.values[i % k] += dy.values[i];
    CHECK_OK(t.k->table->convolution(t.k, t.stream, &forward));
    CHECK_OK(t.k->table->convolution_input_gradient(t.k, t.stream, &inputs));
    CHECK_OK(t.k->table->convolution_weight_gradient(t.k, t.stream, &weight));
    from_device(&dw, dw_there);
    check_array(&y, "convolution");
    check_array(&dx, "input gradient");
    check_array(&dw, "weight gradient");
    if (bias)
        check_array(&db, "bias gradient");
    weight.accumulate = true;
    CHECK_OK(t.k->table->convolution_weight_gradient(t.k, t.stream, &weight));
    from_device(&dw, dw_there);
    for (size_t i = 0; i < dw.count; i++)
        dw.values[i] *= 2;
    for (size_t i = 0; i < db.count; i++)
        db.values[i] *= 2;
    check_array(&dw, "added weight gradient");
    if (bias)
        check_array(&db, "added bias gradient");
    free_arrays();
}

static struct vision_sliding sliding(size_t samples, int in, int out, int height, int width, struct vision_window w)
{
    int reach = w.dilation * (w.kernel - 1) + 1;
    return (struct vision_sliding){
        samples,
        {in, height, width},
        {out, (height + 2 * w.padding - reach) / w.stride + 1, (width + 2 * w.padding - reach) / w.stride + 1},
        w,
    };
}

static void convolutions(void)
{
    static const struct {
        size_t samples;
        int in, out, height, width;
        struct vision_window window;
    } tried[] = {{2, 3, 5, 13, 11, {7, 2, 3, 1}},
                 {3, 8, 16, 7, 5, {1, 1, 0, 1}},
                 {1, 16, 24, 9, 7, {3, 2, 1, 1}},
                 {2, 16, 8, 9, 10, {3, 1, 4, 4}},
                 {2, 12, 9, 6, 6, {1, 2, 0, 1}},
                 {5, 37, 10, 1, 1, {1, 1, 0, 1}},
                 {4, 4, 8, 8, 8, {1, 2, 0, 1}},
                 /* whole panels, and enough positions for cpu/weight_gradient.c on AVX2: parts of
                  * chunks, blocks, panels */
                 {3, 16, 10, 12, 13, {3, 1, 1, 1}},
                 {1, 16, 6, 69, 68, {3, 1, 1, 1}},
                 {2, 32, 7, 17, 15, {3, 2, 2, 2}},
                 {5, 16, 400, 15, 16, {1, 2, 0, 1}}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        struct vision_sliding o = sliding(tried[i].samples, tried[i].in, tried[i].out, tried[i].height, tried[i].width, tried[i].window);
        try_convolution(&o, i % 2);
    }
}

/* ---- batch normalisation ---- */

struct norm_shape {
    size_t samples, group, positions, channels;
    bool residual, relu;
};

static double normal_of(const struct norm_shape *s, const struct array *x, const struct array *mean, const struct array *rstd, size_t i)
{
    size_t g = i / s->channels / s->positions / s->group * s->channels + i % s->channels;
    return (x->values[i] - mean->values[g]) * rstd->values[g];
}

static double rows_of_group(const struct norm_shape *s, size_t i)
{
    size_t first = i / s->channels / s->positions / s->group * s->group;
    return (double)((s->samples - first < s->group ? s->samples - first : s->group) * s->positions);
}

/* For each channel of each group: sums of a (or of a times b). */
static void sum_by_group(const struct norm_shape *s, const double *a, const double *b, double *sums)
{
    for (size_t i = 0; i < s->samples * s->positions * s->channels; i++)
        sums[i / s->channels / s->positions / s->group * s->channels + i % s->channels] += a[i] * (b ? b[i] : 1);
}

static void try_norm(const struct norm_shape *s)
{
    size_t c = s->channels, groups = (s->samples + s->group - 1) / s->group, count = s->samples * s->positions * c;
    struct array x = input(count), gain = input(c), bias = input(c), residual = input(count), y = output(count);
    struct array mean = output(groups * c), rstd = output(groups * c), running = output(2 * c);
    float *means = mean.data, *rstds = rstd.data, *moved = running.data;
    enum dt_dtype dtype = t.dtype;
    for (size_t i = 0; i < count; i++) {
        set(x.data, i, x.values[i] + 3); /* a mean that is large compared with the variation */
        x.values[i] = (double)to_float(x.data, i);
    }
    sum_by_group(s, x.values, NULL, mean.values);
    for (size_t i = 0; i < groups * c; i++)
        mean.values[i] /= rows_of_group(s, i / c * s->group * s->positions * c);
    for (size_t i = 0; i < count; i++) {
        size_t g = i / c / s->positions / s->group * c + i % c;
        rstd.values[g] += (x.values[i] - mean.values[g]) * (x.values[i] - mean.values[g]);
    }
    for (size_t i = 0; i < 2 * c; i++)
        running.values[i] = moved[i] = (float)(i / c);
    for (size_t i = 0; i < groups * c; i++) {
        double n = rows_of_group(s, i / c * s->group * s->positions * c);
        running.values[i % c] += 0.1 * (mean.values[i] - running.values[i % c]);
        running.values[c + i % c] += 0.1 * (rstd.values[i] / (n - 1) - running.values[c + i % c]);
        rstd.values[i] = 1 / sqrt(rstd.values[i] / n + 1e-5);
    }
    for (size_t i = 0; i < count; i++) {
        y.values[i] = normal_of(s, &x, &mean, &rstd, i) * gain.values[i % c] + bias.values[i % c];
        y.values[i] += s->residual ? residual.values[i] : 0;
        y.values[i] = s->relu ? fmax(y.values[i], 0) : y.values[i];
    }
    struct vision_norm_of of = {x.data,       gain.data, bias.data, s->residual ? residual.data : NULL, means, rstds, s->samples, s->group,
                                s->positions, c,         s->relu};
    struct vision_norm a = {.of = of, .y = y.data, .running = moved};
    CHECK_OK(t.k->table->norm(t.k, t.stream, &a));
    check_array(&y, "norm");
    t.dtype = DT_FP32;
    check_array(&mean, "mean");
    check_array(&rstd, "rstd");
    check_array(&running, "running statistics");
    t.dtype = dtype;
    memset(y.data, 0xFF, 4 * count);
    a.part = VISION_NORM_AGAIN;
    a.running = NULL;
    CHECK_OK(t.k->table->norm(t.k, t.stream, &a));
    check_array(&y, "norm once more");

    /* backward: the chain rule through mean and variance */
    struct array dy = input(count), dx = output(count), dgain = output(c), dbias = output(c), normal = output(count);
    DT_FREED double *sums = calloc(2 * groups * c, sizeof *sums);
    for (size_t i = 0; i < count; i++) {
        dy.values[i] = s->relu && y.values[i] <= 0 ? 0 : dy.values[i];
        normal.values[i] = normal_of(s, &x, &mean, &rstd, i);
    }
    sum_by_group(s, dy.values, NULL, sums);
    sum_by_group(s, dy.values, normal.values, sums + groups * c);
    for (size_t i = 0; i < count; i++) {
        size_t g = i / c / s->positions / s->group * c + i % c;
        double n = rows_of_group(s, i), off = sums[g] / n + normal.values[i] * sums[groups * c + g] / n;
        dx.values[i] = gain.values[i % c] * rstd.values[g] * (dy.values[i] - off);
    }
    for (size_t i = 0; i < groups * c; i++) {
        dbias.values[i % c] += sums[i];
        dgain.values[i % c] += sums[groups * c + i];
    }
    struct vision_norm_gradient b = {of, dy.data, dx.data, dgain.data, dbias.data, false, NULL, 0};
    CHECK_OK(t.k->table->norm_gradient(t.k, t.stream, &b));
    check_array(&dx, "norm's input gradient");
    check_array(&dy, "gradient of the residual");
    check_array(&dgain, "gradient of the gain");
    check_array(&dbias, "gradient of the bias");
    free_arrays();
}

enum { PARTS = 2, PART_ROWS = 37, CHANNELS = 19 };

/* Compare with fp32 numbers that another kernel has computed. */
static void check_floats(const struct array *found, const float *wanted, const char *what)
{
    enum dt_dtype dtype = t.dtype;
    CHECK_OK(dt_stream_synchronize(t.stream));
    for (size_t i = 0; i < found->count; i++)
        found->values[i] = (double)wanted[i];
    t.dtype = DT_FP32;
    check_array(found, what);
    t.dtype = dtype;
}

/* Two ranks with half of the rows each compute the mean, rstd and running statistics of all. */
static void join_moments_of_two(const struct vision_norm_of *of, const float *running)
{
    size_t part_bytes = PART_ROWS * CHANNELS * dt_dtype_bytes(t.dtype);
    struct array moments = output(PARTS * 2 * CHANNELS), found = output(2 * CHANNELS), moved = output(2 * CHANNELS);
    float *numbers = moments.data, *statistics = found.data;
    memset(moved.data, 0, 2 * CHANNELS * sizeof(float));
    for (size_t part = 0; part < PARTS; part++) {
        struct vision_moments a = {(const char *)of->x + part * part_bytes, numbers + part * 2 * CHANNELS, PART_ROWS, CHANNELS};
        CHECK_OK(t.k->table->moments(t.k, t.stream, &a));
    }
    struct vision_join_moments join = {numbers, statistics, statistics + CHANNELS, moved.data, PARTS, PART_ROWS, CHANNELS};
    CHECK_OK(t.k->table->join_moments(t.k, t.stream, &join));
    check_floats(&found, of->mean, "mean and rstd of two ranks");
    check_floats(&moved, running, "running statistics of two ranks");
}

/* The same for the gradient, from sums that the ranks add. */
static void join_gradients_of_two(const struct vision_norm_gradient *whole, struct array *dy, struct array *dx)
{
    size_t part_bytes = PART_ROWS * CHANNELS * dt_dtype_bytes(t.dtype);
    float(*sums)[2 * CHANNELS] = allocate(PARTS * sizeof *sums);
    struct vision_norm_gradient parts[PARTS];
    for (size_t i = 0; i < dy->count; i++)
        set(dy->data, i, dy->values[i]);
    for (size_t part = 0; part < PARTS; part++) {
        parts[part] = *whole;
        parts[part].of.x = (const char *)whole->of.x + part * part_bytes;
        parts[part].of.samples = parts[part].of.group = 1;
        parts[part].dy = (char *)dy->data + part * part_bytes;
        parts[part].dx = (char *)dx->data + part * part_bytes;
        parts[part].sums = sums[part];
        parts[part].ranks = PARTS;
        CHECK_OK(t.k->table->norm_gradient_sums(t.k, t.stream, &parts[part]));
    }
    CHECK_OK(dt_stream_synchronize(t.stream));
    for (size_t i = 0; i < 2 * CHANNELS; i++)
        sums[0][i] = sums[1][i] = sums[0][i] + sums[1][i];
    for (size_t part = 0; part < PARTS; part++)
        CHECK_OK(t.k->table->norm_gradient(t.k, t.stream, &parts[part]));
    check_array(dx, "input gradient of two ranks");
}

static void norm_of_two_ranks(void)
{
    size_t count = PARTS * PART_ROWS * CHANNELS;
    struct array x = input(count), gain = input(CHANNELS), bias = input(CHANNELS), dy = input(count), dx = output(count), y = output(count);
    struct array of_parameters = output(2 * CHANNELS);
    float *statistics = allocate(2 * CHANNELS * sizeof *statistics), *running = allocate(2 * CHANNELS * sizeof *running);
    memset(running, 0, 2 * CHANNELS * sizeof *running);
    struct vision_norm_of of = {x.data, gain.data, bias.data, NULL,     statistics, statistics + CHANNELS,
                                PARTS,  PARTS,     PART_ROWS, CHANNELS, true};
    struct vision_norm norm = {.of = of, .y = y.data, .running = running};
    struct vision_norm_gradient gradient = {
        .of = of, .dy = dy.data, .dx = dx.data, .dgain = of_parameters.data, .dbias = (float *)of_parameters.data + CHANNELS};
    CHECK_OK(t.k->table->norm(t.k, t.stream, &norm));
    CHECK_OK(t.k->table->norm_gradient(t.k, t.stream, &gradient));
    join_moments_of_two(&of, running);
    for (size_t i = 0; i < count; i++)
        dx.values[i] = (double)to_float(dx.data, i);
    join_gradients_of_two(&gradient, &dy, &dx);
    free_arrays();
}

static void norms(void)
{
    norm_of_two_ranks();
    const struct norm_shape tried[] = {{4, 2, 35, 5, false, true},
                                       {3, 3, 97, 64, true, true},
                                       {4, 1, 9, 33, false, false},
                                       {5, 2, 130, 16, true, true},
                                       {9, 9, 1, 17, false, true}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        try_norm(&tried[i]);
}

/* ---- pooling and resampling ---- */

static void max_pools(void)
{
    struct vision_sliding o = sliding(2, 19, 19, 9, 12, (struct vision_window){3, 2, 1, 1});
    struct array x = input(elems(&o, o.in)), y = output(elems(&o, o.out)), dy = input(elems(&o, o.out)), dx = output(elems(&o, o.in));
    struct array places = output(elems(&o, o.out));
    for (size_t i = 0; i < y.count; i++) {
        size_t c = (size_t)o.in.channels, n = i / vision_shape_elems(o.out), best = 0;
        int q = (int)(i / c % (size_t)o.out.width), p = (int)(i / c / (size_t)o.out.width % (size_t)o.out.height);
        y.values[i] = -INFINITY;
        for (int e = 0; e < 9; e++) {
            int row = 2 * p - 1 + e / 3, column = 2 * q - 1 + e % 3;
            size_t at = inside(o.in, row, column) ? place(o.in, n, row, column, (int)(i % c)) : 0;
            if (!inside(o.in, row, column) || x.values[at] <= y.values[i])
                continue;
            y.values[i] = x.values[at];
            best = at;
        }
        dx.values[best] += dy.values[i];
    }
    struct vision_max_pool a = {x.data, y.data, places.data, o};
    struct vision_max_pool_gradient b = {dy.data, places.data, dx.data, o};
    CHECK_OK(t.k->table->max_pool(t.k, t.stream, &a));
    CHECK_OK(t.k->table->max_pool_gradient(t.k, t.stream, &b));
    check_array(&y, "max pool");
    check_array(&dx, "max pool's gradient");
}

static void mean_pools(void)
{
    size_t n = 3, positions = 35, c = 21;
    struct array x = input(n * positions * c), y = output(n * c), dy = input(n * c), dx = output(n * positions * c);
    for (size_t i = 0; i < x.count; i++) {
        size_t to = i / positions / c * c + i % c;
        y.values[to] += x.values[i] / (double)positions;
        dx.values[i] = dy.values[to] / (double)positions;
    }
    struct vision_mean_pool a = {x.data, y.data, n, positions, c}, b = {dy.data, dx.data, n, positions, c};
    CHECK_OK(t.k->table->mean_pool(t.k, t.stream, &a));
    CHECK_OK(t.k->table->mean_pool_gradient(t.k, t.stream, &b));
    check_array(&y, "mean pool");
    check_array(&dx, "mean pool's gradient");
}

/* Position i of the larger side is between two of the smaller: these, and the second's weight. */
static double neighbours(int i, int in, int out, int at[2])
{
    double where = fmax((i + 0.5) * in / out - 0.5, 0);
    at[0] = (int)where;
    at[1] = at[0] + 1 < in ? at[0] + 1 : at[0];
    return where - at[0];
}

static void try_resize(struct vision_shape in, struct vision_shape out)
{
    struct vision_sliding o = {2, in, out, {0}};
    struct array x = input(elems(&o, in)), y = output(elems(&o, out)), dy = input(elems(&o, out)), dx = output(elems(&o, in));
    for (size_t i = 0; i < y.count; i++) {
        size_t c = (size_t)in.channels, n = i / vision_shape_elems(out);
        int rows[2], columns[2];
        double down = neighbours((int)(i / c / (size_t)out.width % (size_t)out.height), in.height, out.height, rows);
        double right = neighbours((int)(i / c % (size_t)out.width), in.width, out.width, columns);
        for (int j = 0; j < 4; j++) {
            size_t at = place(in, n, rows[j / 2], columns[j % 2], (int)(i % c));
            double part = (j / 2 ? down : 1 - down) * (j % 2 ? right : 1 - right);
            y.values[i] += part * x.values[at];
            dx.values[at] += part * dy.values[i];
        }
    }
    struct vision_resize a = {x.data, y.data, 2, in, out}, b = {dy.data, dx.data, 2, in, out};
    CHECK_OK(t.k->table->resize(t.k, t.stream, &a));
    CHECK_OK(t.k->table->resize_gradient(t.k, t.stream, &b));
    check_array(&y, "resize");
    check_array(&dx, "resize's gradient");
    free_arrays();
}

static void pools(void)
{
    max_pools();
    free_arrays();
    mean_pools();
    free_arrays();
    try_resize((struct vision_shape){21, 4, 5}, (struct vision_shape){21, 31, 33});
    try_resize((struct vision_shape){16, 1, 1}, (struct vision_shape){16, 7, 6});
    try_resize((struct vision_shape){3, 5, 5}, (struct vision_shape){3, 5, 5});
}

/* ---- loss, dropout, columns, random numbers ---- */

static void losses(void)
{
    size_t rows = 131, classes = 21;
    struct array scores = input(rows * classes);
    int32_t *labels = allocate(rows * sizeof *labels);
    struct array of_loss = aligned_output(2); /* one number of eight bytes */
    double *loss = of_loss.data, wanted = *loss = 0.25;
    for (size_t r = 0; r < rows; r++) {
        double total = 0, *s = &scores.values[r * classes];
        labels[r] = r % 7 == 0 ? VISION_NO_LABEL : (int32_t)(r % classes);
        for (size_t i = 0; i < classes; i++)
            total += exp(s[i]);
        if (labels[r] != VISION_NO_LABEL)
            wanted += 0.5 * (log(total) - s[labels[r]]);
        for (size_t i = 0; i < classes; i++)
            s[i] = labels[r] == VISION_NO_LABEL ? 0 : 0.125 * (exp(s[i]) / total - ((size_t)labels[r] == i));
    }
    struct vision_loss a = {scores.data, labels, loss, rows, classes, 0.5f, 0.125f, false};
    CHECK_OK(t.k->table->loss(t.k, t.stream, &a));
    check_array(&scores, "gradient of the loss");
    CHECK(fabs(*loss - wanted) < 1e-5 * wanted, "loss %.9g, not %.9g", *loss, wanted);
}

/* Kept elements are scaled; a sample's mask does not depend on the other samples of the call; the
 * dropped fraction is about the probability. */
static void dropouts(void)
{
    size_t samples = 3, positions = 40, c = 50, one = positions * c, dropped = 0;
    struct array x = input(samples * one), y = output(samples * one), z = output(one);
    struct vision_dropout a = {x.data, y.data, samples, positions, c, 7, 3, 10, 0.25f}, b = a;
    b.from = (char *)x.data + 2 * one * dt_dtype_bytes(t.dtype);
    b.to = z.data;
    b.samples = 1;
    b.first_sample = 12;
    CHECK_OK(t.k->table->dropout(t.k, t.stream, &a));
    CHECK_OK(t.k->table->dropout(t.k, t.stream, &b));
    CHECK_OK(dt_stream_synchronize(t.stream));
    for (size_t i = 0; i < y.count; i++) {
        bool gone = to_float(y.data, i) == 0;
        dropped += gone;
        y.values[i] = gone ? 0 : x.values[i] / 0.75;
    }
    check_array(&y, "dropout");
    CHECK(fabs((double)dropped / (double)y.count - 0.25) < 0.03, "%zu of %zu are dropped", dropped, y.count);
    for (size_t i = 0; i < one; i++)
        CHECK(to_float(z.data, i) == to_float(y.data, 2 * one + i), "element %zu of sample 12 depends on the call", i);
}

static void columns(void)
{
    struct array part = input(7 * 3), whole = input(7 * 8);
    struct vision_copy_columns a = {part.data, (char *)whole.data + 2 * dt_dtype_bytes(t.dtype), 7, 3, 3, 8};
    for (size_t i = 0; i < part.count; i++)
        whole.values[i / 3 * 8 + 2 + i % 3] = part.values[i];
    CHECK_OK(t.k->table->copy_columns(t.k, t.stream, &a));
    check_array(&whole, "columns");
}

/* A file's bytes become the same as in torchvision's ToTensor and Normalize, at any place. */
static void pixels_of_files(void)
{
    static const double means[] = {0.485, 0.456, 0.406}, deviations[] = {0.229, 0.224, 0.225};
    enum { SIZE = 41, BYTES = SIZE * SIZE * 3, APART = BYTES + 1 };
    struct array images = output(2 * BYTES);
    uint8_t *pixels = allocate(2 * APART);
    for (int i = 0; i < 2 * APART; i++)
        pixels[i] = (uint8_t)(i * 37 / 3);
    for (int i = 0; i < 2 * BYTES; i++)
        images.values[i] = (pixels[i / BYTES * APART + i % BYTES] / 255.0 - means[i % 3]) / deviations[i % 3];
    struct vision_images a = {.images = images.data, .pixels = pixels, .image_bytes = APART, .samples = 2, .size = SIZE};
    CHECK_OK(t.k->table->images(t.k, t.stream, &a));
    check_array(&images, "pixels");
}

/* Images and weights do not depend on their division over calls, and have the right moments. */
static void random_numbers(void)
{
    size_t image = 11 * 11 * 3;
    struct array all = output(3 * image), last = output(image), weights = output(4000), some = output(100);
    int32_t *labels = allocate(3 * sizeof *labels);
    struct vision_images a = {all.data, NULL, 0, labels, 3, 1, 11, 10, 5, 20}, b = {last.data, NULL, 0, NULL, 1, 1, 11, 10, 5, 22};
    struct dt_initial w = {.to = weights.data, .count = 4000, .seed = 5, .tensor_id = 9, .init = DT_INIT_UNIFORM, .scale = 0.5f}, v = w;
    v.to = some.data;
    v.count = 100;
    v.first_element = 1234;
    CHECK_OK(t.k->table->images(t.k, t.stream, &a));
    CHECK_OK(t.k->table->images(t.k, t.stream, &b));
    CHECK_OK(dt_kernels_initialise(&t.k->base, t.stream, &w));
    CHECK_OK(dt_kernels_initialise(&t.k->base, t.stream, &v));
    CHECK_OK(dt_stream_synchronize(t.stream));
    for (size_t i = 0; i < image; i++)
        CHECK(to_float(last.data, i) == to_float(all.data, 2 * image + i), "pixel %zu of sample 22 depends on the call", i);
    for (size_t i = 0; i < 100; i++)
        CHECK(to_float(some.data, i) == to_float(weights.data, 1234 + i), "weight %zu depends on the call", i);
    double sum = 0, squares = 0, weight_squares = 0;
    for (size_t i = 0; i < all.count; i++) {
        sum += (double)to_float(all.data, i);
        squares += (double)to_float(all.data, i) * (double)to_float(all.data, i);
    }
    for (size_t i = 0; i < 4000; i++)
        weight_squares += (double)to_float(weights.data, i) * (double)to_float(weights.data, i);
    double n = (double)all.count;
    CHECK(fabs(sum / n) < 0.1 && fabs(squares / n - 1) < 0.1, "pixels: mean %g, square %g", sum / n, squares / n);
    CHECK(fabs(weight_squares / 4000 - 0.25 / 3) < 0.005, "weights: square %g", weight_squares / 4000);
    for (int i = 0; i < 3; i++)
        CHECK(labels[i] >= 0 && labels[i] < 10, "label %d", labels[i]);
}

static void rest(void)
{
    void (*const tests[])(void) = {losses, dropouts, columns, random_numbers, pixels_of_files};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tests[i]();
        free_arrays();
    }
}

#define IN_EACH_SETUP(test, body)                                                                                                          \
    static void test(void)                                                                                                                 \
    {                                                                                                                                      \
        for_each_setup(body);                                                                                                              \
    }
IN_EACH_SETUP(test_convolutions, convolutions)
IN_EACH_SETUP(test_norms, norms)
IN_EACH_SETUP(test_pools, pools)
IN_EACH_SETUP(test_rest, rest)

static const struct test_case cases[] = {
    {"convolutions and their gradients", test_convolutions},
    {"batch normalisation over groups of samples", test_norms},
    {"pooling and resampling", test_pools},
    {"loss, dropout, columns, random numbers", test_rest},
};

TEST_MAIN(cases)
