#include "gpt/cpu_isa.h"

#include "gpt/kernels.h"

#include <stdio.h>

#if defined(__x86_64__)
enum gpt_cpu_isa gpt_cpu_isa(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return GPT_ISA_BASE; /* every processor with AVX2 and FMA has F16C, which older compilers cannot ask for */
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512cd"))
        return GPT_ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? GPT_ISA_AVX512BF16 : GPT_ISA_AVX512;
}
#else
enum gpt_cpu_isa gpt_cpu_isa(void)
{
    return GPT_ISA_BASE;
}
#endif

const char *gpt_cpu_isa_name(enum gpt_cpu_isa isa)
{
    static const char *const names[GPT_ISA_COUNT] = {
        [GPT_ISA_BASE] = "baseline",
        [GPT_ISA_AVX2] = "AVX2",
        [GPT_ISA_AVX512] = "AVX-512",
        [GPT_ISA_AVX512BF16] = "AVX-512 BF16",
    };
    return names[isa];
}

bool gpt_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    bool bf16 = gpt_cpu_isa() == GPT_ISA_AVX512BF16; /* every processor with AMX bf16 has it too */
    snprintf(advice, advice_bytes, "%s", "");
    if (dtype == DT_FP32 || (dtype == DT_BF16 && bf16))
        return true;
    if (dtype == DT_BF16)
        snprintf(advice, advice_bytes, "this processor has no bf16 arithmetic (AVX-512 BF16 or AMX); fp32 is faster here");
    else
        snprintf(advice, advice_bytes, "fp16 is converted to fp32 inside every matrix product; %s here",
                 bf16 ? "bf16 has the same size and is faster" : "fp32 is faster");
    return false;
}
