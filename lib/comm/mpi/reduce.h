/* Vector sums for communicators: the arithmetic of a reduction, in the fastest form that this processor has.
 *
 * MPI has no 16-bit floats and sums what it has element by element; these sums work on whole registers and are compiled once per
 * instruction set. All of them give the same bits (NaNs aside, which stay NaNs). */
#ifndef LIB_COMM_MPI_REDUCE_H
#define LIB_COMM_MPI_REDUCE_H

#include "lib/base/dtype.h"

#include <stddef.h>

/* out [count] = (a [count] + b [count]) * scale, in fp32, rounded once to nearest even. out may be a or b; they do not overlap
 * otherwise. scale is 1, or 1 / size in the last sum of an average. No alignment is asked for. */
typedef void (*dt_sum_function)(void *out, const void *a, const void *b, size_t count_elems, float scale);

struct dt_reduce_isa {
    const char *name; /* "avx512", "avx2", "baseline" */
    dt_sum_function sum[DT_DTYPE_COUNT];
};

/* The instruction sets that this processor has and this build knows, fastest first; NULL after the last. Entry 0 always exists. */
const struct dt_reduce_isa *dt_reduce_isa(int index);

/* For that function alone: one for each set; avx2 and avx512 exist on x86. */
extern const struct dt_reduce_isa dt_reduce_baseline, dt_reduce_avx2, dt_reduce_avx512;

#endif
