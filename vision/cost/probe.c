/* One kernel at a time, for calibration: convolutions by their product (rows, out, in),
 * normalisations by rows and channels. A convolution is 3 x 3 if nine divides `in`, otherwise 1 x
 * 1, on images of 14 x 14 positions, or fewer if there are not enough rows.
 *
 * All calls use the same images, because in training the output of one layer is in the caches when
 * the next layer reads it. Images are the larger part of the bytes that move. */
#include "lib/model/probe.h"
#include "vision/kernels.h"
#include "vision/priced.h"

enum { SIDE = 14, WINDOW = 9 };

#define PRODUCTS(number)                                                                                                                   \
    {.kernel = VISION_PRICED_##number, .rows = {196, 1568, 6272}, .columns = {64, 256, 1024}, .inner = {64, 256, 1024}},                   \
    {                                                                                                                                      \
        .kernel = VISION_PRICED_##number, .rows = {196, 1568, 6272}, .columns = {64, 128, 512}, .inner = {576, 1152, 4608}                 \
    }
#define FEW_PRODUCTS(number) {.kernel = VISION_PRICED_##number, .rows = {196}, .columns = {64}, .inner = {64, 576}}
#define NORMS(number) {.kernel = VISION_PRICED_##number, .rows = {1568, 12544, 50176}, .columns = {64, 256}}
#define FEW_NORMS(number) {.kernel = VISION_PRICED_##number, .rows = {1568}, .columns = {64}}

static const struct dt_grid full[] = {PRODUCTS(CONVOLUTION),
                                      PRODUCTS(CONVOLUTION_INPUT_GRADIENT),
                                      PRODUCTS(CONVOLUTION_WEIGHT_GRADIENT),
                                      NORMS(BATCH_NORM),
                                      NORMS(BATCH_NORM_AGAIN),
                                      NORMS(BATCH_NORM_GRADIENT),
                                      {.rows = {0}}},
                            quick[] = {FEW_PRODUCTS(CONVOLUTION),
                                       FEW_PRODUCTS(CONVOLUTION_INPUT_GRADIENT),
                                       FEW_PRODUCTS(CONVOLUTION_WEIGHT_GRADIENT),
                                       FEW_NORMS(BATCH_NORM),
                                       FEW_NORMS(BATCH_NORM_AGAIN),
                                       FEW_NORMS(BATCH_NORM_GRADIENT),
                                       {.rows = {0}}};

/* ---- one call ---- */

static bool is_product(const struct dt_measured *what)
{
    return vision_pricing.kernels[what->kernel - DT_PRICED_SHARED].shape == DT_SHAPE_PRODUCT;
}

static struct vision_sliding sliding_of(const struct dt_measured *what)
{
    int rows = (int)what->shape[0], out = (int)what->shape[1], inside = (int)what->shape[2], kernel = inside % WINDOW ? 1 : 3;
    int height = rows % (SIDE * SIDE) ? 1 : SIDE, width = rows % (SIDE * SIDE) ? rows : SIDE;
    return (struct vision_sliding){.samples = (size_t)(rows / height / width),
                                   .in = {inside / kernel / kernel, height, width},
                                   .out = {out, height, width},
                                   .window = {kernel, 1, kernel / 2, 1}};
}

static struct vision_norm_of norm_of(const struct dt_probe *p)
{
    size_t rows = (size_t)p->what.shape[0], channels = (size_t)p->what.shape[1];
    float *small = p->regions[DT_PROBE_WEIGHTS].data; /* parameters of either dtype fit before the arrays that follow them */
    return (struct vision_norm_of){.x = p->regions[DT_PROBE_INPUTS].data,
                                   .gain = small,
                                   .bias = small + channels,
                                   .mean = small + 2 * channels,
                                   .rstd = small + 3 * channels,
                                   .samples = 1,
                                   .group = 1,
                                   .positions = rows,
                                   .channels = channels,
                                   .relu = true};
}

static dt_status run_once(struct dt_probe *p)
{
    struct vision_kernels *k = (struct vision_kernels *)p->kernels;
    void *x = p->regions[DT_PROBE_INPUTS].data, *w = p->regions[DT_PROBE_WEIGHTS].data, *y = p->regions[DT_PROBE_OUTPUTS].data;
    if (is_product(&p->what)) {
        struct vision_sliding over = sliding_of(&p->what);
        if (p->what.kernel == VISION_PRICED_CONVOLUTION)
            return k->table->convolution(k, p->stream, &(struct vision_convolution){.x = x, .w = w, .y = y, .over = over});
        if (p->what.kernel == VISION_PRICED_CONVOLUTION_INPUT_GRADIENT)
            return k->table->convolution_input_gradient(
                k, p->stream, &(struct vision_convolution_input_gradient){.dy = y, .w = w, .dx = x, .over = over});
        return k->table->convolution_weight_gradient(k, p->stream,
                                                     &(struct vision_convolution_weight_gradient){.dy = y, .x = x, .dw = w, .over = over});
    }
    struct vision_norm_of of = norm_of(p);
    float *gradients = of.rstd + of.channels;
    if (p->what.kernel == VISION_PRICED_BATCH_NORM_GRADIENT)
        return k->table->norm_gradient(
            k, p->stream, &(struct vision_norm_gradient){.of = of, .dy = y, .dx = y, .dgain = gradients, .dbias = gradients + of.channels});
    enum vision_norm_part part = p->what.kernel == VISION_PRICED_BATCH_NORM ? VISION_NORM_WHOLE : VISION_NORM_AGAIN;
    return k->table->norm(k, p->stream, &(struct vision_norm){.of = of, .y = y, .part = part});
}

/* ---- the entries ---- */

/* The most bytes of one region that a call uses: the images of either side, the weights, or six
 * numbers for each channel. */
static double most_bytes(const struct dt_measured *what)
{
    double rows = what->shape[0], out = what->shape[1], in = what->shape[2];
    return 4 * (rows * out + rows * in + out * in + 6 * out);
}

static struct dt_model model_for(const struct dt_measured *what)
{
    return (struct dt_model){.dtype = what->dtype};
}

const struct dt_prober vision_prober = {.full = full, .quick = quick, .most_bytes = most_bytes, .model_for = model_for, .queue = run_once};
