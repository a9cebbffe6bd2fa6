/* Kernels of the sim device: they accept everything and compute nothing. Memory is what the callers allocate around them. Where the device has
 * costs (lib/device/sim.h), each adds the work that it would be to the program that is recorded.
 *
 * Convolutions are products (lib/cost/cost.h). All else moves memory, in as many passes and launches as where a framework runs each operation
 * by itself, normalisation, addition and ReLU apart: PyTorch without a compiler, which the profiles describe. */
#include "lib/cost/cost.h"
#include "lib/device/sim.h"
#include "vision/kernels.h"

static dt_status cost_create(struct vision_kernels *k)
{
    return DT_OK;
}

static void cost_destroy(struct vision_kernels *k)
{
}

/* NULL: nothing costs anything. */
static const struct dt_costs *costs_of(const struct vision_kernels *k)
{
    const struct dt_sim_device *described = dt_sim_device_of(k->base.device);
    return described ? described->costs : NULL;
}

enum phase { FORWARD, BACKWARD };

/* Forward is issued by the framework's interpreter, operation for operation; backward by its compiled engine. */
static dt_status work(const struct dt_costs *c, struct dt_stream *stream, const char *label, enum phase phase, double launches,
                      double seconds)
{
    double launch_s = phase == BACKWARD ? c->profile.host.launch_s : c->profile.host.interpreter_launch_s * c->interpreter_sharers;
    return dt_sim_work(stream, launches, launches * launch_s, seconds, label);
}

/* `elems` elements of the model's dtype cross the memory in `launches` kernels. */
static dt_status moves(const struct vision_kernels *k, struct dt_stream *stream, const char *label, enum phase phase, double launches,
                       double elems)
{
    const struct dt_costs *c = costs_of(k);
    double bytes = elems * (double)dt_dtype_bytes(k->base.dtype);
    return c ? work(c, stream, label, phase, launches, dt_cost_memory_s(c, launches, bytes)) : DT_OK;
}

static double elems_of(size_t samples, struct vision_shape shape)
{
    return (double)samples * (double)vision_shape_elems(shape);
}

/* ---- convolutions ---- */

/* With m rows, n columns and k inside; what is read and written is the same in all three passes. */
static dt_status convolution(const struct vision_kernels *k, struct dt_stream *stream, const char *label, enum phase phase,
                             const struct vision_sliding *o, double m, double n, double inner)
{
    const struct dt_costs *c = costs_of(k);
    if (!c)
        return DT_OK;
    double weights = (double)o->in.channels * o->out.channels * o->window.kernel * o->window.kernel;
    double moved = elems_of(o->samples, o->in) + elems_of(o->samples, o->out) + weights;
    size_t row = (size_t)(o->in.channels < o->out.channels ? o->in.channels : o->out.channels);
    double seconds = dt_cost_implicit_product_s(c, m, n, inner, row, moved, dt_dtype_bytes(k->base.dtype));
    return work(c, stream, label, phase, 1, seconds);
}

static double places(const struct vision_sliding *o)
{
    return (double)o->samples * o->out.height * o->out.width;
}

static double window_elems(const struct vision_sliding *o, int channels)
{
    return (double)channels * o->window.kernel * o->window.kernel;
}

static VISION_KERNEL_FUNCTION(cost_convolution, vision_convolution)
{
    return convolution(k, stream, "convolution", FORWARD, &a->over, places(&a->over), a->over.out.channels,
                       window_elems(&a->over, a->over.in.channels));
}

/* Of the window's elements those count that meet a place of the output: as many operations as forward. */
static VISION_KERNEL_FUNCTION(cost_convolution_input_gradient, vision_convolution_input_gradient)
{
    double stride = (double)a->over.window.stride * a->over.window.stride;
    return convolution(k, stream, "convolution_input_gradient", BACKWARD, &a->over, places(&a->over) * stride, a->over.in.channels,
                       window_elems(&a->over, a->over.out.channels) / stride);
}

static VISION_KERNEL_FUNCTION(cost_convolution_weight_gradient, vision_convolution_weight_gradient)
{
    return convolution(k, stream, "convolution_weight_gradient", BACKWARD, &a->over, a->over.out.channels,
                       window_elems(&a->over, a->over.in.channels), places(&a->over));
}

/* ---- normalisation ---- */

/* x is read for the statistics, where they are not there, and again with y written; y is read and written by the addition, which reads the
 * residual, and by the ReLU. A norm that is made once more is one kernel of dtbench's own. */
static VISION_KERNEL_FUNCTION(cost_norm, vision_norm)
{
    double elems = (double)a->of.samples * (double)a->of.positions * (double)a->of.channels;
    bool residual = a->of.residual, relu = a->of.relu;
    if (a->part == VISION_NORM_AGAIN)
        return moves(k, stream, "norm", BACKWARD, 1, elems * (residual ? 3 : 2));
    return moves(k, stream, "norm", FORWARD, 1 + residual + relu,
                 elems * ((a->part == VISION_NORM_WHOLE ? 3 : 2) + (residual ? 3 : 0) + (relu ? 2 : 0)));
}

