/* Replaces the other files of this folder in a build without CUDA. */
#include "vision/kernels.h"

const struct vision_kernel_table vision_kernels_cuda = {
    .name = "cuda",
    .missing = "this build has no CUDA: it needs nvcc and cublasLt.h of CUDA 12 or 13 (-Dcuda=enabled says what it looked for)"};
