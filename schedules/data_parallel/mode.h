/* Data-parallel modes: what happens to a parameter group around its forward, backward and update.
 *
 * A mode's rules say where a plan gathers, frees, reduces and updates; its hooks run those actions.
 * Each mode is one file with a table of hooks. The modes in which every rank holds all parameters
 * (ddp, zero1, zero2, data_parallel, parameter_server) share buckets.c. A mode owns the stage's
 * parameters, gradients and optimizer state, and sets group->params, group->grads and
 * group->accumulate before the group's kernels. Hooks queue work and return. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/model/model.h"
#include "schedules/config/experiment.h"
#include "schedules/plan/plan.h"
#include "schedules/step/timeline.h"

struct bucket_scheme;
struct gradient_norm;
struct offload;

/* What every mode is given. All of it outlives the mode. */
struct dp_setup {
    const struct experiment *experiment;
    struct dt_stage *stage;
    struct dt_device *device;
    /* The ranks that hold the same layers, by axis of the mesh; NULL if the paradigm has no such
     * axis. */
    struct dt_comm *shards;        /* each has a different share of what the mode divides */
    struct dt_comm *replicas;      /* each has a copy */
    struct dt_comm *tensor;        /* each has a part of every layer */
    struct dt_comm *contexts;      /* each has a part of every sample */
    struct dt_stream *compute;     /* kernels */
    struct dt_stream *network;     /* this mode's collectives */
    struct timeline *timeline;     /* of compute: waits for the network and for copies go through timeline_wait */
    const struct offload *offload; /* parameters are in host memory; NULL: on the device */
    struct gradient_norm *norm; /* updates wait for it at the step's end (norm.h); NULL: they are made as soon as gradients are complete */
    int micro_batches;          /* of a step */
    int reduce_every;           /* gradients are reduced after this number of micro-batches */
    enum dt_dtype gradient_dtype; /* of the buffers of group->grads; backward's gradients in the model's dtype are added to them */
    double gradient_bytes;        /* bytes of each gradient from backward to the update; at least those of gradient_dtype */
    enum dt_dtype reduce_dtype;   /* in which gradients are sent */
    bool converts;                /* gradients are converted to reduce_dtype, and back */
};

/* Bytes of `elems` parameters. */
static inline size_t dp_bytes(const struct dp_setup *setup, size_t elems)
{
    return elems * dt_dtype_bytes(setup->experiment->model.dtype);
}

/* Numbers of the model's dtype that have the bytes of `elems` parameters as they are gathered, of
 * which this part belongs to blocks: with fp8.gather two numbers of a block need the bytes of
 * one. */
static inline size_t dp_gathered_elems(const struct dp_setup *setup, size_t elems, double of_blocks)
{
    return elems - (setup->experiment->model.fp8_gather ? (size_t)((double)elems * of_blocks / 2) : 0);
}

/* Bytes of `elems` gradients in the type in which they are added and reduced. */
static inline size_t dp_grads_bytes(const struct dp_setup *setup, size_t elems)
{
    return elems * dt_dtype_bytes(setup->gradient_dtype);
}

/* Bytes of `elems` gradients as they are kept from backward to the update: more for some
 * frameworks. */
static inline size_t dp_gradient_bytes(const struct dp_setup *setup, size_t elems)
{
    return (size_t)(setup->gradient_bytes * (double)elems);
}

/* to[i] += from[i], both [count] gradients; on_host as in struct dt_update. */
static inline dt_status dp_add_gradients(const struct dp_setup *setup, struct dt_stream *stream, bool on_host, void *to, const void *from,
                                         size_t count)
{
    struct dt_kernels *k = setup->stage->kernels;
    return setup->gradient_dtype == setup->experiment->model.dtype ? dt_kernels_add(k, stream, on_host, to, from, count)
                                                                   : dt_kernels_add_wide(k, stream, on_host, to, DT_FP32, from, count);
}

/* A group's parameters, if they are not on the device all the time. */
struct resident {
    struct dt_buffer params; /* the whole group, or none while it is not on the device */
    struct dt_event *there;  /* params can be used */
};

enum { DP_LATE_STEPS = 32 };

struct data_parallel {
    const struct dp_mode *mode;
    struct dp_setup setup;
    bool repeats_updates; /* another rank makes the same updates and counts their overflows */

    /* Where a plan places the mode's actions, once the mode is created (schedules/plan/plan.h). */
    struct plan_rules rules;
    /* Updates of a step may run during later steps; waiting for a step's loss does not wait for
     * them. late_overflows: elements that the updates of recent steps left out, indexed by the
     * step's number (from 0) modulo DP_LATE_STEPS; valid after network is synchronized. */
    bool updates_late;
    uint64_t late_overflows[DP_LATE_STEPS];

