/* Pipeline orders: which forward or backward pass of which micro-batch a rank does next. An order is one row of a table in orders.c and
 * emits computing actions only; passes.h adds the rest. */
#ifndef SCHEDULES_PLAN_ORDERS_H
#define SCHEDULES_PLAN_ORDERS_H

#include "schedules/plan/plan.h"

/* What an order is made for. Gradient accumulation and a pipeline's chunks are one idea: a step has micro_batches = (the config's)
 * micro_batches * pipeline.chunks of them. An order that flushes has only `window` of them, the config's chunks, between forward and
 * backward at a time. */
struct order_shape {
    int stage, stages;
    int micro_batches;
    int window; /* divides micro_batches */
};

struct pipeline_order {
    const char *name; /* in configs */
    bool planned;     /* its plans are right, and the executor cannot run them yet: configs that ask for it are refused */
    int parts;        /* of the model on each rank */
    /* Forward passes of a rank before its first backward pass; then one of each in turns, and at the end the backward passes that are left. A
     * flushing order has fewer micro-batches than it gives, in which case all forward passes come first. */
    int (*warm_up)(const struct order_shape *shape, int parts);
    bool newest_first; /* backward passes begin with the micro-batch whose forward was the last; otherwise with the first */
    bool flushes;      /* all backward passes of a window come before the next window's first forward */
    bool halves;       /* backward is emitted in halves, and weight gradients lag behind input gradients: */
    int (*weight_lag)(const struct order_shape *shape);
    bool needs_whole_rounds; /* micro_batches must be a multiple of stages */
};

/* NULL: no such order. */
const struct pipeline_order *pipeline_order_find(const char *name);
/* The orders one after the other; NULL after the last. */
const struct pipeline_order *pipeline_order_at(int index);

/* *out gets the passes of one rank. Owner: the caller, who calls plan_finish, also after a failure. Errors: DT_ERR_INVALID where
 * micro_batches does not fit the order, DT_ERR_HOST_MEMORY. */
dt_status pipeline_order_emit(const struct pipeline_order *order, const struct order_shape *shape, struct plan *out);

#endif
