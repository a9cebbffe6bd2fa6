#include "scripts/peers/tile_ceiling.h"

#include "gpt/cpu/matmul/matmul.h"
#include "gpt/cpu/matmul/tiles.h"

bool tile_ceiling_usable(void)
{
    return gpt_matmul_ops_for("amx") != NULL;
}

/* Four sums, so that none waits for itself: a product takes 16 cycles, and its sum is there after
 * some 50. */
double tile_ceiling_run(int products)
{
    struct tiles t;
    tiles_begin(&t);
    tile_zero(&t, 0);
    tile_zero(&t, 1);
    tile_zero(&t, 2);
    tile_zero(&t, 3);
    tile_zero(&t, 4);
    tile_zero(&t, 5);
    tile_zero(&t, 6);
    tile_zero(&t, 7);
    for (int i = 0; i < products; i++) {
        tile_multiply(&t, 0, 4, 6);
        tile_multiply(&t, 1, 4, 7);
        tile_multiply(&t, 2, 5, 6);
        tile_multiply(&t, 3, 5, 7);
    }
    tiles_end(&t);
    return 4.0 * products * 2 * TILE_LINES * TILE_WORDS * TILE_DEPTH;
}
