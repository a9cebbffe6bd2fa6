/* Which tables of tile operations this processor can run. */
#include "gpt/cpu/attention/tile.h"
#include "lib/base/cpu_isa.h"
#include "lib/kernels/cpu/amx.h"

extern const struct gpt_tile_ops gpt_tile_ops_base, gpt_tile_ops_avx2, gpt_tile_ops_avx512, gpt_tile_ops_bf16, gpt_tile_ops_amx;

const struct gpt_tile_ops *gpt_tile_ops_for(enum dt_dtype dtype, int index)
{
    enum dt_cpu_isa isa = dt_cpu_isa();
    bool bf16 = dtype == DT_BF16 && isa >= DT_ISA_AVX512BF16;
    const struct {
        const struct gpt_tile_ops *ops;
        bool usable;
    } tables[] = {
        {&gpt_tile_ops_amx, bf16 && dt_cpu_amx_usable()}, {&gpt_tile_ops_bf16, bf16}, {&gpt_tile_ops_avx512, isa >= DT_ISA_AVX512},
        {&gpt_tile_ops_avx2, isa >= DT_ISA_AVX2},         {&gpt_tile_ops_base, true},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].usable && tables[i].ops->name && index-- == 0) /* the table in absent.c has no name */
            return tables[i].ops;
    return NULL;
}
