/* vision's table of kernels. First the arguments of each kernel with its formula and shapes, then
 * one list of all kernels (VISION_KERNELS), then the table that is made from it.
 *
 * Backends: cpu, cuda, and cost (computes nothing, for sim). All calls queue on `stream` and
 * return; pointers are device memory in the model's dtype unless said otherwise. Tensors are
 * [samples, height, width, channels], dense. Arithmetic is fp32 inside, rounded to the dtype once
 * at the end. Outputs are overwritten without being read, unless a comment says "accumulate" or
 * "adds". Outputs do not overlap inputs unless a comment says so. Argument structures are copied.
 * Errors: those of queueing; dt_stream_synchronize returns failures of the work itself. */
#pragma once

#include "lib/kernels/kernels.h"
#include "lib/model/stage.h"
#include "vision/layers.h"

/* The input and the output of a sliding window. */
struct vision_sliding {
    size_t samples;
    struct vision_shape in, out;
    struct vision_window window;
};

/* images [samples, size, size, 3]: pixels of mean 0 and standard deviation 1, uniform among 256
 * values; labels [samples * labels_of_image] int32, uniform in [0, classes). Both from random
 * counters (lib/base/random.h). first_sample is counted from the step's first one (begin_step),
 * here and below. images or labels may be NULL. pixels: 8-bit values, image_bytes from one image to
 * the next, from which images are made. They are normalised to about mean 0 and deviation 1 by
 * ImageNet's means and deviations, as in torchvision's reference training. */
struct vision_images {
    void *images;
    const uint8_t *pixels; /* NULL: random images */
    size_t image_bytes;
    int32_t *labels;
    size_t samples, labels_of_image;
    int size, classes;
    uint64_t seed;
    uint32_t first_sample;
};

/* y = x * w + b; w [out channels, kernel, kernel, in channels], b [out channels] or NULL. */
struct vision_convolution {
    const void *x, *w, *b;
    void *y;
    struct vision_sliding over;
};

/* dx = dy * w, with the window rotated by 180 degrees */
struct vision_convolution_input_gradient {
    const void *dy, *w;
    void *dx;
    struct vision_sliding over;
};

/* dw [shape of w], db [out channels], or NULL if the convolution has no bias. accumulate: added to
 * the old values. */
struct vision_convolution_weight_gradient {
    const void *dy, *x;
    void *dw, *db;
    struct vision_sliding over;
    bool accumulate;
};

/* The samples of which a batch normalisation computes statistics, for each channel: groups of
 * `group` consecutive samples with `positions` each; there are samples / group of them (the last
 * one may be smaller).
 *   y = (x - mean) * rstd * gain + bias + residual, then ReLU; residual may be NULL
 *   mean, rstd [groups, channels] fp32; rstd = 1 / sqrt(variance + 1e-5), the variance over n
 *   elements
 * Source  Ioffe, Szegedy, "Batch Normalization", 2015, algorithms 1 and 2. */
struct vision_norm_of {
    const void *x, *gain, *bias, *residual;
    float *mean, *rstd;
    size_t samples, group, positions, channels;
    bool relu;
};

/* The part of a normalisation to compute: all; or only y, from mean and rstd that exist, for the
 * first time (apply) or once more for backward (again). */
enum vision_norm_part { VISION_NORM_WHOLE, VISION_NORM_APPLY, VISION_NORM_AGAIN };

/* running [2, channels] fp32, mean and variance: each group moves the mean by a tenth of the
 * difference, the variance also, with its variance over n - 1; NULL: no running statistics. */
struct vision_norm {
    struct vision_norm_of of;
    void *y;
    float *running;
    enum vision_norm_part part;
};

/* One rank's statistics of a group that several ranks have parts of. moments [2, channels] fp32:
 * mean and variance, over n elements, of this rank's rows x [rows, channels]. */
struct vision_moments {
    const void *x;
    float *moments;
    size_t rows, channels;
};

/* mean, rstd and running, as above, from the parts of `ranks` ranks, of `rows` rows each: moments
 * [ranks, 2, channels].
 * Source  Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
 *         Variances", 1979. */
struct vision_join_moments {
    const float *moments;
    float *mean, *rstd, *running;
    size_t ranks, rows, channels;
};

/* The gradient of ReLU is applied to dy, in place, which then is also the residual's gradient. dx
 * may be dy. dgain, dbias [channels]; accumulate: both are added to. If several ranks have parts of
 * a group, there are two kernels: norm_gradient_sums applies ReLU's gradient, and writes the sums
 * over this rank's rows of dy and of dy * (x - mean) to sums [2, channels] fp32; norm_gradient then
 * computes only dx, from `sums` over all `ranks`. sums NULL: norm_gradient does all. */
struct vision_norm_gradient {
    struct vision_norm_of of;
    void *dy, *dx, *dgain, *dbias;
    bool accumulate;
    float *sums;
    size_t ranks;
};

/* y: the largest element of each window, the first of several equal ones. places [shape of y]: its
 * index among the kernel^2 elements of the window, row by row. */
struct vision_max_pool {
    const void *x;
    void *y;
    uint8_t *places;
    struct vision_sliding over;
};

