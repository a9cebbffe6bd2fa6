#include "lib/cost/fp8.h"

#include <stddef.h>

/* Bytes per element that a cast reads and writes. An amax is another read. */
enum { READ = 2, WRITE = 1, TRANSPOSED = 1, AMAX = 2, TRANSPOSE = 2 };

/* Bytes of scales per number: fp32 for 128 of them, or 128 x 128; one byte for 32. */
#define BLOCK_SCALE (4.0 / 128)
#define MICRO_SCALE (1.0 / 32)

static const struct dt_fp8_recipe recipes[DT_FP8_RECIPES] = {
    [DT_FP8_NONE] = {.name = "none"},
    /* one kernel casts, transposes and finds the amax for later steps */
    [DT_FP8_DELAYED] = {.name = "delayed",
                        .input = {1, READ + WRITE + TRANSPOSED},
                        .weight = {1, READ + WRITE + TRANSPOSED},
                        .gradient = {1, READ + WRITE + TRANSPOSED},
                        .keeps_fp8 = true,
                        .of_tensors = true,
                        .weight_bytes = WRITE + TRANSPOSED,
                        .shares_amax = true,
                        .speed = 1},
    /* one kernel finds the amax, another one casts and transposes */
    [DT_FP8_CURRENT] = {.name = "current",
                        .input = {2, AMAX + READ + WRITE + TRANSPOSED},
                        .weight = {2, AMAX + READ + WRITE + TRANSPOSED},
                        .gradient = {2, AMAX + READ + WRITE + TRANSPOSED},
                        .keeps_fp8 = true,
                        .of_tensors = true,
                        .weight_bytes = WRITE + TRANSPOSED,
                        .shares_parts = true,
                        .speed = 1},
    /* 16-bit inputs are kept, and cast again for the weight's gradient */
    [DT_FP8_TENSORWISE] = {.name = "tensorwise",
                           .input = {2, AMAX + READ + WRITE},
                           .weight = {2, AMAX + READ + WRITE},
                           .gradient = {2, AMAX + READ + WRITE + TRANSPOSED},
                           .input_again = {2, AMAX + READ + TRANSPOSED},
                           .weight_again = {1, TRANSPOSE},
                           .of_tensors = true,
                           .shares_parts = true,
                           .speed = 1},
    /* the rows of one product are the columns of the next, so each operand is cast twice; along its
     * rows one kernel finds scales and casts. speed: from the one published pair of runs
     * (pytorch/torchtitan, commit 7a04053: 6,424 tokens/s, tensorwise 7,186) */
    [DT_FP8_ROWWISE] = {.name = "rowwise",
                        .input = {1, READ + WRITE},
                        .weight = {1, READ + WRITE},
                        .gradient = {3, READ + WRITE + AMAX + READ + TRANSPOSED},
                        .input_again = {2, AMAX + READ + TRANSPOSED},
                        .weight_again = {2, AMAX + READ + TRANSPOSED},
                        .speed = 0.87},
    /* speed: an assumption; sums in fp32 every 128 products are added while the tensor cores work
     * for another group of warps */
    [DT_FP8_BLOCKWISE] = {.name = "blockwise",
                          .input = {1, READ + WRITE + TRANSPOSED + 2 * BLOCK_SCALE},
                          .weight = {1, READ + WRITE + TRANSPOSED},
                          .gradient = {1, READ + WRITE + TRANSPOSED + 2 * BLOCK_SCALE},
                          .keeps_fp8 = true,
                          .weight_bytes = WRITE + TRANSPOSED,
                          .speed = 1},
    [DT_FP8_MXFP8] = {.name = "mxfp8",
                      .input = {1, READ + WRITE + TRANSPOSED + 2 * MICRO_SCALE},
                      .weight = {1, READ + WRITE + TRANSPOSED + 2 * MICRO_SCALE},
                      .gradient = {1, READ + WRITE + TRANSPOSED + 2 * MICRO_SCALE},
                      .keeps_fp8 = true,
                      .weight_bytes = WRITE + TRANSPOSED + 2 * MICRO_SCALE,
                      .microscaled = true,
                      .speed = 1},
};

const struct dt_fp8_recipe *dt_fp8_recipe(enum dt_fp8 recipe)
{
    return &recipes[recipe];
}

const char *dt_fp8_name(int index)
{
    return index < DT_FP8_RECIPES ? recipes[index].name : NULL;
}
