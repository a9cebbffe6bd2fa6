/* AMX, the processor's tile unit: usable where the processor has it for bf16 and the system lets this process use it. */
#ifndef GPT_CPU_AMX_H
#define GPT_CPU_AMX_H

#include <stdbool.h>

/* Asks the system for the tile registers: for the whole process, once is enough, more does not hurt. */
bool gpt_cpu_amx_usable(void);

#endif
