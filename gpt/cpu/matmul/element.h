/* For pack.c, block.c and store.c, which are compiled once for each tile unit, with
 * GPT_MATMUL_NAME. */
#pragma once

#include "gpt/cpu/matmul/matmul.h"
#include "gpt/cpu/matmul/tiles.h"

#define GPT_MATMUL_PASTE(a, b) a##_##b
#define GPT_MATMUL_EXPAND(a, b) GPT_MATMUL_PASTE(a, b)
#define MATMUL(name) GPT_MATMUL_EXPAND(name, GPT_MATMUL_NAME) /* the name of a function or table for this unit */
#define GPT_MATMUL_QUOTE(a) #a
#define GPT_MATMUL_STRING(a) GPT_MATMUL_QUOTE(a)
#define MATMUL_TITLE GPT_MATMUL_STRING(GPT_MATMUL_NAME)

enum { STRIP = GPT_MATMUL_STRIP, STEP_BYTES = 2 * TILE_BYTES }; /* a strip's two tiles for 32 of K */

void MATMUL(gpt_matmul_pack)(const struct gpt_matmul_packing *p, size_t first_strip, size_t end_strip);

/* Store the strip's complete sums [32, 32] in c. Their first element is (row, column) of the
 * block. */
void MATMUL(gpt_matmul_store)(const struct gpt_matmul_block *block, const float *sums, size_t row, size_t column);
