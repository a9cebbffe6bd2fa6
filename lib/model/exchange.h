/* Exchanges between ranks that compute a layer together: collectives on a separate stream, each
 * between two events. The stage's kernels run at the same time, until one of them waits for the
 * result. For families.
 *
 * A begin function makes the network wait for all work queued on `stream` so far, and queues the
 * collective. The memory stays in use until dt_exchange_wait of the same slot. Errors: those of
 * streams and communicators while queueing. */
#pragma once

#include "lib/model/model.h"

/* Exchanges that may run at the same time. dt_exchange_wait of a slot waits for the last exchange
 * begun in it, so a second one may begin only if nothing needs to wait for the first alone. */
enum dt_exchange_slot {
    DT_EXCHANGE_SUM,       /* the sum of a product's summands on all ranks; the sums of a norm whose samples are on several */
    DT_EXCHANGE_INPUT,     /* rows that a product reads */
    DT_EXCHANGE_GRADIENTS, /* of parameters of which several ranks have copies */
    DT_EXCHANGE_KEYS,      /* keys and values, or heads in exchange for positions */
    DT_EXCHANGE_DKEYS,     /* gradients of keys and values */
    DT_EXCHANGE_SLOTS
};

struct dt_exchange {
    struct dt_tensor_group group;    /* comm is NULL if a rank computes its layers alone: then no function of the group is called */
    struct dt_context_group context; /* the same for context groups */
    struct dt_event *done[DT_EXCHANGE_SLOTS];
    struct dt_event *product; /* recorded before a product, if group.overlap */
    bool sums_product;        /* the next exchange begins when that product began */
    bool input_comes;         /* the next product runs while DT_EXCHANGE_INPUT goes on */
};

/* The groups as given to the stage. Call dt_exchange_finish after a failure, too. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_exchange_init(struct dt_exchange *x, const struct dt_tensor_group *group, const struct dt_context_group *context,
                           struct dt_device *device);
void dt_exchange_finish(struct dt_exchange *x); /* takes a zeroed one */

/* buffer [count_elems] becomes the sum over the ranks of `among`: the whole group, or some of its
 * ranks. */
dt_status dt_all_reduce_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                              void *buffer, size_t count_elems, enum dt_dtype dtype);
/* own [count_elems] becomes this rank's part of the sum of all [size * count_elems]. */
dt_status dt_reduce_scatter_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                                  void *all, void *own, size_t count_elems, enum dt_dtype dtype);
/* all [size * count_elems] becomes `own` [count_elems] of all ranks, in the order of ranks. */
dt_status dt_all_gather_begin(struct dt_exchange *x, struct dt_comm *among, enum dt_exchange_slot slot, struct dt_stream *stream,
                              const void *own, void *all, size_t count_elems, enum dt_dtype dtype);
/* In the context group: send [count_elems] to the next rank, and receive [count_elems] from the one
 * before. */
dt_status dt_shift_begin(struct dt_exchange *x, enum dt_exchange_slot slot, struct dt_stream *stream, const void *send, void *receive,
                         size_t count_elems, enum dt_dtype dtype);
/* from, to [count_elems]: exchange some positions of all heads for all positions of some heads, or
 * back. */
dt_status dt_heads_exchange_begin(struct dt_exchange *x, struct dt_stream *stream, const void *from, void *to, size_t count_elems,
                                  enum dt_dtype dtype);
/* With group.overlap (sim alone): call them before and after each product on `stream`. */
dt_status dt_exchange_product_begin(struct dt_exchange *x, struct dt_stream *stream);
dt_status dt_exchange_product_end(struct dt_exchange *x);
/* The stage's stream waits for the last exchange begun in `slot`. */
dt_status dt_exchange_wait(struct dt_exchange *x, enum dt_exchange_slot slot);
