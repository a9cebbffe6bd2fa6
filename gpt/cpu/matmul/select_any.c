/* A processor that is not x86-64 has only the twin. */
#include "gpt/cpu/matmul/matmul.h"

#include <string.h>

extern const struct gpt_matmul_ops gpt_matmul_ops_twin;

const struct gpt_matmul_ops *gpt_matmul_ops_for(const char *name)
{
    return strcmp(name, gpt_matmul_ops_twin.name) == 0 ? &gpt_matmul_ops_twin : NULL;
}
