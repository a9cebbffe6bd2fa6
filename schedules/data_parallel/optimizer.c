#include "schedules/data_parallel/optimizer.h"

#include <stdlib.h>

struct optimizer {
    const struct experiment *experiment;
    const struct gpt_stage *stage;
    float gradient_scale;
    struct dt_buffer first_moment, second_moment, master; /* [count] fp32, Adam only */
};

dt_status optimizer_create(const struct experiment *experiment, const struct gpt_stage *stage, size_t count, int summed_ranks,
                           struct dt_stream *stream, struct optimizer **out)
{
    struct optimizer *optimizer = *out = calloc(1, sizeof *optimizer);
    if (!optimizer)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an optimizer");
    optimizer->experiment = experiment;
    optimizer->stage = stage;
    optimizer->gradient_scale = (float)(1.0 / experiment->loss_scaling / summed_ranks);
    if (experiment->optimizer.name == OPTIMIZER_SGD || count == 0)
        return DT_OK;

    struct dt_buffer *state[] = {&optimizer->first_moment, &optimizer->second_moment, &optimizer->master};
    for (size_t i = 0; i < sizeof state / sizeof *state; i++) {
        dt_status status =
            (experiment->parameter_offload ? dt_alloc_host : dt_alloc)(stream, DT_OPTIMIZER, count * sizeof(float), state[i]);
        if (status < 0) {
            optimizer_destroy(optimizer, stream);
            *out = NULL;
            return status;
        }
    }
    return DT_OK;
}

void optimizer_destroy(struct optimizer *optimizer, struct dt_stream *stream)
{
    if (!optimizer)
        return;
    dt_free(stream, &optimizer->first_moment);
    dt_free(stream, &optimizer->second_moment);
    dt_free(stream, &optimizer->master);
    free(optimizer);
}

dt_status optimizer_apply(struct optimizer *optimizer, void *params, const void *grads, size_t first, size_t count,
                          struct dt_stream *stream)
{
    const struct experiment *e = optimizer->experiment;
    const struct gpt_stage *stage = optimizer->stage;
    float gradient_scale = optimizer->gradient_scale, learning_rate = (float)e->optimizer.learning_rate;

    if (count == 0)
        return DT_OK;
    if (e->optimizer.name == OPTIMIZER_SGD) {
        struct gpt_sgd a = {
            .params = params, .grads = grads, .count = count, .learning_rate = learning_rate, .gradient_scale = gradient_scale};
        return (e->parameter_offload ? stage->table->sgd_host : stage->table->sgd)(stage->kernels, stream, &a);
    }
    struct gpt_adam a = {
        .params = params,
        .grads = grads,
        .first_moment = (float *)optimizer->first_moment.data + first,
        .second_moment = (float *)optimizer->second_moment.data + first,
        .master = (float *)optimizer->master.data + first,
        .count = count,
        .learning_rate = learning_rate,
        .beta1 = (float)e->optimizer.beta1,
        .beta2 = (float)e->optimizer.beta2,
        .epsilon = (float)e->optimizer.epsilon,
        .gradient_scale = gradient_scale,
    };
    return (e->parameter_offload ? stage->table->adam_host : stage->table->adam)(stage->kernels, stream, &a);
}
