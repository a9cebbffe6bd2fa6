/* What the ranks of a tensor group, or of a context group, exchange while they compute a layer together: collectives on a stream of their
 * own, each between two events. The stage's kernels run at the same time, until one of them waits for the result. Inside gpt only.
 *
 * A begin function has the network wait for what `stream` has been given so far, and queues the collective. The memory stays in use until
 * gpt_exchange_wait of the same slot. Errors: what streams and communicators report while queueing. */
#ifndef GPT_EXCHANGE_H
#define GPT_EXCHANGE_H

#include "gpt/layout.h"

/* Exchanges that may be under way together. One slot's second begin is only waited for where its first one need not be. */
enum gpt_exchange_slot {
    GPT_EXCHANGE_SUM,       /* of a product's parts */
    GPT_EXCHANGE_INPUT,     /* rows that a product reads */
    GPT_EXCHANGE_GRADIENTS, /* of parameters that several ranks hold copies of */
    GPT_EXCHANGE_KEYS,      /* keys and values; heads for positions */
    GPT_EXCHANGE_DKEYS,     /* gradients of keys and values */
    GPT_EXCHANGE_SLOTS
};

struct gpt_exchange {
    struct dt_tensor_group group;    /* comm is NULL where a rank has whole layers: then no function of tensor groups is called */
    struct dt_context_group context; /* likewise */
    struct dt_event *ready;          /* stream: what travels is there */
    struct dt_event *done[GPT_EXCHANGE_SLOTS];
};

/* The groups as given to the stage. After a failure too, gpt_exchange_finish. Errors: DT_ERR_HOST_MEMORY. */
dt_status gpt_exchange_init(struct gpt_exchange *x, const struct dt_tensor_group *group, const struct dt_context_group *context,
                            struct dt_device *device);
void gpt_exchange_finish(struct gpt_exchange *x); /* takes a zeroed one */

/* buffer [count_elems] becomes the sum over the ranks of `among`: of the tensor group, or those with this rank's heads of keys and values. */
dt_status gpt_all_reduce_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                               void *buffer, size_t count_elems, enum dt_dtype dtype);
/* own [count_elems] becomes this rank's part of the sum of all [size * count_elems]. */
dt_status gpt_reduce_scatter_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                                   void *all, void *own, size_t count_elems, enum dt_dtype dtype);
/* all [size * count_elems] becomes every rank's own [count_elems], in their order. */
dt_status gpt_all_gather_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                               const void *own, void *all, size_t count_elems, enum dt_dtype dtype);
/* Of the context group. send [count_elems] goes to the next rank, receive [count_elems] comes from the one before. */
dt_status gpt_shift_begin(struct gpt_exchange *x, enum gpt_exchange_slot slot, struct dt_stream *stream, const void *send, void *receive,
                          size_t count_elems, enum dt_dtype dtype);
/* from, to [count_elems]: some positions of all heads for all positions of some, or back. */
dt_status gpt_heads_exchange_begin(struct gpt_exchange *x, struct dt_stream *stream, const void *from, void *to, size_t count_elems,
                                   enum dt_dtype dtype);
/* The stage's stream waits for the last one that was begun. */
dt_status gpt_exchange_wait(struct gpt_exchange *x, enum gpt_exchange_slot slot);

#endif
