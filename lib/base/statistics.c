#include "lib/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* sorted [count], q in [0, 1] */
static double quantile(const double *sorted, int count, double q)
{
    double place = (count - 1) * q;
    int below = (int)floor(place), above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

dt_status dt_statistics_compute(const double *values, int count, struct dt_statistics *out)
{
    *out = (struct dt_statistics){count, NAN, NAN, NAN, NAN, NAN, NAN};
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    if (count == 0 || isnan(sum))
        return DT_OK;
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted)
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while sorting %d values", count);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    out->median = quantile(sorted, count, 0.5);
    out->p95 = quantile(sorted, count, 0.95);
    out->min = sorted[0];
    out->max = sorted[count - 1];
    out->mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - out->mean) * (values[i] - out->mean);
    if (count > 1 && out->mean != 0)
        out->cv = sqrt(squares / (count - 1)) / out->mean;
    if (fabs(out->cv) < 1e-12) /* values that are alike but for the last bits of a double */
        out->cv = 0;
    free(sorted);
    return DT_OK;
}

dt_status dt_statistics_quantile(const double *values, int count, double q, double *out)
{
    double sum = 0;
    *out = NAN;
    for (int i = 0; i < count; i++)
        sum += values[i];
    if (count == 0 || isnan(sum))
        return DT_OK;
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted)
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while sorting %d values", count);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    *out = quantile(sorted, count, q);
    free(sorted);
    return DT_OK;
}
