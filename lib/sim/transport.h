/* How a cluster carries messages: its links in a network, and the load of collectives, messages and
 * copies on them.
 *
 * Links: NVLink out and in of each GPU (or its PCIe link, if there is no NVLink), PCIe to and from
 * the host, a node's copies together, each NIC out and in, the switches between nodes if they
 * block. A collective is one flow over all links of its ranks.
 *
 * NCCL (lib/sim/nccl.h selects algorithm and protocol):
 *   ring   the ranks of a node are neighbours in it, so every byte passes each NIC once; several
 *          NICs divide the bytes
 *   tree   ranks of a node in a chain, nodes in two binary trees, each with half of the message
 *          (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 *          and scan", 2009): every NIC sends twice the message, with two nodes once
 *   nvls   every GPU sends the message to the NVSwitches once and its part of the sum once; NICs as
 *          with trees, or once if switches sum
 *   all_to_all, shift   messages by protocol Simple that all ranks send together, each at the rate
 *                       of its channels or of one connection of its card; messages from a node's
 *                       ranks to other nodes are spread evenly over its cards. NCCL's latency of
 *                       many messages is not known: that of one is used.
 * MPI: dtbench's own collectives (lib/comm/mpi/operation.c): ranks exchange parts directly, in one
 * or two phases. */
#pragma once

#include "lib/sim/cluster.h"
#include "lib/sim/engine.h"
#include "lib/sim/nccl.h"

#include <stdbool.h>

struct dt_sim_links; /* a cluster's links, and cached results for its communicators */

/* Add the cluster's links, those that the placement's ranks use, to an empty network. `cluster` is
 * copied. Owner: the caller, who keeps it until network and engine are destroyed. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_sim_links_create(const struct dt_sim_cluster *cluster, const struct dt_sim_placement *placement,
                              struct dt_sim_network *network, struct dt_sim_links **out);
void dt_sim_links_destroy(struct dt_sim_links *links); /* takes NULL */
DT_DESTROYS(dt_sim_links_destroy, struct dt_sim_links)

/* From now on only these ranks are simulated. Each stands in for ranks that do the same at the same
 * times: a flow of one rank on a link counts for all ranks on that link that it represents, and
 * links without simulated ranks carry nothing. Call before the first operation, and only if nodes
 * share no link (fabric.blocking_factor 1). ranks: [count], world ranks; stand_in: [world_size] for
 * each rank the index in `ranks` of its stand-in. If a rank shares a link with a simulated rank,
 * its stand-in must be on that link, too. Both are copied. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_links_stand_in(struct dt_sim_links *links, const int *ranks, int count, const int *stand_in);

/* Reduce a rank's network card, or its link to the node's other GPUs, in both directions, to the
 * part `left` of its rate. NCCL's selection does not change: it uses the cards' labels. Call before
 * the first operation. Errors: DT_ERR_UNAVAILABLE if the ranks have no such card or link. */
dt_status dt_sim_links_slow(struct dt_sim_links *links, struct dt_sim_network *network, int rank, bool card, double left);

/* For dt_sim_engine_create; the links are its context. */
struct dt_sim_transport dt_sim_links_transport(struct dt_sim_links *links);

/* A group of world ranks as NCCL sees it; for tests, and to ask what NCCL selects. Only for
 * clusters with NCCL. */
dt_status dt_sim_links_nccl(struct dt_sim_links *links, const int *ranks, int count, struct dt_sim_nccl_comm *out);

/* Rate of one network card in one direction, for this number of flows and of the placement's
 * nodes. */
double dt_sim_links_card_bytes_per_s(const struct dt_sim_links *links, int nodes, double flows);
