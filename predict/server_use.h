/* How busy parameter servers are in a replayed step: for which part of it bytes move over the busiest one's link, to it or from it, and for
 * which part it updates parameters. Waiting for a worker's first byte is no use of a link. Under a trace as without one. */
#ifndef PREDICT_SERVER_USE_H
#define PREDICT_SERVER_USE_H

#include "lib/sim/engine.h"

struct server_use {
    struct dt_sim_collector next; /* who listens, too */
    double from_s;                /* what is before it does not count */
    struct server_use_of_rank {
        double link_s, update_s;
        double until_s; /* bytes have moved */
    } *ranks;           /* [ranks]; the caller's */
    int count;
};

/* Listens to a replay in place of `next`, which it tells of all; use outlives it. */
struct dt_sim_collector server_use_collector(struct server_use *use, const struct dt_sim_collector *next);
/* Of the rank that has most of it, in seconds. */
double server_use_link_s(const struct server_use *use);
double server_use_update_s(const struct server_use *use);

#endif