struct vision_max_pool_gradient {
    const void *dy;
    const uint8_t *places;
    void *dx;
    struct vision_sliding over;
};

/* y [samples, channels] = mean over the positions of x [samples, positions, channels]; backward: dx
 * = dy / positions. */
struct vision_mean_pool {
    const void *from;
    void *to;
    size_t samples, positions, channels;
};

/* Bilinear resampling. The corners of the two images are at the same place, and pixels are areas
 * ("align_corners" is false). backward: its adjoint, from the gradient of `out` to that of `in`. */
struct vision_resize {
    const void *from;
    void *to;
    size_t samples;
    struct vision_shape in, out;
};

/* Copy columns of a matrix of `rows` rows to columns of another; strides are the lengths of their
 * rows. */
struct vision_copy_columns {
    const void *from;
    void *to;
    size_t rows, columns, from_stride, to_stride;
};

/* y = dropout(x) with `probability`. Backward: the same, of the gradient. */
struct vision_dropout {
    const void *from;
    void *to;
    size_t samples, positions, channels;
    uint64_t seed;
    uint32_t number; /* number of the dropout within the model, below 2^24 */
    uint32_t first_sample;
    float probability;
};

/* scores [rows, classes] become their gradient; *loss (fp64) += loss_scale * sum of -log
 * softmax(scores)[label]. A row with label 255 has no loss and gradient 0, if there are at most 255
 * classes. sum: the sum of all scores instead. */
struct vision_loss {
    void *scores;
    const int32_t *labels;
    double *loss;
    size_t rows, classes;
    float loss_scale, gradient_scale;
    bool sum;
};

enum { VISION_NO_LABEL = 255 };

/* The list: entry, struct of its arguments. */
#define VISION_KERNELS(ROW)                                                                                                                \
    ROW(images, vision_images)                                                                                                             \
    ROW(convolution, vision_convolution)                                                                                                   \
    ROW(convolution_input_gradient, vision_convolution_input_gradient)                                                                     \
    ROW(convolution_weight_gradient, vision_convolution_weight_gradient)                                                                   \
    ROW(norm, vision_norm)                                                                                                                 \
    ROW(moments, vision_moments)                                                                                                           \
    ROW(join_moments, vision_join_moments)                                                                                                 \
    ROW(norm_gradient, vision_norm_gradient)                                                                                               \
    ROW(norm_gradient_sums, vision_norm_gradient)                                                                                          \
    ROW(max_pool, vision_max_pool)                                                                                                         \
    ROW(max_pool_gradient, vision_max_pool_gradient)                                                                                       \
    ROW(mean_pool, vision_mean_pool)                                                                                                       \
    ROW(mean_pool_gradient, vision_mean_pool)                                                                                              \
    ROW(resize, vision_resize)                                                                                                             \
    ROW(resize_gradient, vision_resize)                                                                                                    \
    ROW(copy_columns, vision_copy_columns)                                                                                                 \
    ROW(dropout, vision_dropout)                                                                                                           \
    ROW(loss, vision_loss)

/* The signature of all kernels: VISION_KERNEL_FUNCTION(vision_cpu_norm, vision_norm) declares
 * vision_cpu_norm, or begins its definition. */
#define VISION_KERNEL_FUNCTION(name, arguments)                                                                                            \
    dt_status name(struct vision_kernels *k, struct dt_stream *stream, const struct arguments *a)

struct vision_kernel_table;

/* A family's kernels (lib/model/model.h): the kernels of all families, this table, and the
 * backend's data. */
struct vision_kernels {
    struct dt_kernels base;
    const struct vision_kernel_table *table, *plain; /* in use: the plain table, or while a step is traced the one around it */
    struct vision_backend *backend;
};

struct vision_kernel_table {
    const char *name;
    /* Create k->backend, which destroy frees (NULL after a failure); both NULL: there is none. */
    dt_status (*create)(struct vision_kernels *k);
    void (*destroy)(struct vision_kernels *k); /* streams must be synchronized */
    /* NULL: these kernels need no library. */
    bool (*available)(char *text, size_t text_bytes);
    const char
        /* for kernels that are not in this build: what is missing and which build option adds it;
         * nothing else is read then. Otherwise NULL */
        *missing;
#define VISION_KERNEL_ENTRY(entry, arguments) VISION_KERNEL_FUNCTION((*entry), arguments);
    VISION_KERNELS(VISION_KERNEL_ENTRY)
#undef VISION_KERNEL_ENTRY
};

extern const struct vision_kernel_table vision_kernels_cpu; /* cpu/backend.c, or none.c */
extern const struct vision_kernel_table vision_kernels_cost;
extern const struct vision_kernel_table vision_kernels_cuda; /* cuda/backend.c, or none.c */

/* The entries of the same name in struct dt_model_family. */
bool vision_kernels_available(const struct dt_device_kind *kind, char *text, size_t text_bytes);
bool vision_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes);
extern const struct dt_own_kernels vision_own_kernels;
dt_status vision_kernels_trace(struct dt_kernels *kernels, bool on);
