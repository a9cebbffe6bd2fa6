/* Shapes lie a factor of three or four apart, as times between them follow them smoothly, from those of small models' single samples to
 * sizes from which on speed no longer changes. */
#include "schedules/predict/calibration_points.h"

#include "lib/device/device.h"

enum { MOST_DIMS = 6 };
#define MOST_WORK 2.5e9 /* larger products run at the speed of this one; on a GPU they are as much larger as its shapes allow */

/* A GPU reaches its speed at larger shapes: rows, columns and inner dimensions are this many times as long, but for the width of a head. */
enum { GPU_SCALE = 4 };

/* A kernel, its variant, and the numbers that its shape is made of: all combinations. */
struct grid {
    enum gpt_kernel_kind kernel;
    enum gpt_kernel_variant variant;
    double rows[MOST_DIMS], columns[MOST_DIMS], inner[MOST_DIMS]; /* each ends with 0; none: 1 */
};

#define GRID(kind, kind_variant, ...) {.kernel = GPT_KERNEL_##kind, .variant = GPT_VARIANT_##kind_variant, __VA_ARGS__}
#define ROWS(...) .rows = {__VA_ARGS__}
#define COLUMNS(...) .columns = {__VA_ARGS__}
#define INNER(...) .inner = {__VA_ARGS__}
#define PRODUCTS(kind, variant)                                                                                                            \
    GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(128, 512, 2048), INNER(128, 512)),                                                    \
        GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(128, 512, 1024), INNER(1024, 2048)),                                              \
        GRID(kind, variant, ROWS(64, 256, 1024), COLUMNS(8192), INNER(128, 512))
#define ATTENTIONS(kind, variant) GRID(kind, variant, ROWS(8, 48), COLUMNS(64, 256), INNER(32, 64))
#define OF_ROWS(kind, variant) GRID(kind, variant, ROWS(256, 2048), COLUMNS(128, 512))
#define EMBEDDINGS(kind, variant) GRID(kind, variant, ROWS(256, 2048), COLUMNS(128, 512), INNER(1024, 8192))
#define FLAT(kind) GRID(kind, PLAIN, ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21))

static const struct grid full[] = {
    PRODUCTS(LINEAR, PLAIN),
    PRODUCTS(LINEAR_INPUT_GRADIENT, PLAIN),
    PRODUCTS(LINEAR_WEIGHT_GRADIENT, PLAIN),
    GRID(LINEAR_WEIGHT_GRADIENT, ACCUMULATE, ROWS(64, 256, 1024), COLUMNS(128, 512, 2048), INNER(128, 512)),
    ATTENTIONS(ATTENTION, PLAIN),
    ATTENTIONS(ATTENTION, DROPOUT),
    ATTENTIONS(ATTENTION, UNFUSED),
    ATTENTIONS(ATTENTION_GRADIENT, PLAIN),
    ATTENTIONS(ATTENTION_GRADIENT, DROPOUT),
    ATTENTIONS(ATTENTION_GRADIENT, UNFUSED),
    OF_ROWS(LAYER_NORM, PLAIN),
    OF_ROWS(LAYER_NORM_GRADIENT, PLAIN),
    OF_ROWS(RMS_NORM, PLAIN),
    OF_ROWS(RMS_NORM_GRADIENT, PLAIN),
    OF_ROWS(HEAD_NORM, PLAIN),
    OF_ROWS(HEAD_NORM_GRADIENT, PLAIN),
    OF_ROWS(ROPE, PLAIN),
    OF_ROWS(SWIGLU, PLAIN),
    OF_ROWS(SWIGLU_GRADIENT, PLAIN),
    OF_ROWS(DROPOUT_RESIDUAL, PLAIN),
    OF_ROWS(DROPOUT_RESIDUAL, DROPOUT),
    OF_ROWS(DROPOUT_GRADIENT, PLAIN),
    OF_ROWS(DROPOUT_GRADIENT, DROPOUT),
    EMBEDDINGS(EMBEDDING, DROPOUT),
    EMBEDDINGS(EMBEDDING_GRADIENT, DROPOUT),
    GRID(LOSS, PLAIN, ROWS(64, 512), COLUMNS(512, 8192)),
    FLAT(GELU),
    FLAT(GELU_GRADIENT),
    GRID(SGD, PLAIN, ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21, 1 << 23)),
    FLAT(ADAM),
    GRID(ADD, PLAIN, ROWS(1 << 13, 1 << 16, 1 << 19, 1 << 21, 1 << 23)),
    FLAT(COUNT),
};

