#include "schedules/data_parallel/optimizer.h"

#include <math.h>
#include <stdlib.h>

struct optimizer {
    const struct experiment *experiment;
    struct dt_kernels *kernels;
    float gradient_scale;
    int tensors;                                          /* of the whole model */
    double parameters;                                    /* that a rank has of all of them: ranks that share layers have a part of each */
    struct dt_buffer first_moment, second_moment, master; /* [count] fp32, those that there are (struct dt_update) */
};

dt_status optimizer_create(const struct experiment *experiment, const struct dt_stage *stage, size_t count, int summed_ranks,
                           struct dt_stream *stream, struct optimizer **out)
{
    struct optimizer *optimizer = *out = calloc(1, sizeof *optimizer);
    DT_TRY(dt_allocated(optimizer, "no host memory for an optimizer"));
    optimizer->experiment = experiment;
    optimizer->kernels = stage->kernels;
    optimizer->tensors = experiment->model.family->tensor_count(&experiment->model);
    optimizer->parameters = (double)dt_model_parameter_count(&experiment->model) / experiment->tensor.size;
    optimizer->gradient_scale = (float)(1.0 / experiment_static_scale(experiment) / summed_ranks);
    struct dt_buffer *state[] = {&optimizer->first_moment, &optimizer->second_moment, &optimizer->master};
    bool adam = experiment_is_adam(experiment);
    bool kept[] = {adam || experiment->optimizer.momentum > 0, adam, experiment->optimizer.master_weights};
    for (int i = 0; i < 3; i++) {
        dt_status status = DT_OK;
        if (kept[i])
            status = (experiment->parameter_offload ? dt_alloc_host : dt_alloc)(stream, DT_OPTIMIZER, count * sizeof(float), state[i]);
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

void optimizer_use(struct optimizer *optimizer, struct dt_kernels *kernels)
{
    optimizer->kernels = kernels;
}

dt_status optimizer_apply(struct optimizer *optimizer, void *params, const void *grads, size_t first, size_t count,
                          struct dt_stream *stream)
{
    const struct experiment *e = optimizer->experiment;
    if (count == 0)
        return DT_OK;
    struct dt_update update = {
        .params = params,
        .grads = grads,
        .wide_grads = dt_dtype_bytes(e->model.dtype) < dt_dtype_bytes(experiment_gradient_dtype(e)),
        .count = count,
        .tensors = fmax(1, round(optimizer->tensors * (double)count / optimizer->parameters)),
        .learning_rate = (float)e->optimizer.learning_rate,
        .gradient_scale = optimizer->gradient_scale,
        .on_host = e->parameter_offload,
        .momentum = (float)e->optimizer.momentum,
        .weight_decay = (float)e->optimizer.weight_decay,
        .decoupled = e->optimizer.name == OPTIMIZER_ADAMW,
    };
    if (optimizer->first_moment.data)
        update.first_moment = (float *)optimizer->first_moment.data + first;
    if (optimizer->master.data)
        update.master = (float *)optimizer->master.data + first;
    if (experiment_is_adam(e)) {
        update.adam = true;
        update.second_moment = (float *)optimizer->second_moment.data + first;
        update.beta1 = (float)e->optimizer.beta1;
        update.beta2 = (float)e->optimizer.beta2;
        update.epsilon = (float)e->optimizer.epsilon;
    }
    return dt_kernels_update(optimizer->kernels, stream, &update);
}

dt_status optimizer_visit(const struct optimizer *optimizer, struct dp_held run, size_t first, dp_visit visit, void *context)
{
    const struct dt_buffer *state[] = {
        [DP_FIRST_MOMENT] = &optimizer->first_moment, [DP_SECOND_MOMENT] = &optimizer->second_moment, [DP_MASTER] = &optimizer->master};
    for (int kind = DP_FIRST_MOMENT; kind <= DP_MASTER && run.count_elems > 0; kind++) {
        if (!state[kind]->data)
            continue;
        run.kind = (enum dp_kind)kind;
        run.data = (float *)state[kind]->data + first;
        DT_TRY(visit(context, &run));
    }
    return DT_OK;
}
