#include "schedules/data_parallel/optimizer.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters without weight decay: [first, end) of the optimizer's range. */
struct plain_run {
    size_t first, end;
};

struct optimizer {
    const struct experiment *experiment;
    struct dt_kernels *kernels;
    float gradient_scale;
    int tensors;             /* of the whole model */
    double parameters;       /* of all these tensors on one rank: ranks that share layers have a part of each */
    struct plain_run *plain; /* [plain_count] in order, none adjacent to another */
    int plain_count;
    struct dt_buffer first_moment, second_moment, master; /* [count] fp32, those that exist (struct dt_update) */
};

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

/* Whether weight decay applies to this tensor. A norm's bias follows its gain. */
static bool is_decayed(const struct experiment *e, const struct dt_model_tensor *before, const struct dt_model_tensor *tensor)
{
    if (ends_with(tensor->name, ".gain"))
        return false;
    if (!ends_with(tensor->name, ".bias"))
        return true;
    size_t norm = strlen(tensor->name) - strlen("bias");
    bool of_norm = ends_with(before->name, ".gain") && strncmp(before->name, tensor->name, norm) == 0;
    return !of_norm && e->optimizer.decayed == DECAYED_ALL_BUT_NORMS;
}

static dt_status add_plain(struct optimizer *optimizer, size_t first, size_t count)
{
    struct plain_run *last = optimizer->plain_count ? &optimizer->plain[optimizer->plain_count - 1] : NULL;
    if (last && last->end == first) {
        last->end += count;
        return DT_OK;
    }
    DT_TRY(dt_allocated(DT_ONE_MORE(optimizer->plain, optimizer->plain_count), "no host memory for an optimizer"));
    optimizer->plain[optimizer->plain_count++] = (struct plain_run){first, first + count};
    return DT_OK;
}

/* The last group is first in memory. */
static dt_status find_plain(struct optimizer *optimizer, const struct dt_stage *stage, struct optimizer_run run)
{
    const struct experiment *e = optimizer->experiment;
    if (e->optimizer.decayed == DECAYED_ALL || e->optimizer.weight_decay <= 0)
        return DT_OK;
    for (int i = run.count - 1; i >= 0; i--) {
        const struct dt_group *group = &stage->groups[run.first + i];
        size_t begin = run.offset_elems ? run.offset_elems[i] : 0;
        struct dt_model_tensor before = {.name = ""}, tensor;
        for (int t = 0; stage->model->family->tensor(stage, group, t, &tensor); t++, before = tensor)
            if (!is_decayed(e, &before, &tensor))
                DT_TRY(add_plain(optimizer, begin + tensor.offset_elems, tensor.count_elems));
    }
    return DT_OK;
}

static dt_status allocate_state(struct optimizer *optimizer, size_t count, struct dt_stream *stream)
{
    const struct experiment *e = optimizer->experiment;
    struct dt_buffer *state[] = {&optimizer->first_moment, &optimizer->second_moment, &optimizer->master};
    bool adam = experiment_is_adam(e);
    bool kept[] = {adam || e->optimizer.momentum > 0, adam, e->optimizer.master_weights};
    for (int i = 0; i < 3; i++)
        if (kept[i])
            DT_TRY((e->parameter_offload ? dt_alloc_host : dt_alloc)(stream, DT_OPTIMIZER, count * sizeof(float), state[i]));
    return DT_OK;
}

dt_status optimizer_create(const struct experiment *experiment, const struct dt_stage *stage, struct optimizer_run run, size_t count,
                           int summed_ranks, struct dt_stream *stream, struct optimizer **out)
{
    struct optimizer *optimizer = *out = calloc(1, sizeof *optimizer);
    DT_TRY(dt_allocated(optimizer, "no host memory for an optimizer"));
    optimizer->experiment = experiment;
    optimizer->kernels = stage->kernels;
    optimizer->tensors = dt_model_tensor_count(&experiment->model);
    optimizer->parameters = (double)dt_model_parameter_count(&experiment->model) / experiment->tensor.size;
    optimizer->gradient_scale = (float)(1.0 / experiment_static_scale(experiment) / summed_ranks);
    DT_TRY(find_plain(optimizer, stage, run));
    return allocate_state(optimizer, count, stream);
}

void optimizer_destroy(struct optimizer *optimizer, struct dt_stream *stream)
{
    if (!optimizer)
        return;
    dt_free(stream, &optimizer->first_moment);
    dt_free(stream, &optimizer->second_moment);
    dt_free(stream, &optimizer->master);
    free(optimizer->plain);
    free(optimizer);
}

void optimizer_use(struct optimizer *optimizer, struct dt_kernels *kernels)
{
    optimizer->kernels = kernels;
}

/* The end of the parameters that are treated as the one at `at` is; *decays: whether weight decay
 * applies to them. */
static size_t end_of_alike(const struct optimizer *optimizer, size_t at, size_t end, bool *decays)
{
    *decays = true;
    for (int i = 0; i < optimizer->plain_count; i++) {
        const struct plain_run *plain = &optimizer->plain[i];
        if (at >= plain->end)
            continue;
        *decays = at < plain->first;
        size_t next = *decays ? plain->first : plain->end;
        return next < end ? next : end;
    }
    return end;
}

static dt_status update_alike(struct optimizer *optimizer, void *params, const void *grads, size_t first, size_t count, double tensors,
                              bool decays, struct dt_stream *stream)
{
    const struct experiment *e = optimizer->experiment;
    struct dt_update update = {
        .params = params,
        .grads = grads,
        .wide_grads = dt_dtype_bytes(e->model.dtype) < dt_dtype_bytes(experiment_gradient_dtype(e)),
        .count = count,
        .tensors = tensors,
        .learning_rate = (float)e->optimizer.learning_rate,
        .gradient_scale = optimizer->gradient_scale,
        .on_host = e->parameter_offload,
        .momentum = (float)e->optimizer.momentum,
        .weight_decay = decays ? (float)e->optimizer.weight_decay : 0,
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

dt_status optimizer_apply(struct optimizer *optimizer, void *params, const void *grads, size_t at, size_t state_first, size_t count,
                          struct dt_stream *stream)
{
    const struct experiment *e = optimizer->experiment;
    double tensors = fmax(1, round(optimizer->tensors * (double)count / optimizer->parameters));
    int updates = 0;
    bool decays;
    for (size_t from = at; from < at + count; from = end_of_alike(optimizer, from, at + count, &decays))
        updates++;
    for (size_t from = at, end; from < at + count; from = end) {
        end = end_of_alike(optimizer, from, at + count, &decays);
        size_t done = from - at;
        DT_TRY(update_alike(optimizer, (char *)params + done * dt_dtype_bytes(e->model.dtype),
                            (const char *)grads + done * dt_dtype_bytes(experiment_gradient_dtype(e)), state_first + done, end - from,
                            tensors / updates, decays, stream));
    }
    return DT_OK;
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
