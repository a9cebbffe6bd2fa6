/* The tile units that products are tested on: first the twin, then one with real or trapped AMX
 * instructions, where possible. */
#pragma once

#include "gpt/cpu/matmul/matmul.h"

void matmul_units_begin(void);
const struct gpt_matmul_ops *matmul_unit(int index); /* NULL past the last */
const char *matmul_unit_name(int index);
bool matmul_unit_is_real(int index); /* the processor has the unit */
