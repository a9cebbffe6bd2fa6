/* Shapes of products for the kernels' tests. */
#pragma once

#include "test/gpt/kernel_setup.h"

static const struct shape {
    size_t rows, in, out;
} shapes[] = {{1, 7, 5}, {33, 86, 65}, {9, 2064, 43}, {3, 20, 2500}, {21, 2100, 9}, {530, 16, 40}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* oneDNN chooses its own instructions. Products use only the conversions of dtbench's instruction
 * sets, which the first shape tests. */
static int shapes_for(const struct setup *s)
{
    return s->table != &gpt_kernels_cpu || s->isa == dt_cpu_isa() ? SHAPES : 1;
}
