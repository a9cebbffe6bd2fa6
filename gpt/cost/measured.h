/* Kernels as they were measured on a machine whose ranks share its processors: what a profile has under "measured", and `dtbench
 * calibrate` writes. Where a profile has a kernel there, its time comes from there and not from the profile's constants.
 *
 * A measurement is of one kernel, dtype and shape, by a rank of `threads` threads, of `ranks` on the machine: alone_s while the others
 * rest, together_s while all of them do the same. Their ratio says how much of the machine one of them takes: load = together_s / (ranks *
 * alone_s), above which the sum of what runs at once is slowed down (lib/sim/program.h: shared work). */
#ifndef GPT_COST_MEASURED_H
#define GPT_COST_MEASURED_H

#include "gpt/kernels.h"
#include "lib/base/dtype.h"
#include "lib/config/config.h"

#include <stdbool.h>

/* What a kernel's arguments say beside its shape, where it makes it another one. */
enum gpt_kernel_variant {
    GPT_VARIANT_PLAIN,
    GPT_VARIANT_DROPOUT,    /* with a probability above 0 */
    GPT_VARIANT_UNFUSED,    /* attention */
    GPT_VARIANT_ACCUMULATE, /* weight gradient that adds to what is there */
    GPT_VARIANTS
};

struct gpt_measured {
    enum gpt_kernel_kind kernel; /* GPT_KERNEL_COUNT: a copy within the device, in bytes */
    enum gpt_kernel_variant variant;
    enum dt_dtype dtype;
    int ranks, threads;
    double shape[3]; /* enum gpt_kernel_shape */
    double alone_s, together_s;
};

enum { GPT_MEASURED_MAX = 2048 };

struct gpt_measured_list {
    struct gpt_measured entries[GPT_MEASURED_MAX];
    int count;
};

/* The keys of an entry. */
const struct dt_list *gpt_measured_table(void);

/* array NULL: none. `where` begins every error: the file and the list's path. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status gpt_measured_read(const struct cJSON *array, const char *where, struct gpt_measured_list *out);
/* Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_measured_write(const struct gpt_measured_list *list, struct cJSON **out);

/* The measured threads and ranks that are nearest by ratio, threads (0: any) before ranks. */
void gpt_measured_nearest(const struct gpt_measured_list *list, int ranks, int threads, int *out_ranks, int *out_threads);

/* Seconds alone, and load, of a kernel: what->kernel to what->shape, with ranks and threads as measured. The amount of work at a speed
 * whose logarithm is fitted to the measured shapes by a plane over the logarithms of the shape, each weighted by the inverse of its
 * distance's fourth power: measured shapes get what was measured, and those around them follow the slope (local regression: Cleveland,
 * "Robust locally weighted regression and smoothing scatterplots", 1979; weights: Shepard, "A two-dimensional interpolation function for
 * irregularly-spaced data", 1968). The load is at most DT_SIM_MAX_LOAD. A variant that was not measured is taken for another. False: the
 * kernel was not measured in this dtype. */
bool gpt_measured_find(const struct gpt_measured_list *list, const struct gpt_measured *what, double *out_alone_s, double *out_load);

/* Operations of a product, elements of the rest. */
double gpt_measured_work(enum gpt_kernel_kind kernel, const double shape[3]);

#endif
