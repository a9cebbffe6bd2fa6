/* The table of an instruction set that is not in this build: gpt_tile_ops_for() skips it. */
#include "gpt/cpu/attention/element.h"
#include "gpt/cpu/attention/tile.h"

extern const struct gpt_tile_ops TILE(gpt_tile_ops);
const struct gpt_tile_ops TILE(gpt_tile_ops) = {0};
