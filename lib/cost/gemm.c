/* The time of a GEMM library's product: its tiles of the output, how they fill the device, and how
 * it reads operands whose rows are not aligned. */
#include "lib/cost/cost.h"

#include <math.h>

struct product {
    const struct dt_costs *costs;
    double batch, m, n, k;
    double limit; /* limit of the share of the peak, by the rows' alignment */
    double kept;  /* remaining part of the speed, by the same */
    double flops; /* of the GPU per second, times the profile's share */
    double half_k;
};

/* How often aligned_bytes must be halved until it divides the rows of both operands; at most 3. */
static int halvings(const struct dt_profile *p, size_t left_elems, size_t right_elems, size_t element_bytes)
{
    size_t unit = (size_t)p->gemm.aligned_bytes;
    size_t both = left_elems * element_bytes | right_elems * element_bytes; /* a power of two divides both if it divides this */
    for (int i = 0; i < 3; i++, unit /= 2)
        if (unit && both % unit == 0)
            return i;
    return 3;
}

/* Kernels for rows that are not aligned read fewer bytes at a time. Batches of small products do
 * not use tensor cores below some length, and their speed no longer depends on k. One large product
 * uses them, and loses a part of its speed at the first two halvings. */
static void align(struct product *p, int times)
{
    const struct dt_profile *profile = &p->costs->profile;
    bool batched = p->batch > 1 || profile->gemm.unbatched_unaligned <= 0;
    const double limits[] = {1, profile->gemm.half_aligned, profile->gemm.quarter_aligned, profile->gemm.unaligned};
    p->limit = batched ? limits[times] : 1;
    p->kept = batched ? 1 : pow(profile->gemm.unbatched_unaligned, fmin(times / 2.0, 1));
}

/* Operations per element that a tile loads, relative to a tile with half of the speed. */
static double reuse(const struct dt_costs *c, double rows, double columns)
{
    double per_element = rows * columns / (rows + columns);
    return per_element / (per_element + c->profile.gemm.half_reuse);
}

/* The time with tiles of this size: whole tiles are computed, also at the output's edges, in waves
 * of one tile per multiprocessor. If the last wave leaves too many idle, the inner dimension is
 * split, and the parts are summed through memory in fp32. */
static double tiled_s(const struct product *p, double rows, double columns)
{
    const struct dt_costs *c = p->costs;
    const struct dt_profile *profile = &c->profile;
    double tiles = p->batch * ceil(p->m / rows) * ceil(p->n / columns), waves = tiles / profile->gemm.multiprocessors;
    double share = reuse(c, rows, columns) / reuse(c, profile->gemm.tile_rows, profile->gemm.tile_columns) * p->k / (p->k + p->half_k);
    double flops_per_s = p->flops * fmin(share, p->limit) * p->kept;
    double full_s = 2 * tiles * rows * columns * p->k / flops_per_s, fill = waves / ceil(waves);
    if (fill >= profile->gemm.least_fill)
        return full_s / fill;
    double parts = ceil(profile->gemm.least_fill / fill), partial_bytes = 2 * parts * p->batch * p->m * p->n * sizeof(float);
    return fmin(full_s / fill, full_s / profile->gemm.least_fill + dt_cost_memory_s(c, 1, partial_bytes));
}

/* The library chooses the best tile: the largest, or one with halved sides. */
static double arithmetic_s(const struct product *p)
{
    enum { SMALLEST = 64 };
    const struct dt_profile *profile = &p->costs->profile;
    double best_s = INFINITY, k_share = p->k / (p->k + p->half_k);
    if (profile->gemm.tile_rows < 1 || profile->gemm.tile_columns < 1 || profile->gemm.multiprocessors < 1)
        return 2 * p->batch * p->m * p->n * p->k / (p->flops * fmin(k_share, p->limit) * p->kept);
    for (double rows = profile->gemm.tile_rows; rows == profile->gemm.tile_rows || rows >= SMALLEST; rows /= 2)
        for (double columns = profile->gemm.tile_columns; columns == profile->gemm.tile_columns || columns >= SMALLEST; columns /= 2)
            best_s = fmin(best_s, tiled_s(p, rows, columns));
    return best_s;
}

