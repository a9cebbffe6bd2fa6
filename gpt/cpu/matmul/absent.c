/* The table of a tile unit that this build leaves out: gpt_matmul_ops_for() does not hand it out. */
#include "gpt/cpu/matmul/element.h"
#include "gpt/cpu/matmul/matmul.h"

extern const struct gpt_matmul_ops MATMUL(gpt_matmul_ops);
const struct gpt_matmul_ops MATMUL(gpt_matmul_ops) = {0};
