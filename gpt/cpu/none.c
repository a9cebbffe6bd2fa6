/* Replaces backend.c and its entries in a build without oneDNN. */
#include "gpt/kernels.h"

const struct gpt_kernel_table gpt_kernels_cpu = {
    .name = "cpu", .missing = "this build has no oneDNN; install libdnnl-dev and configure with -Dcpu=enabled"};
