#include "lib/cost/measured.h"

#include "lib/sim/program.h"

#include <math.h>

double dt_measured_work(enum dt_shape shape, const double n[3])
{
    switch (shape) {
    case DT_SHAPE_PRODUCT: return 2 * n[0] * n[1] * n[2];
    case DT_SHAPE_HEADS: return n[0] * n[1] * n[1] * n[2];
    case DT_SHAPE_LOOKUP_GRADIENT: return (n[0] + n[2]) * n[1];
    case DT_SHAPE_LOOKUP:
    case DT_SHAPE_ROWS:
    case DT_SHAPE_FLAT: break;
    }
    return n[0] * n[1];
}

void dt_measured_nearest(const struct dt_measured_list *list, int ranks, int threads, int *out_ranks, int *out_threads)
{
    double least = INFINITY;
    *out_ranks = *out_threads = 1;
    for (int i = 0; i < list->count; i++) {
        const struct dt_measured *m = &list->entries[i];
        double distance = fabs(log((double)m->ranks / ranks)) + (threads > 0 ? 100 * fabs(log((double)m->threads / threads)) : 0);
        if (distance < least) {
            least = distance;
            *out_ranks = m->ranks;
            *out_threads = m->threads;
        }
    }
}

static bool is_like(const struct dt_measured *m, const struct dt_measured *what)
{
    return m->kernel == what->kernel && m->dtype == what->dtype && m->ranks == what->ranks && m->threads == what->threads;
}

/* The measured variant to use: the requested one, or the first that exists; DT_VARIANTS: none. */
static enum dt_variant measured_variant(const struct dt_measured_list *list, const struct dt_measured *what)
{
    enum dt_variant found = DT_VARIANTS;
    for (int i = 0; i < list->count; i++) {
        const struct dt_measured *m = &list->entries[i];
        if (!is_like(m, what))
            continue;
        if (m->variant == what->variant)
            return m->variant;
        found = m->variant < found ? m->variant : found;
    }
    return found;
}

enum { TERMS = 4 }; /* a constant, and a slope for each number of the shape */

/* Least squares: the sums of weight * terms * terms, and of weight * terms * value. */
struct fit {
    double matrix[TERMS][TERMS], right[TERMS];
    double spread; /* sum of weight * squared distance */
    double log_load;
};

static void add_point(struct fit *f, enum dt_shape kind, const struct dt_measured *m, const double shape[3])
{
    const double same = 1e-9; /* below this squared distance a shape is the measured one */
    double terms[TERMS] = {1}, square = 0, value = log(dt_measured_work(kind, m->shape) / m->alone_s);
    for (int i = 0; i < 3; i++) {
        terms[i + 1] = log(m->shape[i] / shape[i]);
        square += terms[i + 1] * terms[i + 1];
    }
    square = fmax(square, same);
    double weight = 1 / (square * square);
    for (int i = 0; i < TERMS; i++) {
        for (int j = 0; j < TERMS; j++)
            f->matrix[i][j] += weight * terms[i] * terms[j];
        f->right[i] += weight * terms[i] * value;
    }
    f->spread += weight * square;
    f->log_load += weight * log(m->together_s / (m->ranks * m->alone_s));
}

/* The constant: the value at the requested shape. Ridge regression sets slopes that the points do
 * not determine to 0. The matrix is symmetric and positive definite, so that elimination needs no
 * pivots; it begins with the slopes. */
static double solve(struct fit *f)
{
    const double ridge = 0.003;
    for (int i = 1; i < TERMS; i++)
        f->matrix[i][i] += ridge * f->spread;
    for (int p = TERMS - 1; p > 0; p--)
        for (int i = 0; i < p; i++) {
            double factor = f->matrix[i][p] / f->matrix[p][p];
            for (int j = 0; j < p; j++)
                f->matrix[i][j] -= factor * f->matrix[p][j];
            f->right[i] -= factor * f->right[p];
        }
    return f->right[0] / f->matrix[0][0];
}

bool dt_measured_find(const struct dt_measured_list *list, enum dt_shape kind, const struct dt_measured *what, double *out_alone_s,
                      double *out_load)
{
    enum dt_variant variant = measured_variant(list, what);
    double largest[3] = {0}, shape[3];
    struct fit fit = {0};
    for (int i = 0; i < list->count; i++)
        for (int d = 0; d < 3 && is_like(&list->entries[i], what) && list->entries[i].variant == variant; d++)
            largest[d] = fmax(largest[d], list->entries[i].shape[d]);
    for (int d = 0; d < 3; d++) /* outside the measured range speed is constant */
        shape[d] = fmin(what->shape[d], largest[d]);
    for (int i = 0; i < list->count; i++)
        if (is_like(&list->entries[i], what) && list->entries[i].variant == variant)
            add_point(&fit, kind, &list->entries[i], shape);
    if (fit.matrix[0][0] <= 0)
        return false;
    *out_load = fmin(exp(fit.log_load / fit.matrix[0][0]), DT_SIM_MAX_LOAD); /* an interrupted measurement can give more */
    *out_alone_s = dt_measured_work(kind, what->shape) / exp(solve(&fit));
    return true;
}
