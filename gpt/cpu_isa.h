/* Which instructions this processor has, as far as the cpu kernels care. */
#ifndef GPT_CPU_ISA_H
#define GPT_CPU_ISA_H

#include <stdbool.h>

/* In rising order: each level includes the ones before. Anything but x86-64 is BASE. */
enum gpt_cpu_isa {
    GPT_ISA_BASE,       /* x86-64: SSE2; or any other processor */
    GPT_ISA_AVX2,       /* x86-64-v3: AVX2, FMA, F16C */
    GPT_ISA_AVX512,     /* x86-64-v4: AVX-512 F, BW, DQ, VL */
    GPT_ISA_AVX512BF16, /* and AVX-512 BF16 (with or without AMX) */
    GPT_ISA_COUNT
};

enum gpt_cpu_isa gpt_cpu_isa(void);
const char *gpt_cpu_isa_name(enum gpt_cpu_isa isa);

#endif
