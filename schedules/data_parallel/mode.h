/* Data-parallel modes: what happens to a parameter group before and after its forward and backward, and at the end of the step.
 *
 * Each mode is one file with a table of hooks. Those in which every rank holds all parameters (ddp, zero1, zero2, data_parallel,
 * parameter_server) share buckets.c. A mode owns the stage's parameters, gradients and optimizer state, and
 * sets group->params, group->grads and group->accumulate before the group's turn. Hooks queue work and return. */
#ifndef SCHEDULES_DATA_PARALLEL_MODE_H
#define SCHEDULES_DATA_PARALLEL_MODE_H

#include "lib/comm/comm.h"
#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/step/timeline.h"

struct offload;

/* What every mode is given; all of it outlives the mode. */
struct dp_setup {
    const struct experiment *experiment;
    struct dt_stage *stage;
    struct dt_device *device;
    /* The ranks that hold the same layers, by axis of the mesh; NULL where the paradigm has no such axis. */
    struct dt_comm *shards;        /* each has another share of what the mode divides */
    struct dt_comm *replicas;      /* each has a copy */
    struct dt_stream *compute;     /* kernels */
    struct dt_stream *network;     /* this mode's collectives */
    struct timeline *timeline;     /* of compute: waits for the network, and for copies, go through timeline_wait */
    const struct offload *offload; /* parameters live in host memory; NULL: on the device */
};

/* Bytes of `elems` parameters or gradients. */
static inline size_t dp_bytes(const struct dp_setup *setup, size_t elems)
{
    return elems * dt_dtype_bytes(setup->experiment->model.dtype);
}

struct data_parallel {
    const struct dp_mode *mode;
    struct dp_setup setup;
    bool repeats_updates; /* another rank makes the same updates and counts their overflows; otherwise no one else does */
    /* the mode's own state follows */
};

/* Where in a step a hook is called. Gradients are complete after the last micro-batch's backward. */
struct dp_moment {
    int step; /* counts from 1 */
    /* Of the whole step: of this stage's forward passes in forward hooks; of its backward passes in backward hooks and in a recomputation,
     * which belongs to its backward. */
    bool first_micro_batch, last_micro_batch;
    bool reduce;    /* this backward's gradients, and what earlier ones have left, are to be reduced now; always so in the last */
    bool recompute; /* this forward is made a second time, inside backward: the backward of the same groups comes next */
    /* The group whose turn comes next on this stage, forward or backward, so that a mode can gather ahead: this group itself where its
     * backward follows its forward at once (what was gathered may stay); -1 where end_step does. */
    int next_group;
};

struct dp_mode {
    const char *name;
    /* The grouping this mode wants: gathered and reduced together. */
    enum dt_unit (*unit)(const struct experiment *experiment);
    /* Make parameters (initialised where they live), gradients and optimizer state. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
    dt_status (*create)(const struct dp_setup *setup, struct data_parallel **out);
    void (*destroy)(struct data_parallel *dp); /* streams are synchronized; takes NULL */
    dt_status (*before_forward)(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
    dt_status (*after_forward)(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
    dt_status (*before_backward)(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
    dt_status (*after_backward)(struct data_parallel *dp, struct dt_group *group, const struct dp_moment *moment);
    /* Finish reducing and update the parameters. */
    dt_status (*end_step)(struct data_parallel *dp, const struct dp_moment *moment);
};

extern const struct dp_mode dp_none, dp_ddp, dp_zero1, dp_zero2, dp_fsdp, dp_data_parallel, dp_parameter_server;

#endif
