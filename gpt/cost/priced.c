/* What profiles know of gpt's kernels. */
#include "gpt/kernels.h"

#define PRICED(entry, arguments, kind, phase, shape, ...) {#entry, DT_PHASE_##phase, DT_SHAPE_##shape},
static const struct dt_priced kernels[] = {GPT_KERNELS(PRICED, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)};

#define KEYS(entry, arguments, kind, phase, shape, element, own_passes)                                                                    \
    DT_PRICED_KEYS(entry, GPT_KERNEL_##kind - DT_PRICED_SHARED, element, own_passes)
#define OTHER_KEY(entry, kind, key, text) DT_PRICED_OTHER_KEY(entry, GPT_KERNEL_##kind - DT_PRICED_SHARED, key, text)
static const struct dt_field keys[] = {GPT_KERNELS(KEYS, OTHER_KEY, GPT_NO_KERNEL_ROW)};

const struct dt_pricing gpt_pricing = {
    .kernels = kernels, .count = sizeof kernels / sizeof *kernels, .keys = keys, .key_count = sizeof keys / sizeof *keys};
