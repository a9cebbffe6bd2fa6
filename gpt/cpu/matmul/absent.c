/* The table of a tile unit that this build leaves out: dt_cpu_isa() says so, and nobody asks for it. */
#include "gpt/cpu/matmul/element.h"
#include "gpt/cpu/matmul/matmul.h"

extern const struct gpt_matmul_ops MATMUL(gpt_matmul_ops);
const struct gpt_matmul_ops MATMUL(gpt_matmul_ops) = {0};
