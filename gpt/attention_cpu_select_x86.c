/* Which tables of tile operations this processor can run. */
#include "gpt/attention_cpu_tile.h"

extern const struct gpt_tile_ops gpt_tile_ops_base, gpt_tile_ops_v3, gpt_tile_ops_v4, gpt_tile_ops_bf16;

const struct gpt_tile_ops *gpt_tile_ops_for(enum dt_dtype dtype, int index)
{
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const struct {
        const struct gpt_tile_ops *ops;
        bool usable;
    } tables[] = {
        {&gpt_tile_ops_bf16, dtype == DT_BF16 && v4 && __builtin_cpu_supports("avx512bf16")},
        {&gpt_tile_ops_v4, v4},
        {&gpt_tile_ops_v3, v3},
        {&gpt_tile_ops_base, true},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].usable && index-- == 0)
            return tables[i].ops;
    return NULL;
}
