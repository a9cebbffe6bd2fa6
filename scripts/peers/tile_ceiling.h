/* The tile unit's own rate: products of tiles that stay in its registers. */
#pragma once

#include <stdbool.h>

bool tile_ceiling_usable(void);        /* this processor has a tile unit, and this process may use it */
double tile_ceiling_run(int products); /* so many times four; returns their floating-point operations */
