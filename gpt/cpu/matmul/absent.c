/* The table of a tile unit that is not in this build: gpt_matmul_ops_for() does not return it. */
#include "gpt/cpu/matmul/element.h"
#include "gpt/cpu/matmul/matmul.h"

extern const struct gpt_matmul_ops MATMUL(gpt_matmul_ops);
const struct gpt_matmul_ops MATMUL(gpt_matmul_ops) = {0};
