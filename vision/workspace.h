/* Memory that a convolution on a GPU uses while it runs, in addition to its operands. GPU kernels
 * allocate it, and `dtbench check` counts it without a GPU. */
#pragma once

#include "lib/base/dtype.h"
#include "vision/kernels.h"

/* Bytes of a convolution's weights, and of a padded copy for tensor cores, which comes first. */
size_t vision_weight_bytes(const struct vision_sliding *over, enum dt_dtype dtype);
size_t vision_weight_room(const struct vision_sliding *over, enum dt_dtype dtype);

/* Bytes that a library may use: a copy of each operand and of the result with channels padded to
 * multiples of eight, which tensor cores need; for the weights also sums in fp32; and a MiB for
 * tables. It is a limit, because only on its GPU does a library say how much it uses. */
size_t vision_library_room(const struct vision_sliding *over, enum dt_dtype dtype);

/* The sum of both. */
size_t vision_workspace_bytes(const struct vision_sliding *over, enum dt_dtype dtype);
