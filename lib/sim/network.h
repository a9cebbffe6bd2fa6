/* Flows that share links: how fast each one moves at any moment of virtual time.
 *
 * A link carries at most its capacity, in bytes a second. A flow moves a number of bytes at one rate over all of its links at once; on link
 * l it takes uses[l].weight times its rate (a ring's all-reduce of B bytes puts 2(n-1)/n * B on every link of the ring, so the whole
 * collective is one flow of that many bytes over all of them; where two rings share a link's bytes, the weight is 1/2). Rates are max-min
 * fair: they grow together, in proportion to the flows' shares, until a link is full or a flow has reached its own cap, which stops those
 * flows; the others grow on. A change is worked out again only for flows that it can reach through links that are asked for more than they
 * have. Source  Bertsekas, Gallager, "Data Networks", 2nd ed., section 6.5.2 (progressive filling), with weights; the fluid model of TCP
 *         that SimGrid's CM02 uses: Casanova, Marchal, "A Network Model for Simulation of Grid Application", INRIA RR-4596, 2002. */
#ifndef LIB_SIM_NETWORK_H
#define LIB_SIM_NETWORK_H

#include "lib/base/status.h"

#include <stdint.h>

struct dt_sim_network;

struct dt_sim_use {
    uint32_t link;
    double weight;   /* bytes on the link for each byte of the flow; above 0. A flow names a link once */
    uint32_t others; /* flows that move just as this one does, with as much on this link, and are not started themselves */
};

/* One movement of bytes. */
struct dt_sim_flow {
    double bytes;                  /* above 0 */
    double rate_cap;               /* bytes/s of the flow alone; INFINITY: none */
    double share;                  /* how fast its rate grows in relation to others'; 1 is usual */
    const struct dt_sim_use *uses; /* [use_count]; valid until the flow ends. A flow without links needs a cap */
    uint32_t use_count;
};

dt_status dt_sim_network_create(struct dt_sim_network **out);
void dt_sim_network_destroy(struct dt_sim_network *network); /* takes NULL */

/* Links are numbered from 0. Errors: DT_ERR_INVALID unless capacity > 0, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_network_add_link(struct dt_sim_network *network, double capacity_bytes_per_s, uint32_t *out_link);

/* More flows get more out of the link: `flows` of them share first * flows^exponent, as long as that is less than the link's capacity. What
 * several connections get together where one alone cannot fill a network card. Errors: DT_ERR_INVALID unless 0 < first <= capacity and
 * 0 <= exponent <= 1. */
dt_status dt_sim_network_set_gain(struct dt_sim_network *network, uint32_t link, double first_bytes_per_s, double exponent);

/* The link carries the part `left` of its capacity, above 0 and at most 1. Before its first flow. */
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

#endif
