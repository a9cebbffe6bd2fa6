/* Kernels as they were measured on a machine whose ranks share its processors: what a profile has under "measured", and `dtbench
 * calibrate` writes. Where a profile has a kernel there, its time comes from there and not from the profile's constants.
 *
 * A measurement is of one kernel, dtype and shape, by a rank of `threads` threads, of `ranks` on the machine: alone_s while the others
 * rest, together_s while all of them do the same. Their ratio says how much of the machine one of them takes: load = together_s / (ranks *
 * alone_s), above which the sum of what runs at once is slowed down (lib/sim/program.h: shared work). */
#ifndef LIB_COST_MEASURED_H
#define LIB_COST_MEASURED_H

#include "lib/base/dtype.h"
#include "lib/cost/priced.h"

#include <stdbool.h>

struct dt_measured {
    int kernel; /* its number (lib/cost/priced.h) */
    enum dt_variant variant;
    enum dt_dtype dtype;
    int ranks, threads;
    double shape[3]; /* enum dt_shape */
    double alone_s, together_s;
};

enum { DT_MEASURED_MAX = 2048 };

struct dt_measured_list {
    struct dt_measured entries[DT_MEASURED_MAX];
    int count;
};

/* The measured threads and ranks that are nearest by ratio, threads (0: any) before ranks. */
void dt_measured_nearest(const struct dt_measured_list *list, int ranks, int threads, int *out_ranks, int *out_threads);

/* Seconds alone, and load, of a kernel, of whose shape the numbers are `kind`: what->kernel to what->shape, with ranks and threads as measured. The amount of work at a speed
 * whose logarithm is fitted to the measured shapes by a plane over the logarithms of the shape, each weighted by the inverse of its
 * distance's fourth power: measured shapes get what was measured, and those around them follow the slope (local regression: Cleveland,
 * "Robust locally weighted regression and smoothing scatterplots", 1979; weights: Shepard, "A two-dimensional interpolation function for
 * irregularly-spaced data", 1968). The load is at most DT_SIM_MAX_LOAD. A variant that was not measured is taken for another. False: the
 * kernel was not measured in this dtype. */
bool dt_measured_find(const struct dt_measured_list *list, enum dt_shape kind, const struct dt_measured *what, double *out_alone_s,
                      double *out_load);

/* Operations of a product, elements of the rest. */
double dt_measured_work(enum dt_shape shape, const double numbers[3]);

#endif
