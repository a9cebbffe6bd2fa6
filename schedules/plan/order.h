/* What an order is: the row of the table in orders.c, and what its passes are made for. */
#ifndef SCHEDULES_PLAN_ORDER_H
#define SCHEDULES_PLAN_ORDER_H

#include "schedules/plan/plan.h"

/* What an order is made for. Gradient accumulation and a pipeline's chunks are one idea: a step has micro_batches = (the config's)
 * micro_batches * pipeline.chunks of them. An order that flushes has only `window` of them, the config's chunks, between forward and
 * backward at a time. */
struct order_shape {
    int stages;              /* ranks of the pipeline */
    int virtual_stages;      /* parts on each rank, for orders that leave the number open */
    int micro_batches;       /* of a step */
    int window;              /* divides micro_batches */
    int memory_limit;        /* micro-batches; 0: the order's own. Of zb_auto and files */
    struct plan_times times; /* zb_auto is found for these */
    const char *file, *text; /* of an order file: its name for messages, and what is in it */
    const struct plan *made; /* [stages] plans_make's of this order, for an order that says only what all ranks do; NULL: not made yet */
};

enum { ORDER_MOST_PARTS = 64 }; /* of the model on each rank */

/* What a model is divided into for an order: parts on each rank, placed as a ring or folded (plan.h). */
struct order_layout {
    int parts;
    bool folded;
};

/* When each rank's last pass is a whole backward through its first part, so that what began ends where it began: */
enum order_drain {
    ORDER_DRAINS_NEVER, /* or it is not known */
    ORDER_DRAINS_WINDOWS,
    ORDER_DRAINS_STEPS,
};

struct pipeline_order {
    const char *name;   /* in configs */
    const char *title;  /* in papers; NULL: the name */
    const char *abroad; /* how tables of other projects begin their name for it; NULL: with the name */
    const char *help;
    enum order_drain drains;
    bool folded, halves; /* parts are placed as a V; backward comes in halves */
    int parts;           /* of the model on each rank; 0: the shape's virtual_stages */
    /* A plan, which has its place, gets the passes of that rank. NULL: one rank's are not known without those of the others. Errors:
     * DT_ERR_HOST_MEMORY. */
    dt_status (*emit)(const struct order_shape *shape, struct plan *plan);
    /* The same of plans [stages] of all ranks; NULL where there is `emit`. Errors: also DT_ERR_INVALID, of a file. */
    dt_status (*emit_all)(const struct order_shape *shape, struct plan *plans);
    /* What was tried to find it, in words, for who reads a check; NULL: nothing. */
    void (*tell)(const struct order_shape *shape, char *text, size_t bytes);
    /* By the order's source: plan_kept.activations of a rank, at most; and by how much the longest rank of a step is longer than its
     * passes, without messages. NULL: no closed form. */
    double (*kept)(const struct pipeline_order *order, const struct order_shape *shape, int rank);
    double (*bubble)(const struct order_shape *shape);
};

#endif
