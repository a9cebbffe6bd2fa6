/* How a cluster carries messages: its links in a network, and what collectives, messages and copies put on them.
 *
 * Links: NVLink out and in of each GPU (or its PCIe link, where there is none), PCIe to and from the host, a node's copies together, each
 * NIC out and in, the switches between nodes where they block. A collective is one flow over all links of its ranks.
 *
 * NCCL (lib/sim/nccl.h picks algorithm and protocol):
 *   ring   the ranks of a node are neighbours in it, so every byte passes each NIC once; several NICs divide the bytes
 *   tree   ranks of a node in a chain, nodes in two binary trees, each with half of the message (Sanders, Speck, Traeff, "Two-tree
 *          algorithms for full bandwidth broadcast, reduction and scan", 2009): every NIC sends twice the message, with two nodes once
 *   nvls   every GPU sends the message to the NVSwitches once and its sum's part once; NICs as with trees, or once where switches sum
 *   all_to_all, shift   messages by Simple that all ranks send together, each as fast as its channels or one connection of its card sends;
 *          what ranks of a node send to others is spread evenly over them. NCCL's own latency of many messages is not known: one is taken.
 * MPI: dtbench's own collectives (lib/comm/mpi/operation.c): ranks exchange parts directly, in one or two phases. */
#ifndef LIB_SIM_TRANSPORT_H
#define LIB_SIM_TRANSPORT_H

#include "lib/sim/cluster.h"
#include "lib/sim/engine.h"
#include "lib/sim/nccl.h"

#include <stdbool.h>

struct dt_sim_links; /* a cluster's links, and what was worked out for its communicators */

/* Add the cluster's links, as far as the placement's ranks use them, to an empty network. `cluster` is copied. Owner: the caller, and it
 * must outlive network and engine. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_links_create(const struct dt_sim_cluster *cluster, const struct dt_sim_placement *placement,
                              struct dt_sim_network *network, struct dt_sim_links **out);
void dt_sim_links_destroy(struct dt_sim_links *links); /* takes NULL */

/* From here on only these ranks are simulated, and stand for the others, which do the same at the
 * same times: a flow of one rank on a link counts for all ranks on that link that it stands for,
 * and links without simulated ranks carry nothing. Before the first operation, and only where nodes
 * share no link (fabric.blocking_factor 1). ranks: [count], of the world; stand_in: [world_size]
 * the place in `ranks` of the one that stands for each, where whoever is on a link of a rank that
 * is there has his stand-in on that link, too. Copied. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_links_stand_in(struct dt_sim_links *links, const int *ranks, int count, const int *stand_in);

/* A rank's network card, or its link to the node's other GPUs, in both directions, carries the part `left` of what its like carry. What NCCL
 * chooses stays: it knows the cards' labels. Before the first operation. Errors: DT_ERR_UNAVAILABLE where the ranks use no such thing. */
dt_status dt_sim_links_slow(struct dt_sim_links *links, struct dt_sim_network *network, int rank, bool card, double left);

/* For dt_sim_engine_create; the links are its context. */
struct dt_sim_transport dt_sim_links_transport(struct dt_sim_links *links);

/* A group of world ranks as NCCL sees it; for tests and for asking what it picks. Only of clusters with NCCL. */
dt_status dt_sim_links_nccl(struct dt_sim_links *links, const int *ranks, int count, struct dt_sim_nccl_comm *out);

/* What one network card carries in one direction, by the number of its flows and of the placement's nodes. */
double dt_sim_links_card_bytes_per_s(const struct dt_sim_links *links, int nodes, double flows);

#endif
