/* The tile units of this x86-64 processor. */
#include "gpt/cpu/matmul/matmul.h"
#include "lib/base/cpu_isa.h"
#include "lib/kernels/cpu/amx.h"

#include <string.h>

extern const struct gpt_matmul_ops gpt_matmul_ops_amx, gpt_matmul_ops_twin;

const struct gpt_matmul_ops *gpt_matmul_ops_for(const char *name)
{
    if (strcmp(name, gpt_matmul_ops_twin.name) == 0)
        return &gpt_matmul_ops_twin;
    bool amx = dt_cpu_isa() >= DT_ISA_AVX512BF16 && dt_cpu_amx_usable(); /* code between the tiles uses AVX-512 */
    amx = amx && gpt_matmul_ops_amx.name;                                /* the table in absent.c has no name */
    return amx && strcmp(name, gpt_matmul_ops_amx.name) == 0 ? &gpt_matmul_ops_amx : NULL;
}
