/* Exchanges between the ranks of a tensor group, or of a context group, that compute a layer
 * together: collectives on a separate stream, each between two events. The stage's kernels run at
 * the same time, until one of them waits for the result. Inside gpt only.
 *
 * A begin function makes the network wait for all work queued on `stream` so far, and queues the
 * collective. The memory stays in use until gpt_exchange_wait of the same slot. Errors: those of
 * streams and communicators while queueing. */
#pragma once

#include "gpt/layout.h"

/* Exchanges that may run at the same time. gpt_exchange_wait of a slot waits for the last exchange
 * begun in it, so a second one may begin only if nothing needs to wait for the first alone. */
enum gpt_exchange_slot {
    GPT_EXCHANGE_SUM,       /* the sum of a product's summands on all ranks */
    GPT_EXCHANGE_INPUT,     /* rows that a product reads */
    GPT_EXCHANGE_GRADIENTS, /* of parameters of which several ranks have copies */
    GPT_EXCHANGE_KEYS,      /* keys and values, or heads in exchange for positions */
    GPT_EXCHANGE_DKEYS,     /* gradients of keys and values */
    GPT_EXCHANGE_SLOTS
};

struct gpt_exchange {
    struct dt_tensor_group group;    /* comm is NULL if a rank has whole layers: then no function of tensor groups is called */
    struct dt_context_group context; /* the same for context groups */
    struct dt_event *done[GPT_EXCHANGE_SLOTS];
    struct dt_event *product; /* recorded before a product, if group.overlap */
    bool sums_product;        /* the next exchange begins when that product began */
    bool input_comes;         /* the next product runs while GPT_EXCHANGE_INPUT goes on */
};

/* The groups as given to the stage. Call gpt_exchange_finish after a failure, too. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status gpt_exchange_init(struct gpt_exchange *x, const struct dt_tensor_group *group, const struct dt_context_group *context,
                            struct dt_device *device);
void gpt_exchange_finish(struct gpt_exchange *x); /* takes a zeroed one */

/* buffer [count_elems] becomes the sum over the ranks of `among`: the whole tensor group, or the
 * ranks with the same heads of keys and values. */
dt_status gpt_all_reduce_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                               void *buffer, size_t count_elems, enum dt_dtype dtype);
/* own [count_elems] becomes this rank's part of the sum of all [size * count_elems]. */
dt_status gpt_reduce_scatter_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                                   void *all, void *own, size_t count_elems, enum dt_dtype dtype);
/* all [size * count_elems] becomes `own` [count_elems] of all ranks, in the order of ranks. */
dt_status gpt_all_gather_begin(struct gpt_exchange *x, struct dt_comm *among, enum gpt_exchange_slot slot, struct dt_stream *stream,
                               const void *own, void *all, size_t count_elems, enum dt_dtype dtype);
/* In the context group: send [count_elems] to the next rank, and receive [count_elems] from the one
 * before. */
dt_status gpt_shift_begin(struct gpt_exchange *x, enum gpt_exchange_slot slot, struct dt_stream *stream, const void *send, void *receive,
                          size_t count_elems, enum dt_dtype dtype);
/* from, to [count_elems]: exchange some positions of all heads for all positions of some heads, or
 * back. */
dt_status gpt_heads_exchange_begin(struct gpt_exchange *x, struct dt_stream *stream, const void *from, void *to, size_t count_elems,
                                   enum dt_dtype dtype);
/* With group.overlap (sim alone): call them before and after each product on `stream`. */
dt_status gpt_exchange_product_begin(struct gpt_exchange *x, struct dt_stream *stream);
dt_status gpt_exchange_product_end(struct gpt_exchange *x);
/* The stage's stream waits for the last exchange begun in `slot`. */
dt_status gpt_exchange_wait(struct gpt_exchange *x, enum gpt_exchange_slot slot);
