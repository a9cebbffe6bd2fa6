/* Kernels of the sim device: they accept all arguments and compute nothing. The callers allocate
 * the same memory as on other devices. If the device has costs (lib/device/sim.h), each kernel adds
 * its work to the recorded program.
 *
 * Convolutions are products (lib/cost/cost.h). All other kernels move memory, in as many passes and
 * launches as the profile says (vision/priced.h). */
#include "lib/cost/cost.h"
#include "lib/device/sim.h"
#include "vision/kernels.h"
#include "vision/priced.h"
#include "vision/workspace.h"

/* A kernel over [rows, columns]; columns 1: an elementwise kernel. */
static dt_status by_rows(const struct vision_kernels *k, struct dt_stream *stream, enum vision_priced kernel, double rows, double columns)
{
    const struct dt_costs *c = dt_sim_costs_of(k->base.device);
    struct dt_cost_call call = {(c ? c->shift : 0) + (int)kernel, DT_VARIANT_PLAIN, k->base.dtype, {rows, columns, 1}};
    return dt_cost_memory_bound(c, stream, &call, rows * columns, 0);
}

static double elems_of(size_t samples, struct vision_shape shape)
{
    return (double)samples * (double)vision_shape_elems(shape);
}

/* ---- convolutions ---- */

/* Allocate the convolution's workspace while it runs. */
static dt_status use_workspace(const struct vision_kernels *k, struct dt_stream *stream, const struct vision_sliding *over)
{
    struct dt_buffer workspace;
    if (!dt_sim_stands_for_gpu(k->base.device))
        return DT_OK;
    DT_TRY(dt_alloc(stream, DT_WORKSPACE, vision_workspace_bytes(over, k->base.dtype), &workspace));
    dt_free(stream, &workspace);
    return DT_OK;
}

/* A product of m rows, n columns and inner dimension k. All three passes read and write the same
 * arrays. Measurements are indexed by forward's product. */
static dt_status convolution(const struct vision_kernels *k, struct dt_stream *stream, enum vision_priced kernel,
                             const struct vision_sliding *o, double m, double n, double inner)
{
    const struct dt_costs *c = dt_sim_costs_of(k->base.device);
    DT_TRY(use_workspace(k, stream, o));
    if (!c)
        return DT_OK;
    double window = (double)o->window.kernel * o->window.kernel, weights = (double)o->in.channels * o->out.channels * window;
    double output = elems_of(o->samples, o->out), images = elems_of(o->samples, o->in) + output;
    struct dt_cost_call call = {
        c->shift + (int)kernel, DT_VARIANT_PLAIN, k->base.dtype, {output / o->out.channels, o->out.channels, o->in.channels * window}};
    bool measured;
    DT_TRY(dt_cost_measured(c, stream, &call, &measured));
    if (measured)
        return DT_OK;
    size_t row = (size_t)(o->in.channels < o->out.channels ? o->in.channels : o->out.channels);
    const struct dt_kernel_cost *cost = &c->profile.kernels[call.kernel];
    double seconds = dt_cost_implicit_product_s(c, m, n, inner, row, images + weights, dt_dtype_bytes(k->base.dtype));
    double beside_s = dt_cost_memory_s(c, 0, cost->passes * images * (double)dt_dtype_bytes(k->base.dtype));
    return dt_cost_work(c, stream, call.kernel, cost->launches, seconds + beside_s);
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
    return convolution(k, stream, VISION_PRICED_CONVOLUTION, &a->over, places(&a->over), a->over.out.channels,
                       window_elems(&a->over, a->over.in.channels));
}

/* Only elements of the window that belong to a place of the output count, so there are as many
 * operations as in forward. */
static VISION_KERNEL_FUNCTION(cost_convolution_input_gradient, vision_convolution_input_gradient)
{
    double stride = (double)a->over.window.stride * a->over.window.stride;
    return convolution(k, stream, VISION_PRICED_CONVOLUTION_INPUT_GRADIENT, &a->over, places(&a->over) * stride, a->over.in.channels,
                       window_elems(&a->over, a->over.out.channels) / stride);
}

static VISION_KERNEL_FUNCTION(cost_convolution_weight_gradient, vision_convolution_weight_gradient)
{
    return convolution(k, stream, VISION_PRICED_CONVOLUTION_WEIGHT_GRADIENT, &a->over, a->over.out.channels,
                       window_elems(&a->over, a->over.in.channels), places(&a->over));
}

/* ---- normalisation ---- */

static double rows_of(const struct vision_norm_of *of)
{
    return (double)of->samples * (double)of->positions;
}

/* A norm that is computed again is a single kernel in dtbench. */
static VISION_KERNEL_FUNCTION(cost_norm, vision_norm)
{
    double rows = rows_of(&a->of), channels = (double)a->of.channels;
    bool whole = a->part == VISION_NORM_WHOLE;
    if (a->part == VISION_NORM_AGAIN)
        return by_rows(k, stream, VISION_PRICED_BATCH_NORM_AGAIN, rows, channels);
    DT_TRY(by_rows(k, stream, whole ? VISION_PRICED_BATCH_NORM : VISION_PRICED_BATCH_NORM_APPLY, rows, channels));
    if (a->of.residual)
        DT_TRY(by_rows(k, stream, VISION_PRICED_RESIDUAL, rows, channels));
    return a->of.relu ? by_rows(k, stream, VISION_PRICED_RELU, rows, channels) : DT_OK;
}

