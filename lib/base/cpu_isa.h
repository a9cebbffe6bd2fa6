/* The instruction set of this processor, for code that is compiled once per instruction set. */
#pragma once

/* In rising order: each level includes the ones before. Anything but x86-64 is BASE. */
enum dt_cpu_isa {
    DT_ISA_BASE,       /* x86-64: SSE2; or any other processor */
    DT_ISA_AVX2,       /* x86-64-v3: AVX2, FMA, F16C */
    DT_ISA_AVX512,     /* x86-64-v4: AVX-512 F, BW, DQ, VL */
    DT_ISA_AVX512BF16, /* and AVX-512 BF16 (with or without AMX) */
    DT_ISA_COUNT
};

/* The highest level that both this processor and the loops of this build have (option
 * instruction_sets). */
enum dt_cpu_isa dt_cpu_isa(void);
const char *dt_cpu_isa_name(enum dt_cpu_isa isa);
