/* AMX, the processor's tile unit: usable where the processor has it for bf16 and the system lets this process use it. */
#ifndef LIB_KERNELS_CPU_AMX_H
#define LIB_KERNELS_CPU_AMX_H

#include <stdbool.h>

/* Asks the system for the tile registers: for the whole process, once is enough, more does not hurt. */
bool dt_cpu_amx_usable(void);

#endif
