/* What a record says about repeated measurements. */
#ifndef LIB_BASE_STATISTICS_H
#define LIB_BASE_STATISTICS_H

#include "lib/base/status.h"

struct dt_statistics {
    int count;
    double median, p95; /* percentiles by linear interpolation between the two nearest ranks, at (count - 1) * q */
    double mean, min, max;
    double cv; /* coefficient of variation: sample standard deviation (count - 1) over mean; NaN for one value or a mean of 0;
                  0 below 1e-12 */
};

/* values [count], in any order, unchanged. All NaN for count 0; a NaN among the values makes everything NaN.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_statistics_compute(const double *values, int count, struct dt_statistics *out);

/* The quantile q in [0, 1], interpolated as above; NaN for count 0 or a NaN among the values. Errors: as above. */
dt_status dt_statistics_quantile(const double *values, int count, double q, double *out);

#endif
