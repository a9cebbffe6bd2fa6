/* The cuda device of a build without CUDA. DTBENCH_CUDA_MISSING comes from meson.build. */
#include "lib/device/backend.h"

const struct dt_device_backend dt_device_cuda = {.kind = "cuda", .missing = "this build has no cuda device: " DTBENCH_CUDA_MISSING};
