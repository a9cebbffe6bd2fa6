/* x86-64: gpt_matmul_ops_trapped is compiled for AMX and AVX2, so that beside its tile
 * instructions, which amx_trap.h does where the processor cannot, it runs on most processors. */
#include "test/gpt/cpu/matmul/units.h"

#include "lib/base/cpu_isa.h"
#include "lib/kernels/cpu/amx.h"
#include "test/gpt/cpu/matmul/amx_trap.h"

extern const struct gpt_matmul_ops gpt_matmul_ops_trapped;

void matmul_units_begin(void)
{
    if (!dt_cpu_amx_usable())
        trap_install();
}

const struct gpt_matmul_ops *matmul_unit(int index)
{
    const struct gpt_matmul_ops *amx = gpt_matmul_ops_for("amx");
    if (index == 0)
        return gpt_matmul_ops_for("twin");
    if (index == 1 && dt_cpu_isa() >= DT_ISA_AVX2)
        return &gpt_matmul_ops_trapped;
    return index == 2 ? amx : NULL;
}

const char *matmul_unit_name(int index)
{
    static const char *const names[] = {"twin", "AMX instructions", "amx"};
    return names[index];
}

bool matmul_unit_is_real(int index)
{
    return index > 0 && dt_cpu_amx_usable();
}
