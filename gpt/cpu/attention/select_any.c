/* The only table of tile operations of a processor that is not x86-64. */
#include "gpt/cpu/attention/tile.h"

extern const struct gpt_tile_ops gpt_tile_ops_base;

const struct gpt_tile_ops *gpt_tile_ops_for(enum dt_dtype dtype, int index)
{
    return index == 0 ? &gpt_tile_ops_base : NULL;
}
