/* Which sums run on this x86 processor. */
#include "lib/reduce_isas.h"

#include <stdbool.h>

const struct dt_reduce_isa *dt_reduce_isa(int index)
{
    __builtin_cpu_init();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    bool avx2 = __builtin_cpu_supports("avx2"); /* and with it F16C, which is older; not every compiler can ask for F16C */
    const struct dt_reduce_isa *const all[] = {avx512 ? &dt_reduce_avx512 : NULL, avx2 ? &dt_reduce_avx2 : NULL, &dt_reduce_baseline};
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++) {
        if (all[i] && index-- == 0)
            return all[i];
    }
    return NULL;
}
