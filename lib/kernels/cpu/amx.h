/* AMX, the processor's tile unit: usable if the processor has it for bf16, and the system lets this
 * process use it. */
#pragma once

#include <stdbool.h>

/* Asks the system for the tile registers, for the whole process. Later calls ask again without
 * effect. */
bool dt_cpu_amx_usable(void);
