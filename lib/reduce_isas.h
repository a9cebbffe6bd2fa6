/* The tables behind lib/reduce.h. Only the files of the sums know them; avx2 and avx512 exist on x86 alone. */
#ifndef DT_LIB_REDUCE_ISAS_H
#define DT_LIB_REDUCE_ISAS_H

#include "lib/reduce.h"

extern const struct dt_reduce_isa dt_reduce_baseline, dt_reduce_avx2, dt_reduce_avx512;

#endif
