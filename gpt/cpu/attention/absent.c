/* The table of an instruction set that this build leaves out: gpt_tile_ops_for() does not hand it out. */
#include "gpt/cpu/attention/element.h"
#include "gpt/cpu/attention/tile.h"

extern const struct gpt_tile_ops TILE(gpt_tile_ops);
const struct gpt_tile_ops TILE(gpt_tile_ops) = {0};
