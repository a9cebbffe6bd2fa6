/* How busy parameter servers are in a replayed step: how long the busiest server's link sends or
 * receives bytes, and how long a server updates parameters. Waiting for a worker's first byte does
 * not count. It works with and without a trace. */
#pragma once

#include "lib/sim/engine.h"

struct server_use {
    struct dt_sim_collector next; /* the collector that gets everything, too */
    double from_s;                /* time before this does not count */
    struct server_use_of_rank {
        double link_s, update_s;
        double until_s; /* bytes have been sent until here */
    } *ranks;           /* [ranks]; owned by the caller */
    int count;
};

/* A collector that measures a replay and passes everything on to `next`; `use` outlives it. */
struct dt_sim_collector server_use_collector(struct server_use *use, const struct dt_sim_collector *next);
/* Seconds on the ranks with the largest values. */
struct server_use_of_rank server_use_most(const struct server_use *use);
