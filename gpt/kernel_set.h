/* The kernels of one device for one model, as schedules hold them (struct dt_kernels in
 * lib/kernels/kernels.h). struct dt_model_family describes the functions, whose names there are
 * nearly the same. */
#pragma once

#include "gpt/kernels.h"
#include "lib/model/model.h"

struct gpt_plain_kernels {
    const struct gpt_kernel_table *table;
    struct gpt_kernels *state;
};

/* `table` and `state` are in use: the plain ones, those around them while a step is traced, or
 * those that list products. */
struct gpt_kernel_set {
    struct dt_kernels base;
    const struct gpt_kernel_table *table;
    struct gpt_kernels *state;
    struct gpt_plain_kernels plain;
    const struct gpt_kernel_table *offers; /* the plain or the listing table: says which fused kernels exist */
};

extern const struct dt_own_kernels gpt_own_kernels;
dt_status gpt_kernel_set_trace(struct dt_kernels *k, bool on);
/* As `list` of struct dt_tuner, for this set. */
dt_status gpt_kernel_set_list(struct dt_kernels *k, struct dt_tuning *to, const struct dt_model *model);
const char *gpt_kernel_set_products(const struct dt_kernels *k);

/* All kernels of gpt are in such a set. */
static inline struct gpt_kernel_set *gpt_kernel_set(const struct dt_kernels *k)
{
    return (struct gpt_kernel_set *)k;
}
