#include "gpt/kernels.h"
#include "lib/base/cpu_isa.h"

#include <stdio.h>

bool gpt_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    bool bf16 = dt_cpu_isa() == DT_ISA_AVX512BF16; /* every processor with AMX bf16 has it too */
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
