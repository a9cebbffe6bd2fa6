/* How long a pipeline takes to fill and drain, by the blocks that each virtual stage has: what no network makes shorter. */
#ifndef SCHEDULES_SEARCH_PIPELINE_FILL_H
#define SCHEDULES_SEARCH_PIPELINE_FILL_H

#include "schedules/config/experiment.h"
#include "schedules/plan/order.h"

/* Whole blocks of each virtual stage: blocks [virtual_stages]. Errors: as experiment_partition. */
dt_status pipeline_blocks(const struct experiment *experiment, int virtual_stages, int *blocks);

/* Of a block. */
struct block_times {
    double all_s;     /* all its passes of a step */
    double last_s;    /* of them, those of the last micro-batch */
    double forward_s; /* one forward */
    double end_s;     /* its gradients on the network, which are complete with the last micro-batch */
    double update_s;  /* its parameters' update, behind all passes of a rank */
    bool drains;      /* the order does (order.h) */
};

/* Where orders drain, rank k begins once the first micro-batch has passed the virtual stages before its first one, and the last one goes back
 * through them after all its own; in others a rank may be at the next step by then. What it sends begins behind all but its last micro-batch. most: blocks of the rank that
 * has most. */
double pipeline_fill_s(const int *blocks, int stages, const struct order_layout *layout, const struct block_times *times, int *most);

/* A message from one stage to the next, in seconds. */
struct message_times {
    double near_s, away_s; /* within a node, and to another one */
    int ranks_per_node;
};

/* A micro-batch's passes, in seconds: of one block, and what the first and the last virtual stage have besides theirs. */
struct pass_times {
    double block_s, block_forward_s; /* all passes, and forward alone; 0: not known */
    double again_s;                  /* of a block: forward once more, in all but the last micro-batch of each window */
    double early_s;                  /* of a backward pass: what is computed again before its gradient has come */
    double first_s, first_forward_s;
    double last_s, last_forward_s;
    double end_s;    /* of a block: its gradients on the network, once a step and between its last pass and its update */
    double card_s;   /* of that, what a card needs that carries gradients of several stages at a time */
    double update_s; /* of a block, once a step: behind all passes of a rank, and the next step waits for it */
    struct message_times messages;
};

/* What a step takes at least when the order is played with passes of these times: from the first pass to the last of the rank that it begins
 * with, and what is left of its gradients on the network or its update, since the next step begins there behind it; the same of all passes
 * of the rank that has most; and until the card of the first node has carried the gradients of all stages there. Backward is divided into halves as makes this
 * shortest. Errors: as plans_make. */
dt_status pipeline_played_s(const struct experiment *experiment, const struct pass_times *times, double *out);

#endif
