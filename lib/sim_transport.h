/* How a cluster carries messages: its links in a network, and what collectives, messages and copies put on them.
 *
 * Links: NVLink out and in of each GPU (or its PCIe link, where there is none), PCIe to and from the host, each NIC out and in, the switches
 * between nodes where they block. A collective is one flow: a ring that visits a node's ranks one after another puts every byte on each NIC
 * once, and on each of its GPUs' links once (lib/sim_nccl.h has the choice of algorithm and protocol, and latencies). */
#ifndef DT_LIB_SIM_TRANSPORT_H
#define DT_LIB_SIM_TRANSPORT_H

#include "lib/sim_cluster.h"
#include "lib/sim_engine.h"

struct dt_sim_links; /* a cluster's links, and what was worked out for its communicators */

/* Add the cluster's links, as far as the placement's ranks use them, to an empty network. `cluster` is copied. Owner: the caller, and it must
 * outlive network and engine. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_links_create(const struct dt_sim_cluster *cluster, const struct dt_sim_placement *placement,
                              struct dt_sim_network *network, struct dt_sim_links **out);
void dt_sim_links_destroy(struct dt_sim_links *links); /* takes NULL */

/* For dt_sim_engine_create; the links are its context. */
struct dt_sim_transport dt_sim_links_transport(struct dt_sim_links *links);

#endif