    const int *bucket_of; /* [group_count] groups with the same number are reduced together; NULL: each separately */

    struct resident *residents; /* [group_count]; NULL where parameters stay on the device (schedules/data_parallel/residency.h) */

    /* the mode's own state follows */
};

/* ---- facts about a mode, for predictions ----
 *
 * A fact that is left out is 0, which claims nothing. */

/* Which part of a stage's parameters (or gradients, or optimizer state) a rank has: less than the
 * other parts at some time or on some ranks; a rank's share if the shards divide it evenly; all of
 * it. */
enum dp_part { DP_LESS, DP_SHARE, DP_ALL };

/* A collective on buffers of all gradients or parameters, or of a rank's share of them. DP_LESS:
 * there is none. */
struct dp_collective {
    enum mesh_axis axis;
    enum dt_comm_kind kind;
    enum dp_part of;
};

/* What the ranks of a stage do: different things; the same, on shares of buckets of which the last
 * ones may be smaller; the same. */
enum dp_likeness { DP_RANKS_DIFFER, DP_RANKS_SHARE_BUCKETS, DP_RANKS_ALIKE };

static inline double dp_part_of(enum dp_part part, const struct mesh_shape *mesh)
{
    return part == DP_ALL ? 1 : part == DP_SHARE ? 1.0 / mesh_group_size(mesh, MESH_SHARD) : 0;
}

/* What a rank holds between steps: a range of a group's parameters, or of their optimizer state,
 * which is fp32. */
enum dp_kind { DP_PARAMETERS, DP_FIRST_MOMENT, DP_SECOND_MOMENT, DP_MASTER };
struct dp_held {
    enum dp_kind kind;
    int group;
    size_t first_elem, count_elems; /* of the group's elements */
    void *data;                     /* the first one; on the device, or with offload in host memory */
    bool own;                       /* only this rank of the data axes writes it to a checkpoint */
};
typedef dt_status (*dp_visit)(void *context, const struct dp_held *held);

/* Hooks read these flags of an action: ACTION_FIRST, ACTION_LAST, ACTION_REDUCES. A hook may be
 * NULL if the mode's rules place no action that needs it; `use` may always be NULL. */
struct dp_mode {
    const char *name;
    /* What every rank holds on its device all the time without offloading. The optimizer's part is
     * also the part that the rank updates. */
    struct {
        enum dp_part parameters, gradients, optimizer;
    } holds;
    struct dp_collective gathers;    /* parameters, before forward and backward */
    struct dp_collective reduces[2]; /* gradients */
    struct dp_collective publishes;  /* parameters, once a step */
    enum dp_likeness ranks;
    const struct dp_mode *alone; /* replaces this mode if one replica is divided over all ranks and nothing is averaged; NULL: none */

    const struct bucket_scheme *buckets; /* of a mode that shares buckets.c; otherwise NULL */

    /* The unit that this mode gathers and reduces. */
    enum dt_unit (*unit)(const struct experiment *experiment);
    /* Make parameters (initialised in their final memory), gradients and optimizer state, and set
     * rules, bucket_of and residents. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY; *out is destroyed also
     * then, unless it is NULL. */
    dt_status (*create)(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out);
    void (*destroy)(struct data_parallel *dp); /* streams are synchronized; takes NULL */

    /* PUBLISH: send the step's parameters to the ranks that lack them. */
    dt_status (*publish)(struct data_parallel *dp);
    /* GATHER: queue the fetching of group `g`; allocate to->params, and record to->there after the
     * fetch. */
    dt_status (*fetch)(struct data_parallel *dp, int g, struct resident *to);
    /* Before kernels use a group's parameters: have compute wait for everything else that they
     * need. */
    dt_status (*use)(struct data_parallel *dp, const struct dt_group *group, const struct action *action);
    /* Before a group's backward: set group->grads and group->accumulate. */
    dt_status (*begin_gradients)(struct data_parallel *dp, struct dt_group *group, const struct action *action);
    /* REDUCE: after the backward of the last group of a bucket. */
    dt_status (*reduce)(struct data_parallel *dp, const struct dt_group *group, const struct action *action);
    /* UPDATE: the group's gradients are complete. */
    dt_status (*update)(struct data_parallel *dp, const struct dt_group *group);
    /* Between steps: call `visit` with everything that the rank holds, until a call fails. */
    dt_status (*visit)(struct data_parallel *dp, dp_visit visit, void *context);
    /* END_STEP: finish the reductions, and update all parameters that have not been updated. */
    dt_status (*end_step)(struct data_parallel *dp);
};
