/* The kernels of one device for one model, as schedules hold them (struct dt_kernels in lib/model/model.h). The functions are the entries of
 * `struct dt_model_family` of nearly the same name, where they are described. */
#ifndef GPT_KERNEL_SET_H
#define GPT_KERNEL_SET_H

#include "gpt/kernels.h"
#include "lib/model/model.h"

/* In use are `table` and `state`: the plain ones, or while a step is traced those around them, or those that list products. */
struct dt_kernels {
    const struct gpt_kernel_table *table;
    struct gpt_kernels *state;
    struct {
        const struct gpt_kernel_table *table;
        struct gpt_kernels *state;
    } plain;
    const struct gpt_kernel_table *offers; /* the plain one or the listing one: what there is of several kernels in one */
};

dt_status gpt_kernel_set_create(const struct dt_model *model, struct dt_device *device, struct dt_kernels **out);
dt_status gpt_kernel_set_trace(struct dt_kernels *k, bool on);
/* As list of struct dt_tuner, of these. */
dt_status gpt_kernel_set_list(struct dt_kernels *k, struct dt_tuning *to, enum dt_dtype dtype);
void gpt_kernel_set_destroy(struct dt_kernels *k);
const char *gpt_kernel_set_products(const struct dt_kernels *k);
dt_status gpt_kernel_set_begin_step(struct dt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int step);
dt_status gpt_kernel_set_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *overflows);
dt_status gpt_kernel_set_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u);
dt_status gpt_kernel_set_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count);

#endif
