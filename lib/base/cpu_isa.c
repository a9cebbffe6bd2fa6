#include "lib/base/cpu_isa.h"

#if defined(__x86_64__)
static enum dt_cpu_isa of_processor(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return DT_ISA_BASE; /* every processor with AVX2 and FMA has F16C, which older compilers cannot ask for */
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512cd"))
        return DT_ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? DT_ISA_AVX512BF16 : DT_ISA_AVX512;
}
#else
static enum dt_cpu_isa of_processor(void)
{
    return DT_ISA_BASE;
}
#endif

enum dt_cpu_isa dt_cpu_isa(void)
{
    enum dt_cpu_isa has = of_processor();
    if (has >= DT_ISA_MOST)
        return DT_ISA_MOST;
    return has < DT_ISA_BELOW ? has : DT_ISA_BELOW;
}

const char *dt_cpu_isa_name(enum dt_cpu_isa isa)
{
    static const char *const names[DT_ISA_COUNT] = {
        [DT_ISA_BASE] = "baseline",
        [DT_ISA_AVX2] = "AVX2",
        [DT_ISA_AVX512] = "AVX-512",
        [DT_ISA_AVX512BF16] = "AVX-512 BF16",
    };
    return names[isa];
}
