/* What profiles know of this family's kernels. */
#include "vision/priced.h"

#define PRICED(name, number, phase, shape, element, passes) {#name, DT_PHASE_##phase, DT_SHAPE_##shape},
static const struct dt_priced kernels[] = {VISION_PRICED_KERNELS(PRICED)};

#define KEYS(name, number, phase, shape, element, passes) DT_PRICED_KEYS(name, VISION_PRICED_##number - DT_PRICED_SHARED, element, passes)
static const struct dt_field keys[] = {VISION_PRICED_KERNELS(KEYS)};

const struct dt_pricing vision_pricing = {
    .kernels = kernels, .count = sizeof kernels / sizeof *kernels, .keys = keys, .key_count = sizeof keys / sizeof *keys};