static const struct grid quick[] = {
    GRID(LINEAR, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(LINEAR_INPUT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(LINEAR_WEIGHT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64, 256), INNER(64)),
    GRID(ATTENTION, PLAIN, ROWS(8), COLUMNS(32), INNER(16)),
    GRID(ATTENTION_GRADIENT, PLAIN, ROWS(8), COLUMNS(32), INNER(16)),
    GRID(LAYER_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(LAYER_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(RMS_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(RMS_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(HEAD_NORM, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(HEAD_NORM_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(ROPE, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(SWIGLU, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(SWIGLU_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(DROPOUT_RESIDUAL, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(DROPOUT_GRADIENT, PLAIN, ROWS(64), COLUMNS(64)),
    GRID(EMBEDDING, PLAIN, ROWS(64), COLUMNS(64), INNER(256)),
    GRID(EMBEDDING_GRADIENT, PLAIN, ROWS(64), COLUMNS(64), INNER(256)),
    GRID(LOSS, PLAIN, ROWS(64), COLUMNS(256)),
    GRID(GELU, PLAIN, ROWS(1 << 13)),
    GRID(GELU_GRADIENT, PLAIN, ROWS(1 << 13)),
    GRID(SGD, PLAIN, ROWS(1 << 13)),
    GRID(ADAM, PLAIN, ROWS(1 << 13)),
    GRID(ADD, PLAIN, ROWS(1 << 13)),
    GRID(COUNT, PLAIN, ROWS(1 << 13)),
};

static int length(const double dims[MOST_DIMS])
{
    int count = 0;
    while (count < MOST_DIMS && dims[count] > 0)
        count++;
    return count ? count : 1;
}

static double pick(const double dims[MOST_DIMS], int index)
{
    return dims[index] > 0 ? dims[index] : 1;
}

bool calibration_shares(const struct calibration_request *request)
{
    const struct dt_device_kind *kind = dt_device_kind_find(request->device);
    return !kind || !kind->gpus;
}

/* Combination *index of the grid with lengths `scale` times as long; otherwise *index is what remains for the grids after it. */
static bool combination(const struct grid *g, double scale, int *index, struct gpt_measured *out)
{
    bool heads = gpt_kernel_info(g->kernel)->shape == GPT_SHAPE_HEADS;
    double columns = length(g->columns) > 1 || g->columns[0] > 0 ? scale : 1, inner = g->inner[0] > 0 && !heads ? scale : 1;
    for (int r = 0; r < length(g->rows); r++)
        for (int c = 0; c < length(g->columns); c++)
            for (int i = 0; i < length(g->inner); i++) {
                *out = (struct gpt_measured){.kernel = g->kernel,
                                             .variant = g->variant,
                                             .shape = {scale * pick(g->rows, r), columns * pick(g->columns, c), inner * pick(g->inner, i)}};
                double least = gpt_measured_work(g->kernel, (const double[]){pick(g->rows, r), pick(g->columns, c), pick(g->inner, i)});
                if (least <= MOST_WORK && (*index)-- == 0)
                    return true;
            }
    return false;
}

bool calibration_kernel(const struct calibration_request *request, int index, struct gpt_measured *out)
{
    const struct grid *grids = request->quick ? quick : full;
    double scale = request->quick || calibration_shares(request) ? 1 : GPU_SCALE;
    int count = request->quick ? sizeof quick / sizeof *quick : sizeof full / sizeof *full;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        for (int g = 0; g < count && request->dtypes[dtype]; g++)
            if (combination(&grids[g], scale, &index, out)) {
                out->dtype = (enum dt_dtype)dtype;
                return true;
            }
    return false;
}

bool calibration_collective(const struct calibration_request *request, int index, struct dt_sim_measured *out)
{
    static const double bytes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25};
    int sizes = request->quick ? 2 : sizeof bytes / sizeof *bytes;
    *out = (struct dt_sim_measured){.kind = index / sizes, .bytes = bytes[index % sizes]};
    return dt_sim_measured_kind_name(out->kind) != NULL;
}

int calibration_count(const struct calibration_request *request, int groups)
{
    struct gpt_measured kernel;
    struct dt_sim_measured collective;
    int kernels = 0, collectives = 0;
    while ((calibration_shares(request) || request->kernels) && calibration_kernel(request, kernels, &kernel))
        kernels++;
    while (calibration_collective(request, collectives, &collective))
        collectives++;
    return kernels + groups * collectives;
}
