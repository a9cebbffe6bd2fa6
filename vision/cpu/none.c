/* Replaces backend.c and its entries in a build without oneDNN. */
#include "vision/kernels.h"

const struct vision_kernel_table vision_kernels_cpu = {
    .name = "cpu", .missing = "this build has no oneDNN; install libdnnl-dev and configure with -Dcpu=enabled"};
