/* The table of an instruction set that this build leaves out: dt_cpu_isa() says so, and nobody asks for it. */
#include "gpt/cpu/attention/element.h"
#include "gpt/cpu/attention/tile.h"

extern const struct gpt_tile_ops TILE(gpt_tile_ops);
const struct gpt_tile_ops TILE(gpt_tile_ops) = {0};