double dt_cost_product_s(const struct dt_costs *c, double batch, double m, double n, double k, size_t left_elems, size_t right_elems,
                         size_t element_bytes)
{
    struct product p = {c, batch, m, n, k, 1, 1, c->hardware.peak_flops * c->profile.gemm.peak_fraction, c->profile.gemm.half_k};
    align(&p, halvings(&c->profile, left_elems, right_elems, element_bytes));
    double moved_s = dt_cost_memory_s(c, 1, batch * (m * k + k * n + m * n) * (double)element_bytes);
    double alone_s = fmax(arithmetic_s(&p), moved_s) + c->profile.gemm.start_s;
    return batch > 1 ? alone_s : alone_s * dt_product_rates_factor(&c->profile.rates, m, n, k);
}

double dt_cost_fp8_product_s(const struct dt_costs *c, double m, double n, double k, size_t left_elems, size_t right_elems, double speed)
{
    enum { OPERAND_BYTES = 1, OUTPUT_BYTES = 2 };
    double fraction = c->profile.gemm.fp8_peak_fraction > 0 ? c->profile.gemm.fp8_peak_fraction : c->profile.gemm.peak_fraction;
    double half_k = c->profile.gemm.half_k * c->hardware.fp8_flops / c->hardware.peak_flops;
    struct product p = {c, 1, m, n, k, 1, 1, c->hardware.fp8_flops * fraction * speed, half_k};
    align(&p, halvings(&c->profile, left_elems, right_elems, OPERAND_BYTES));
    double moved_s = dt_cost_memory_s(c, 1, OPERAND_BYTES * (m * k + k * n) + OUTPUT_BYTES * m * n);
    return fmax(arithmetic_s(&p), moved_s) + c->profile.gemm.start_s;
}

double dt_cost_implicit_product_s(const struct dt_costs *c, double m, double n, double k, size_t row_elems, double moved_elems,
                                  size_t element_bytes)
{
    const struct dt_profile *profile = &c->profile;
    double peak_fraction = profile->convolution.peak_fraction > 0 ? profile->convolution.peak_fraction : profile->gemm.peak_fraction;
    double half_k = profile->convolution.half_k > 0 ? profile->convolution.half_k : profile->gemm.half_k;
    struct product p = {c, 1, m, n, k, 1, 1, c->hardware.peak_flops * peak_fraction, half_k};
    align(&p, halvings(&c->profile, row_elems, row_elems, element_bytes));
    return fmax(arithmetic_s(&p), dt_cost_memory_s(c, 1, moved_elems * (double)element_bytes));
}

double dt_cost_in_step(const struct dt_costs *c)
{
    return c->profile.gemm.alone_fraction > 0 ? c->profile.gemm.alone_fraction / c->profile.gemm.peak_fraction : 1;
}

void dt_product_rates_settle(struct dt_costs *c, enum dt_dtype dtype)
{
    struct dt_product_rates *rates = &c->profile.rates;
    const double alone = dt_cost_in_step(c);
    const int all = rates->count;
    int left = 0;
    rates->count = 0; /* use the formula alone */
    for (int i = 0; i < all; i++) {
        struct dt_product_rate r = rates->entries[i];
        size_t row = (size_t)r.k;
        if (r.dtype != dtype)
            continue;
        r.log_sides[0] = logf(r.m);
        r.log_sides[1] = logf(r.n);
        r.log_sides[2] = logf(r.k);
        r.log_ratio = (float)log(r.seconds * alone / dt_cost_product_s(c, 1, r.m, r.n, r.k, row, row, dt_dtype_bytes(dtype)));
        rates->entries[left++] = r;
    }
    rates->count = left;
}
