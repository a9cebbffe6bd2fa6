/* The tables behind lib/comm/mpi/reduce.h. Only the files of the sums know them; avx2 and avx512 exist on x86 alone. */
#ifndef LIB_COMM_MPI_REDUCE_ISAS_H
#define LIB_COMM_MPI_REDUCE_ISAS_H

#include "lib/comm/mpi/reduce.h"

extern const struct dt_reduce_isa dt_reduce_baseline, dt_reduce_avx2, dt_reduce_avx512;

#endif
