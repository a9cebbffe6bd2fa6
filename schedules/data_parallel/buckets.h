/* What modes share in which every rank holds all parameters: DDP, ZeRO-1, ZeRO-2, DataParallel and
 * the parameter server.
 *
 * Consecutive groups of backward form a bucket. Backward fills a bucket's gradients; as soon as the
 * last of them is computed they are reduced on the network stream, while backward goes on. At the
 * end of the step each rank updates its own part of every bucket, the first buckets while the last
 * ones are still being reduced. If a rank updates only a part, the updated parameters are then
 * published: at once, or, if the mode's rules say so, by the next step in forward's order; forward
 * then waits for each bucket. A scheme says to which ranks gradients are reduced, which part each
 * rank owns, and how parameters are published.
 *
 * With parameter offload groups come to the device one by one, a bucket's gradients exist on the
 * device from its first backward until they are reduced and copied to the host, and the host
 * updates this rank's part while backward goes on. Publishing goes through the device, one bucket
 * at a time: this rank's part is copied in, the other parts are copied out.
 *
 * Source  the buckets: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 *         Training", VLDB 2020, section 3.2. Differs a bucket is closed at the end of a layer, not
 *         of a tensor, since that is when our gradients become ready. */
#pragma once

#include "schedules/data_parallel/replica.h"
#include "schedules/data_parallel/shard.h"

struct bucket {
    size_t first_elem, elems; /* of the replica's flat parameters */
    void *grads;              /* [elems] where backward writes now; set by begin */
    bool open;                /* backward has begun since the last reduction */
    bool keeps_sum;           /* and backward adds to what the last reduction left there */

    /* What this rank updates: set by the scheme's divide; own_grads at the latest by its reduce. */
    size_t own_first_elem, own_elems; /* of the replica's flat parameters */
    size_t own_state_elem;            /* first element of its optimizer state */
    const void *own_grads;            /* [own_elems] reduced, on the device */
    struct offload_home home;         /* with offload: of this rank's part */

    void *params;          /* [elems] and a scheme's padding, on the device: set for publish */
    struct dt_buffer flat; /* with offload: gradients, for schemes that otherwise keep them in the replica */

    struct shard_gradients shard; /* zero1 and zero2 */
    int server;                   /* parameter_server: the rank that owns it */

    struct dt_event *reduced;   /* network: own_grads is complete */
    struct dt_event *published; /* network: all parts of params are */
};

struct buckets {
    struct data_parallel base;
    const struct bucket_scheme *scheme;
    struct replica replica;
    struct bucket *buckets; /* [bucket_count] in the order in which backward fills them */
    int bucket_count;
    int *bucket_of;            /* [group_count] */
    int unpublished;           /* of the buckets, the first ones: their parameters are still to be sent in this step */
    struct late_updates *late; /* parameter_server with staleness (late.h); otherwise NULL */
};

struct bucket_scheme {
    bool every_group;    /* is a bucket; otherwise a bucket is closed at the size of ddp.bucket_mib */
    bool divided;        /* buckets are divided evenly over the ranks, with padding; otherwise without gaps */
    bool keep_gradients; /* the replica has flat gradients unless they are offloaded; otherwise begin allocates each bucket's */
    bool summed;         /* reduce makes sums, not averages */
    /* A step publishes all buckets before its forward. Otherwise it publishes each once it is
     * updated, or with ddp.overlap_param_gather the next step does, as the one before is used. */
    bool publishes_first;
    /* Say once what this rank updates of each bucket; own_state_elem is computed from it. NULL: all
     * of it, as it is before the call. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
    dt_status (*divide)(struct buckets *b);
    /* Before the first backward in the bucket since its last reduction: set grads and keeps_sum. */
    dt_status (*begin)(struct buckets *b, struct bucket *bucket, const struct action *action);
    /* Queue on network, which has waited for the gradients. Sets own_grads. Collective. */
    dt_status (*reduce)(struct buckets *b, struct bucket *bucket);
    /* Queue on network, which has waited for the update: send the bucket's params to every rank.
     * Collective. NULL: all ranks made the same update. */
    dt_status (*publish)(struct buckets *b, struct bucket *bucket);
};

static inline struct buckets *buckets_of(struct data_parallel *dp)
{
    return (struct buckets *)dp;
}

/* Functions that schemes share. */

/* `begin` with gradients that the replica keeps. keeps_sum: after a reduction, the next micro-batch
 * is added to this rank's buffer; otherwise backward overwrites it. */
dt_status buckets_begin_flat(struct buckets *b, struct bucket *bucket, const struct action *action, bool keeps_sum);

/* What ZeRO-1 and ZeRO-2 share: each rank updates an even share of every bucket, and gathers the
 * other ranks' updated shares. */
/* A scheme's divide. share_buffers: this rank's share of the reduced gradients has a separate
 * buffer. */
dt_status zero_divide(struct buckets *b, bool share_buffers);
/* A scheme's publish: an all-gather, in place. */
dt_status zero_publish(struct buckets *b, struct bucket *bucket);

/* Hooks. buckets_unit is the finest unit, so that buckets close near their size. */
dt_status buckets_create(const struct dp_mode *mode, const struct dp_setup *setup, struct data_parallel **out);
enum dt_unit buckets_unit(const struct experiment *experiment);
void buckets_destroy(struct data_parallel *dp);
DT_DESTROYS(buckets_destroy, struct data_parallel)
dt_status buckets_publish(struct data_parallel *dp);
/* Wait for the step's parameters of this group if the step publishes them, and publish the next
 * bucket's. Where they are offloaded, their copy to the device waits instead.
 * Source  Megatron-LM core 0.14.0, distributed_data_parallel.py and param_and_grad_buffer.py:
 *         finish_param_sync, which a bucket's first forward calls, waits for the bucket and starts
 *         the next one's gather. Differs a gather waits for no kernel but the updates, so that in a
 *         pipeline's later stages gathers go on while these wait for their first input. */
dt_status buckets_use(struct data_parallel *dp, const struct dt_group *group, const struct action *action);
dt_status buckets_fetch(struct data_parallel *dp, int g, struct resident *to);
dt_status buckets_begin_gradients(struct data_parallel *dp, struct dt_group *group, const struct action *action);
dt_status buckets_reduce(struct data_parallel *dp, const struct dt_group *group, const struct action *action);
dt_status buckets_visit(struct data_parallel *dp, dp_visit visit, void *context);
dt_status buckets_end_step(struct data_parallel *dp);
/* All of these hooks, for a mode's row. */
#define BUCKETS_HOOKS                                                                                                                      \
    .unit = buckets_unit, .create = buckets_create, .destroy = buckets_destroy, .publish = buckets_publish, .use = buckets_use,            \
    .fetch = buckets_fetch, .begin_gradients = buckets_begin_gradients, .reduce = buckets_reduce, .visit = buckets_visit,                  \
    .end_step = buckets_end_step
