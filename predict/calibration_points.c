#include "predict/calibration_points.h"

#include "lib/device/device.h"
#include "lib/model/probe.h"
#include "predict/profile.h"
#include "schedules/config/families.h"

#define MOST_WORK 2.5e9 /* operations of the largest product; larger ones run at its speed. On a GPU it is larger, as its shapes are */

/* A GPU reaches its full speed with larger shapes: rows, columns and inner dimensions are this many
 * times as long, except the width of a head. */
enum { GPU_SCALE = 4 };

static int length(const double dims[DT_GRID_DIMS])
{
    int count = 0;
    while (count < DT_GRID_DIMS && dims[count] > 0)
        count++;
    return count ? count : 1;
}

static double pick(const double dims[DT_GRID_DIMS], int index)
{
    return dims[index] > 0 ? dims[index] : 1;
}

bool calibration_shares(const struct calibration_request *request)
{
    const struct dt_device_kind *kind = dt_device_kind_find(request->device);
    return !kind || !kind->gpus;
}

/* Combination *index of the grid with lengths `scale` times as long; otherwise *index is what
 * remains for the grids after it. */
static bool combination(const struct dt_grid *g, enum dt_shape shape, double scale, int *index, struct dt_measured *out)
{
    double columns = length(g->columns) > 1 || g->columns[0] > 0 ? scale : 1,
           inner = g->inner[0] > 0 && shape != DT_SHAPE_HEADS ? scale : 1;
    for (int r = 0; r < length(g->rows); r++)
        for (int c = 0; c < length(g->columns); c++)
            for (int i = 0; i < length(g->inner); i++) {
                *out = (struct dt_measured){.kernel = g->kernel,
                                            .variant = g->variant,
                                            .shape = {scale * pick(g->rows, r), columns * pick(g->columns, c), inner * pick(g->inner, i)}};
                double least = dt_measured_work(shape, (const double[]){pick(g->rows, r), pick(g->columns, c), pick(g->inner, i)});
                if (least <= MOST_WORK && (*index)-- == 0)
                    return true;
            }
    return false;
}

bool calibration_measures(const struct calibration_request *request, const struct dt_model_family *family)
{
    char text[256];
    return family->prober && dt_kernels_available(family, dt_device_kind_find(request->device), text, sizeof text);
}

bool calibration_kernel(const struct calibration_request *request, const struct dt_model_family *family, int index, struct dt_measured *out)
{
    double scale = request->quick || calibration_shares(request) ? 1 : GPU_SCALE;
    const struct dt_prober *prober = family->prober;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        for (const struct dt_grid *g = request->quick ? prober->quick : prober->full; request->dtypes[dtype] && g->rows[0] > 0; g++) {
            int number = g->kernel < DT_PRICED_SHARED ? g->kernel : g->kernel + profile_shift(family);
            if (combination(g, profile_kernels()->kernels[number]->shape, scale, &index, out)) {
                out->dtype = (enum dt_dtype)dtype;
                return true;
            }
        }
    return false;
}

size_t calibration_region_bytes(const struct calibration_request *request)
{
    size_t full = (size_t)(calibration_shares(request) ? 56 : 1200) << 20;
    return request->quick ? CALIBRATION_QUICK_REGION_BYTES : full;
}

bool calibration_product(const struct dt_model_family **out_family, struct dt_measured *out)
{
    const struct calibration_request quick = {.device = "cpu", .quick = true, .dtypes = {[DT_FP32] = true}};
    double most = 0;
    for (int f = 0; model_family(f) && most == 0; f++) {
        struct dt_measured one;
        *out_family = model_family(f);
        for (int i = 0; model_family(f)->prober && calibration_kernel(&quick, model_family(f), i, &one); i++) {
            int number = one.kernel < DT_PRICED_SHARED ? one.kernel : one.kernel + profile_shift(model_family(f));
            bool is_product = profile_kernels()->kernels[number]->shape == DT_SHAPE_PRODUCT;
            if (!is_product || dt_measured_work(DT_SHAPE_PRODUCT, one.shape) <= most)
                continue;
            most = dt_measured_work(DT_SHAPE_PRODUCT, one.shape);
            *out = one;
        }
    }
    return most > 0;
}

/* All sizes of the first kind, then of the next. */
static bool bench_collective(const struct calibration_bench *b, int index, struct dt_sim_measured *out)
{
    for (int kind = 0; dt_sim_measured_kind_name(kind); kind++) {
        if (!b->kinds[kind])
            continue;
        *out = (struct dt_sim_measured){.kind = kind, .bytes = index < b->sizes ? b->bytes[index] : 0};
        if (index < b->sizes)
            return true;
        index -= b->sizes;
    }
    return false;
}

bool calibration_collective(const struct calibration_request *request, int index, struct dt_sim_measured *out)
{
    if (request->bench.sizes > 0)
        return bench_collective(&request->bench, index, out);
    static const double bytes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25};
    int sizes = request->quick ? 2 : sizeof bytes / sizeof *bytes;
    *out = (struct dt_sim_measured){.kind = index / sizes, .bytes = bytes[index % sizes]};
    return dt_sim_measured_kind_name(out->kind) != NULL;
}

int calibration_count(const struct calibration_request *request, int groups)
{
    struct dt_measured kernel;
    struct dt_sim_measured collective;
    int kernels = 0, collectives = 0;
    bool wanted = (calibration_shares(request) || request->kernels) && request->bench.sizes == 0;
    for (int f = 0; wanted && model_family(f); f++)
        for (int i = 0; calibration_measures(request, model_family(f)) && calibration_kernel(request, model_family(f), i, &kernel); i++)
            kernels++;
    while (calibration_collective(request, collectives, &collective))
        collectives++;
    return kernels + groups * collectives;
}
