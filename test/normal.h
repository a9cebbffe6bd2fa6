/* The normal deviates of lib/base/random.h in double precision and rounded once: the reference of
 * faster kernels. */
#pragma once

#include "lib/base/random.h"

#include <math.h>

static inline float dt_random_normal(uint64_t seed, uint32_t tensor_id, uint64_t element)
{
    uint64_t block = element / 4;
    struct dt_philox random = dt_philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
    const uint32_t *pair = &random.word[element & 2];
    double radius = sqrt(-2.0 * log(((double)pair[0] + 1.0) * 0x1p-32));
    double angle = 2.0 * M_PI * 0x1p-32 * (double)pair[1];
    return (float)(radius * (element & 1 ? sin(angle) : cos(angle)));
}
