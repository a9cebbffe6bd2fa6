/* What the two files of the network share; nobody else includes it. */
#ifndef LIB_SIM_NETWORK_PARTS_H
#define LIB_SIM_NETWORK_PARTS_H

#include "lib/sim/heap.h"
#include "lib/sim/network.h"

#include <math.h>
#include <stdbool.h>

/* A flow on a link: its number and which of its uses. */
struct passage {
    uint32_t flow, use;
};

struct link {
    double capacity;        /* bytes/s */
    double first, exponent; /* first * crowd^exponent bytes/s are less; first 0: no */
    double demand;          /* what its flows would put on it together, each alone in the network */
    struct passage *flows;  /* [flow_count] in no order that matters */
    uint32_t flow_count, flow_room;
    uint32_t crowd; /* flows with those that they stand for */
    bool dirty;

    /* while rates are worked out */
    double left, weights; /* capacity not given away; weight * share of the flows that still grow */
    uint32_t growing;     /* how many of those */
};

struct flow {
    struct dt_sim_flow spec;
    uint32_t *places; /* [use_count] where the flow is in its links' lists */
    uint32_t place_room, tag;
    double alone;      /* bytes/s with nobody else in the network */
    double rate;       /* bytes/s since since_s */
    double left_bytes; /* at since_s */
    double since_s;
    bool active, reached, growing;
    bool stops_itself; /* its own cap, or a link that nobody shares with it, may be what limits it */
    double next_rate;
};

struct dt_sim_network {
    struct link *links; /* [link_count] */
    struct flow *flows; /* [flow_count], some of them over */
    uint32_t link_count, link_room, flow_count, flow_room;
    uint32_t *free_flows, free_count; /* numbers of those that are over */
    struct dt_sim_heap ends;          /* when flows are over */
    double now_s;

    uint32_t *dirty, dirty_count;     /* links whose flows have changed; grows to all links that these reach */
    uint32_t *reached, reached_count; /* flows that may change their rate */
    struct dt_sim_heap filling;       /* links (even items) and flows (odd ones) by the level at which they stop growth */
};

/* On the link, of the flow and those that it stands for. */
static inline double use_weight(const struct dt_sim_use *use)
{
    return use->weight * (1 + use->others);
}

/* bytes/s that the flows on the link have together. */
static inline double link_capacity(const struct link *link)
{
    return link->first > 0 ? fmin(link->capacity, link->first * pow(link->crowd, link->exponent)) : link->capacity;
}

/* Do the link's flows have to share it? Not when all of them together, each as fast as it could be alone, fit. The margin keeps rounding
 * from tying flows together that fill a link exactly; no link is overdrawn by more than it. A single flow's own rate fits its links. */
static inline bool link_constrains(const struct link *link)
{
    return link->crowd > 1 && link->demand > link_capacity(link) * (1 + 1e-9);
}

/* Work out the rates again around the dirty links. */
dt_status dt_sim_network_share(struct dt_sim_network *network);

#endif
