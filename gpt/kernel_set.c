#include "gpt/kernel_set.h"
#include "gpt/kernels_traced.h"

#include <stdlib.h>

dt_status gpt_kernel_set_create(const struct dt_model *model, struct dt_device *device, struct dt_kernels **out)
{
    dt_status status = DT_ERR_UNAVAILABLE;
    struct dt_device_info info;
    struct dt_kernels *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for kernels");
    dt_device_info(device, &info);
    k->plain.table = gpt_kernels_for(info.kind->name);
    if (!k->plain.table)
        goto fail;
    status = k->plain.table->create(device, model, &k->plain.state);
    if (status < 0)
        goto fail;
    k->table = k->offers = k->plain.table;
    k->state = k->plain.state;
    *out = k;
    return DT_OK;

fail:
    free(k);
    return status;
}

static void put_back_plain(struct dt_kernels *k)
{
    if (k->table == k->plain.table)
        return;
    k->table->destroy(k->state);
    k->table = k->plain.table;
    k->state = k->plain.state;
}

dt_status gpt_kernel_set_trace(struct dt_kernels *k, bool on)
{
    struct gpt_kernels *around; /* a failure leaves the plain ones in use */
    if (!on)
        put_back_plain(k);
    if (!on || k->table == &gpt_kernels_traced)
        return DT_OK;
    DT_TRY(gpt_kernels_traced_create(k->plain.table, k->plain.state, &around));
    k->table = &gpt_kernels_traced;
    k->state = around;
    return DT_OK;
}

dt_status gpt_kernel_set_list(struct dt_kernels *k, struct dt_tuning *to, enum dt_dtype dtype)
{
    struct gpt_kernels *listing;
    DT_TRY(gpt_kernels_listing_create(to, dtype, &listing));
    put_back_plain(k);
    k->table = k->offers = &gpt_kernels_listing;
    k->state = listing;
    return DT_OK;
}

void gpt_kernel_set_destroy(struct dt_kernels *k)
{
    if (!k)
        return;
    put_back_plain(k);
    k->plain.table->destroy(k->plain.state);
    free(k);
}

const char *gpt_kernel_set_products(const struct dt_kernels *k)
{
    return k->plain.table->products ? k->plain.table->products(k->plain.state) : "";
}

dt_status gpt_kernel_set_begin_step(struct dt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int step)
{
    return k->table->begin_step(k->state, stream, first_sample, step);
}

dt_status gpt_kernel_set_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *overflows)
{
    return k->table->step_overflows(k->state, stream, overflows);
}

dt_status gpt_kernel_set_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    if (!u->adam) {
        struct gpt_sgd a = {.params = u->params,
                            .grads = u->grads,
                            .count = u->count,
                            .learning_rate = u->learning_rate,
                            .gradient_scale = u->gradient_scale};
        return (u->on_host ? k->table->sgd_host : k->table->sgd)(k->state, stream, &a);
    }
    struct gpt_adam a = {
        .params = u->params,
        .grads = u->grads,
        .first_moment = u->first_moment,
        .second_moment = u->second_moment,
        .master = u->master,
        .count = u->count,
        .learning_rate = u->learning_rate,
        .beta1 = u->beta1,
        .beta2 = u->beta2,
        .epsilon = u->epsilon,
        .gradient_scale = u->gradient_scale,
    };
    return (u->on_host ? k->table->adam_host : k->table->adam)(k->state, stream, &a);
}

dt_status gpt_kernel_set_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count)
{
    return (on_host ? k->table->add_host : k->table->add)(k->state, stream, &(struct gpt_add){to, from, count});
}
