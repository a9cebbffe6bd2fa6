/* Kernels measured on a machine whose ranks share its processors: the section "measured" of a
 * profile, written by `dtbench calibrate`. The measured time of a kernel replaces the time by the
 * profile's constants.
 *
 * A measurement is of one kernel, dtype and shape, by a rank of `threads` threads, of `ranks` on
 * the machine: alone_s while the others rest, together_s while all of them do the same. Their ratio
 * is the part of the machine that one kernel takes: load = together_s / (ranks * alone_s). If the
 * loads of concurrent kernels add up to more than 1, they slow down (lib/sim/program.h: shared
 * work). */
#pragma once

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

/* The nearest measured threads and ranks by ratio: threads (0: any) before ranks. */
void dt_measured_nearest(const struct dt_measured_list *list, int ranks, int threads, int *out_ranks, int *out_threads);

/* Seconds alone, and load, of the kernel what->kernel with shape what->shape (kind: meaning of its
 * numbers), with ranks and threads as measured. The time is the work divided by a speed. The
 * logarithm of the speed is a plane over the logarithms of the shape, fitted to the measured
 * shapes, each weighted by the inverse of its distance's fourth power: measured shapes get the
 * measured time, and shapes near them follow the slope (local regression: Cleveland, "Robust
 * locally weighted regression and smoothing scatterplots", 1979; weights: Shepard, "A
 * two-dimensional interpolation function for irregularly-spaced data", 1968). The load is at most
 * DT_SIM_MAX_LOAD. For a variant that was not measured another one is used. False: the kernel was
 * not measured in this dtype. */
bool dt_measured_find(const struct dt_measured_list *list, enum dt_shape kind, const struct dt_measured *what, double *out_alone_s,
                      double *out_load);

/* Operations of a product, elements of other kernels. */
double dt_measured_work(enum dt_shape shape, const double numbers[3]);