static VISION_KERNEL_FUNCTION(cost_moments, vision_moments)
{
    return by_rows(k, stream, VISION_PRICED_MOMENTS, (double)a->rows, (double)a->channels);
}

/* Two numbers for each rank and channel. */
static VISION_KERNEL_FUNCTION(cost_join_moments, vision_join_moments)
{
    return by_rows(k, stream, VISION_PRICED_MOMENTS, 2 * (double)a->ranks, (double)a->channels);
}

static dt_status relu_gradient(const struct vision_kernels *k, struct dt_stream *stream, const struct vision_norm_of *of)
{
    return of->relu ? by_rows(k, stream, VISION_PRICED_RELU_GRADIENT, rows_of(of), (double)of->channels) : DT_OK;
}

/* The sums over several ranks have been made before. */
static VISION_KERNEL_FUNCTION(cost_norm_gradient, vision_norm_gradient)
{
    double rows = rows_of(&a->of), channels = (double)a->of.channels;
    if (a->sums)
        return by_rows(k, stream, VISION_PRICED_BATCH_NORM_REST, rows, channels);
    DT_TRY(relu_gradient(k, stream, &a->of));
    return by_rows(k, stream, VISION_PRICED_BATCH_NORM_GRADIENT, rows, channels);
}

static VISION_KERNEL_FUNCTION(cost_norm_gradient_sums, vision_norm_gradient)
{
    DT_TRY(relu_gradient(k, stream, &a->of));
    return by_rows(k, stream, VISION_PRICED_BATCH_NORM_SUMS, rows_of(&a->of), (double)a->of.channels);
}

/* ---- kernels that read one side once and write the other ---- */

static double pooled(const struct vision_mean_pool *a)
{
    return (double)a->samples * (double)a->channels * (double)(a->positions + 1);
}

#define OVER_ROWS(entry, arguments, kind, rows, columns)                                                                                   \
    static VISION_KERNEL_FUNCTION(cost_##entry, vision_##arguments)                                                                        \
    {                                                                                                                                      \
        return by_rows(k, stream, VISION_PRICED_##kind, rows, columns);                                                                    \
    }
OVER_ROWS(max_pool, max_pool, POOL, elems_of(a->over.samples, a->over.in) + 2 * elems_of(a->over.samples, a->over.out), 1)
OVER_ROWS(max_pool_gradient, max_pool_gradient, POOL_GRADIENT,
          elems_of(a->over.samples, a->over.in) + 2 * elems_of(a->over.samples, a->over.out), 1)
OVER_ROWS(mean_pool, mean_pool, POOL, pooled(a), 1)
OVER_ROWS(mean_pool_gradient, mean_pool, POOL_GRADIENT, pooled(a), 1)
OVER_ROWS(resize, resize, RESIZE, elems_of(a->samples, a->in) + elems_of(a->samples, a->out), 1)
OVER_ROWS(resize_gradient, resize, RESIZE_GRADIENT, elems_of(a->samples, a->in) + elems_of(a->samples, a->out), 1)
OVER_ROWS(copy_columns, copy_columns, JOIN, (double)a->rows *(double)a->columns, 1)
OVER_ROWS(dropout, dropout, CHANNEL_DROPOUT, (double)a->samples *(double)a->positions *(double)a->channels, 1)
OVER_ROWS(loss, loss, CLASS_LOSS, (double)a->rows, (double)a->classes)
#undef OVER_ROWS

/* ---- images ---- */

/* Random images exist already; images of a file are made from its bytes. */
static VISION_KERNEL_FUNCTION(cost_images, vision_images)
{
    return a->pixels ? by_rows(k, stream, VISION_PRICED_IMAGES, (double)a->samples * (double)a->image_bytes, 1) : DT_OK;
}

#define ROW(entry, arguments) .entry = cost_##entry,
const struct vision_kernel_table vision_kernels_cost = {.name = "cost", VISION_KERNELS(ROW)};

/* ---- the constants of these kernels in profiles ---- */

#define PRICED(name, number, phase, shape, element, passes) {#name, DT_PHASE_##phase, DT_SHAPE_##shape},
static const struct dt_priced kernels[] = {VISION_PRICED_KERNELS(PRICED)};

#define KEYS(name, number, phase, shape, element, passes) DT_PRICED_KEYS(name, VISION_PRICED_##number - DT_PRICED_SHARED, element, passes)
static const struct dt_field keys[] = {VISION_PRICED_KERNELS(KEYS)};

const struct dt_pricing vision_pricing = {
    .kernels = kernels, .count = sizeof kernels / sizeof *kernels, .keys = keys, .key_count = sizeof keys / sizeof *keys};
