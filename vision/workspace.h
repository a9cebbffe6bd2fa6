/* Memory that a convolution on a GPU uses while it runs, in addition to its operands: GPU kernels
 * allocate it, and `dtbench check` counts it without a GPU. */
#ifndef VISION_WORKSPACE_H
#define VISION_WORKSPACE_H

#include "lib/base/dtype.h"
#include "vision/kernels.h"

/* Of a convolution's weights; and room for them where tensor cores can read them, which comes first. */
size_t vision_weight_bytes(const struct vision_sliding *over, enum dt_dtype dtype);
size_t vision_weight_room(const struct vision_sliding *over, enum dt_dtype dtype);

/* What a library may use: for each operand and result once more with channels in eights, which tensor cores want, for the weights also as sums in
 * fp32; and for tables a MiB. A limit, since a library says what it uses on its GPU alone. */
size_t vision_library_room(const struct vision_sliding *over, enum dt_dtype dtype);

/* Both. */
size_t vision_workspace_bytes(const struct vision_sliding *over, enum dt_dtype dtype);

#endif
