/* Which sums run on this x86 processor. */
#include "lib/base/cpu_isa.h"
#include "lib/comm/mpi/reduce.h"

const struct dt_reduce_isa *dt_reduce_isa(int index)
{
    static const struct dt_reduce_isa *const fastest_first[] = {&dt_reduce_avx512, &dt_reduce_avx2, &dt_reduce_baseline};
    enum dt_cpu_isa isa = dt_cpu_isa();
    int missing = (isa < DT_ISA_AVX512) + (isa < DT_ISA_AVX2);
    return missing + index < 3 ? fastest_first[missing + index] : NULL;
}
