/* No x86-64: the twin alone. */
#include "test/gpt/cpu/matmul/units.h"

void matmul_units_begin(void)
{
}

const struct gpt_matmul_ops *matmul_unit(int index)
{
    return index == 0 ? gpt_matmul_ops_for("twin") : NULL;
}

const char *matmul_unit_name(int index)
{
    return "twin";
}

bool matmul_unit_is_real(int index)
{
    return false;
}