static VISION_KERNEL_FUNCTION(cost_moments, vision_moments)
{
    return moves(k, stream, "moments", FORWARD, 1, (double)a->rows * (double)a->channels);
}

static VISION_KERNEL_FUNCTION(cost_join_moments, vision_join_moments)
{
    return moves(k, stream, "join_moments", FORWARD, 1, 2 * (double)a->ranks * (double)a->channels);
}

/* ReLU: dy and its output are read, one written. The norm: dy and x are read for the sums, and again with dx written; where the sums are of
 * several ranks, by two kernels. */
static VISION_KERNEL_FUNCTION(cost_norm_gradient, vision_norm_gradient)
{
    double elems = (double)a->of.samples * (double)a->of.positions * (double)a->of.channels;
    if (a->sums)
        return moves(k, stream, "norm_gradient", BACKWARD, 1, elems * 3);
    return moves(k, stream, "norm_gradient", BACKWARD, 1 + a->of.relu, elems * (5 + (a->of.relu ? 3 : 0)));
}

static VISION_KERNEL_FUNCTION(cost_norm_gradient_sums, vision_norm_gradient)
{
    double elems = (double)a->of.samples * (double)a->of.positions * (double)a->of.channels;
    return moves(k, stream, "norm_gradient_sums", BACKWARD, 1 + a->of.relu, elems * (2 + (a->of.relu ? 3 : 0)));
}

/* ---- what reads one side once and writes the other ---- */

static VISION_KERNEL_FUNCTION(cost_max_pool, vision_max_pool)
{
    return moves(k, stream, "max_pool", FORWARD, 1, elems_of(a->over.samples, a->over.in) + 2 * elems_of(a->over.samples, a->over.out));
}

static VISION_KERNEL_FUNCTION(cost_max_pool_gradient, vision_max_pool_gradient)
{
    double elems = elems_of(a->over.samples, a->over.in) + 2 * elems_of(a->over.samples, a->over.out);
    return moves(k, stream, "max_pool_gradient", BACKWARD, 1, elems);
}

static double pooled(const struct vision_mean_pool *a)
{
    return (double)a->samples * (double)a->channels * (double)(a->positions + 1);
}

static VISION_KERNEL_FUNCTION(cost_mean_pool, vision_mean_pool)
{
    return moves(k, stream, "mean_pool", FORWARD, 1, pooled(a));
}

static VISION_KERNEL_FUNCTION(cost_mean_pool_gradient, vision_mean_pool)
{
    return moves(k, stream, "mean_pool_gradient", BACKWARD, 1, pooled(a));
}

static VISION_KERNEL_FUNCTION(cost_resize, vision_resize)
{
    return moves(k, stream, "resize", FORWARD, 1, elems_of(a->samples, a->in) + elems_of(a->samples, a->out));
}

static VISION_KERNEL_FUNCTION(cost_resize_gradient, vision_resize)
{
    return moves(k, stream, "resize_gradient", BACKWARD, 1, elems_of(a->samples, a->in) + elems_of(a->samples, a->out));
}

static VISION_KERNEL_FUNCTION(cost_copy_columns, vision_copy_columns)
{
    return moves(k, stream, "copy_columns", FORWARD, 1, 2 * (double)a->rows * (double)a->columns);
}

static VISION_KERNEL_FUNCTION(cost_dropout, vision_dropout)
{
    return moves(k, stream, "dropout", FORWARD, 1, 2 * (double)a->samples * (double)a->positions * (double)a->channels);
}

/* Scores become logarithms, and their gradient is made of these. */
static VISION_KERNEL_FUNCTION(cost_loss, vision_loss)
{
    return moves(k, stream, "loss", FORWARD, 2, 4 * (double)a->rows * (double)a->classes);
}

/* ---- before the first step, and what a trainer has ready ---- */

/* Random images are there; those of a file are read, a byte a colour, and written. */
static VISION_KERNEL_FUNCTION(cost_images, vision_images)
{
    double pixels = (double)a->samples * (double)a->image_bytes, elements = (double)dt_dtype_bytes(k->base.dtype);
    return a->pixels ? moves(k, stream, "images", FORWARD, 1, pixels * (1 + 1 / elements)) : DT_OK;
}

static VISION_KERNEL_FUNCTION(cost_uniform, vision_uniform)
{
    return DT_OK;
}

#define ROW(entry, arguments) .entry = cost_##entry,
const struct vision_kernel_table vision_kernels_cost = {
    .name = "cost", .create = cost_create, .destroy = cost_destroy, VISION_KERNELS(ROW)};
