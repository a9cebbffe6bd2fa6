/* Flows that share links: the rate of each at any moment of virtual time.
 *
 * A link carries at most its capacity, in bytes a second. A flow moves a number of bytes at one
 * rate over all of its links at once; on link l it takes uses[l].weight times its rate (a ring's
 * all-reduce of B bytes puts 2(n-1)/n * B on every link of the ring, so the whole collective is one
 * flow of that many bytes over all of them; if two rings share a link's bytes, the weight is 1/2).
 * Rates are max-min fair: they grow together, in proportion to the flows' shares, until a link is
 * full or a flow has reached its own cap, which stops those flows; the others continue to grow.
 * After a change, rates are recomputed only for flows that it can reach through links whose demand
 * exceeds their
 * capacity. Source  Bertsekas, Gallager, "Data Networks", 2nd ed., section 6.5.2 (progressive
 *                   filling), with weights; the fluid model of TCP that SimGrid's CM02 uses:
 *                   Casanova, Marchal, "A Network Model for Simulation of Grid Application", INRIA
 *                   RR-4596, 2002. */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct dt_sim_network;

struct dt_sim_use {
    uint32_t link;
    double weight;   /* bytes on the link for each byte of the flow; above 0. A flow may name a link only once */
    uint32_t others; /* number of identical flows with the same use of this link, which this one represents and which are not started */
};

/* A transfer of bytes. */
struct dt_sim_flow {
    double bytes;                  /* above 0 */
    double rate_cap;               /* maximum rate of the flow in bytes/s; INFINITY: none */
    double share;                  /* how fast its rate grows relative to others; usually 1 */
    const struct dt_sim_use *uses; /* [use_count]; valid until the flow ends. A flow without links needs a rate_cap */
    uint32_t use_count;
};

dt_status dt_sim_network_create(struct dt_sim_network **out);
void dt_sim_network_destroy(struct dt_sim_network *network); /* takes NULL */

/* Links are numbered from 0. Errors: DT_ERR_INVALID unless the capacity is above 0,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_sim_network_add_link(struct dt_sim_network *network, double capacity_bytes_per_s, uint32_t *out_link);

/* More flows get more from the link: `flows` of them share first * flows^exponent, up to the link's
 * capacity. This models several connections on a network card that one alone cannot fill. Errors:
 * DT_ERR_INVALID unless 0 < first <= capacity and 0 <= exponent <= 1. */
dt_status dt_sim_network_set_gain(struct dt_sim_network *network, uint32_t link, double first_bytes_per_s, double exponent);

/* Reduce the link to the part `left` of its capacity, above 0 and at most 1. Call before its first
 * flow. */
void dt_sim_network_slow(struct dt_sim_network *network, uint32_t link, double left);

/* Begin a flow at now_s, which never goes backwards. tag is returned when the flow ends. Errors:
 * DT_ERR_INVALID for a flow that could never end, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_network_start(struct dt_sim_network *network, double now_s, const struct dt_sim_flow *flow, uint32_t tag);

/* When the next flow ends; INFINITY: there is none. Rates are brought up to date first, once for
 * everything that changed at the same moment. */
dt_status dt_sim_network_next(struct dt_sim_network *network, double *out_s);
/* Remove a flow that ends at now_s, the time of dt_sim_network_next. Its tag, or UINT32_MAX: there
 * is no further one. */
uint32_t dt_sim_network_take(struct dt_sim_network *network, double now_s);

/* Rate of the flow with this tag now, in bytes/s; 0: none. For tests: it looks at every flow. */
double dt_sim_network_rate(struct dt_sim_network *network, uint32_t tag);
