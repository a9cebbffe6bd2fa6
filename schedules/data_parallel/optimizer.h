/* The optimizer's state for a flat range of parameters: a whole replica, the part of it that a rank
 * updates, or a shard of a group. With parameter_offload the state is in host memory, as params and
 * grads are, and the host makes the update.
 *
 * Gradients may overflow. With a static loss_scaling and no clipping a parameter whose gradient is
 * not finite is left out of the update and counted; the others of the step are updated. That needs
 * no communication and leaves updates overlapped with backward. The same parameters are left out
 * however the work is divided, because every rank that updates a parameter sees the same reduced
 * gradient. Where the gradients' norm is asked for, it says whether the whole step is left out, as
 * torch.amp.GradScaler does (norm.h). */
#pragma once

#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/data_parallel/mode.h"

struct optimizer;

/* The range of parameters whose parts an optimizer updates: groups [first, first + count) of the
 * stage. offset_elems [count]: where in the range each group begins; NULL: one group, at 0. */
struct optimizer_run {
    int first, count;
    const size_t *offset_elems;
};

/* State for `count` parameters (0: none), allocated on `stream`: for SGD nothing, or with momentum
 * an fp32 moment, 4 bytes a parameter; for Adam two; and with master weights 4 bytes more.
 * summed_ranks: gradients are sums over this number of ranks; 1 if they are averages. The
 * experiment and the stage outlive it. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. Owner: the caller,
 * also after a failure. */
dt_status optimizer_create(const struct experiment *experiment, const struct dt_stage *stage, struct optimizer_run run, size_t count,
                           int summed_ranks, struct dt_stream *stream, struct optimizer **out);
void optimizer_destroy(struct optimizer *optimizer, struct dt_stream *stream); /* takes NULL */

/* From now on these kernels make the updates, instead of the stage's. They outlive the
 * optimizer. */
void optimizer_use(struct optimizer *optimizer, struct dt_kernels *kernels);

/* Update parameters [at, at + count) of the range. params and grads point to element `at`; the
 * state of these parameters begins at its element `state_first`. Elements after the range's last
 * parameter are padding. Gradients are divided by the experiment's loss scaling and by
 * summed_ranks. Queues on `stream`: one update, or one for each run of tensors that weight decay is
 * for or not (optimizer.decayed). */
dt_status optimizer_apply(struct optimizer *optimizer, void *params, const void *grads, size_t at, size_t state_first, size_t count,
                          struct dt_stream *stream);

/* Visit the state of a range of a group's parameters, which begins at element `first` of the state.
 * `run` describes the range; its kind and data are set here. */
dt_status optimizer_visit(const struct optimizer *optimizer, struct dp_held run, size_t first, dp_visit visit, void *context);
