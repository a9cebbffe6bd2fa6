/* vision's own table of kernels: what a layer needs computed. First the arguments of each kernel with its formula and shapes, then one list of
 * all kernels (VISION_KERNELS), then the table that follows from it.
 *
 * Backends: cpu, and cost (computes nothing, for sim). All calls queue on `stream` and return; pointers are device memory in the model's dtype
 * unless said otherwise. Tensors are [samples, height, width, channels], dense. Arithmetic is fp32 inside, rounded to the dtype once at the
 * end. Unless "accumulate" or "adds" is said, outputs are overwritten without being read. Outputs do not overlap inputs unless said. Argument
 * structures are copied. Errors: what queueing can return; failures of the work itself come from dt_stream_synchronize. */
#ifndef VISION_KERNELS_H
#define VISION_KERNELS_H

#include "lib/kernels/kernels.h"
#include "lib/model/stage.h"
#include "vision/layers.h"

/* The input of a window, and its output. */
struct vision_sliding {
    size_t samples;
    struct vision_shape in, out;
    struct vision_window window;
};

/* images [samples, size, size, 3]: pixels of mean 0 and standard deviation 1, uniform among 256 values; labels [samples * labels_of_image]
 * int32, uniform in [0, classes). Both by counter (lib/base/random.h). first_sample is counted from the step's first one (begin_step), as in
 * all that follows. Either may be NULL. With pixels, of 8 bits and image_bytes from one image to the next, images are made of them: brought
 * to about mean 0 and deviation 1 by ImageNet's means and deviations, as torchvision's references do. */
struct vision_images {
    void *images;
    const uint8_t *pixels; /* NULL: none */
    size_t image_bytes;
    int32_t *labels;
    size_t samples, labels_of_image;
    int size, classes;
    uint64_t seed;
    uint32_t first_sample;
};

/* to [count] uniform in [-bound, bound): elements of the tensor `tensor_id` from first_element on. */
struct vision_uniform {
    void *to;
    size_t count;
    uint64_t seed, first_element;
    uint32_t tensor_id;
    float bound;
};

/* y = x * w + b; w [out channels, kernel, kernel, in channels], b [out channels] or NULL. */
struct vision_convolution {
    const void *x, *w, *b;
    void *y;
    struct vision_sliding over;
};

/* dx = dy * w, turned round */
struct vision_convolution_input_gradient {
    const void *dy, *w;
    void *dx;
    struct vision_sliding over;
};

/* dw [as w], db [out channels] or NULL, if the convolution has a bias. accumulate: added to the
 * existing ones. */
struct vision_convolution_weight_gradient {
    const void *dy, *x;
    void *dw, *db;
    struct vision_sliding over;
    bool accumulate;
};

/* What a batch normalisation takes its statistics of: `group` consecutive samples of `positions` each, of which there are
 * samples / group (the last one may be smaller), for each channel.
 *   y = (x - mean) * rstd * gain + bias + residual, then ReLU; residual may be NULL
 *   mean, rstd [groups, channels] fp32; rstd = 1 / sqrt(variance + 1e-5), the variance over n elements
 * Source  Ioffe, Szegedy, "Batch Normalization", 2015, algorithms 1 and 2. */
struct vision_norm_of {
    const void *x, *gain, *bias, *residual;
    float *mean, *rstd;
    size_t samples, group, positions, channels;
    bool relu;
};

/* What of a normalisation is done: all of it; or mean and rstd are there, and only y is made of them: the first time, or once more for
 * backward. */
enum vision_norm_part { VISION_NORM_WHOLE, VISION_NORM_APPLY, VISION_NORM_AGAIN };

/* running [2, channels] fp32, mean and variance: each group moves it by a tenth, the variance by that over n - 1; NULL: nothing is moved. */
struct vision_norm {
    struct vision_norm_of of;
    void *y;
    float *running;
    enum vision_norm_part part;
};

/* The statistics of a group that several ranks have parts of. moments [2, channels] fp32: mean and variance, over n elements, of the rows x
 * [rows, channels] of this rank. */
struct vision_moments {
    const void *x;
    float *moments;
    size_t rows, channels;
};

/* mean, rstd and running, as above, of `ranks` such parts, all of `rows` rows: moments [ranks, 2, channels].
 * Source  Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979. */
struct vision_join_moments {
    const float *moments;
    float *mean, *rstd, *running;
    size_t ranks, rows, channels;
};

/* The ReLU's own gradient is applied to dy, which then is the residual's gradient, too. dx may be dy. dgain, dbias [channels]; accumulate: both add.
 * Where a group is that of several ranks, norm_gradient_sums does this and writes the sums of this rank's rows, of dy and of its product with
 * x - mean, to sums [2, channels] fp32; and norm_gradient makes dx alone, of those of all `ranks`. NULL: it does everything. */
struct vision_norm_gradient {
    struct vision_norm_of of;
    void *dy, *dx, *dgain, *dbias;
    bool accumulate;
    float *sums;
    size_t ranks;
};

/* y: the largest of each window, of several equal ones the first; places [as y] say which of its kernel^2 elements, row by row, it is. */
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

/* y [samples, channels] = mean over the positions of x [samples, positions, channels]; backward: dx = dy / positions. */
struct vision_mean_pool {
    const void *from;
    void *to;
    size_t samples, positions, channels;
};

/* Bilinear: the corners of the two images are at the same place, and pixels are areas ("align_corners" is false). backward: its adjoint, from
 * the gradient of `out` to that of `in`. */
struct vision_resize {
    const void *from;
    void *to;
    size_t samples;
    struct vision_shape in, out;
};

/* Columns of a matrix of `rows` rows become columns of another one; strides are the lengths of their rows. */
struct vision_copy_columns {
    const void *from;
    void *to;
    size_t rows, columns, from_stride, to_stride;
};

/* y = x, dropped out with `probability`; of the gradient the same. */
struct vision_dropout {
    const void *from;
    void *to;
    size_t samples, positions, channels;
    uint64_t seed;
    uint32_t number; /* of the dropout in the model, below 2^24 */
    uint32_t first_sample;
    float probability;
};

/* scores [rows, classes] become their gradient; *loss (fp64) += loss_scale * sum of -log softmax(scores)[label]. A row whose label is 255 has
 * neither where classes are below that. sum: the sum of all scores instead. */
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
    ROW(uniform, vision_uniform)                                                                                                           \
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

/* The one signature: VISION_KERNEL_FUNCTION(vision_cpu_norm, vision_norm) declares or begins vision_cpu_norm. */
#define VISION_KERNEL_FUNCTION(name, arguments)                                                                                            \
    dt_status name(struct vision_kernels *k, struct dt_stream *stream, const struct arguments *a)

struct vision_kernel_table;

/* A family's kernels (lib/model/model.h): what all families need, and this table with what its backend keeps. */
struct vision_kernels {
    struct dt_kernels base;
    const struct vision_kernel_table *table, *plain; /* what is in use: while a step is traced those around the plain ones */
    struct vision_backend *backend;
};

struct vision_kernel_table {
    const char *name;
    /* k->backend, which destroy takes back (also NULL, after a failure). */
    dt_status (*create)(struct vision_kernels *k);
    void (*destroy)(struct vision_kernels *k); /* streams must be synchronized */
    /* NULL: they need no library. */
    bool (*available)(char *text, size_t text_bytes);
    const char
        *missing; /* of kernels that are not in this build: what it is and what brings it, and nothing else is looked at. Else NULL */
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

#endif
