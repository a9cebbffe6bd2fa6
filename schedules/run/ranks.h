/* Facts about all ranks of a run: each rank tells the others about its machine, and all ranks
 * compute the same result. Functions with a parameter `world` are collective over it. Errors:
 * DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
#pragma once

#include "lib/base/machine.h"
#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "schedules/run/doubts.h"

/* ---- machines: two are different if their names are different ---- */

struct host_name {
    char text[256];
};

/* The name of this machine. */
struct host_name host_name(void);

/* The number of ranks per machine, if it is the same for all and each machine's ranks are
 * consecutive in the world; else 0. *several: there is more than one machine. ranks: [size] each
 * rank's machine; size is at least 1. */
int ranks_per_node(const struct host_name *ranks, int size, bool *several);

/* Each machine once, in the order of its first rank, with line breaks between them. Owner: the
 * caller, free. NULL: no memory. */
char *distinct_hosts(const struct host_name *ranks, int size);

/* ranks_per_node of a communicator's ranks; after a failure the results are 0 and false. */
dt_status ranks_per_node_find(struct dt_comm *world, int *out, bool *several);

/* ---- their processors over the timed steps: how many threads share them, and what else runs on
 * them ---- */

struct rank_processors {
    struct dt_processors usable; /* processors that the ranks of this machine can use */
    struct processor_use use;    /* since rank_processors_begin */
};

/* Call it when the timed steps begin; this rank's kernels have `threads` threads. */
dt_status rank_processors_begin(struct rank_processors *p, struct dt_comm *world, int threads);

/* Call it after the timed steps; appends to `text` what may have disturbed them. */
dt_status rank_processors_end(struct rank_processors *p, struct dt_comm *world, char *text, size_t bytes);

/* ---- their GPUs, before and after the timed steps (lib/device/condition.h) ---- */

/* Each rank gives its device and the device's earlier condition; the current one is read here.
 * *out: the entries of all ranks as an array of JSON, in order, or NULL if no rank knows anything;
 * owner: the caller, free. Appends to doubts the first few ranks whose GPUs may have been slowed
 * down ("rank 3's GPU: clocks held down by heat for 1.2 s"). */
dt_status rank_conditions_gather(struct dt_comm *world, const struct dt_device *device, const struct dt_device_condition *before,
                                 char **out, char *doubts, size_t doubts_bytes);

/* ---- their network ---- */

/* *out: how the communication library has connected the ranks, as far as it reports this. */
dt_status rank_network_gather(struct dt_comm *world, struct dt_comm_network *out);

/* ---- their clocks: how far one rank's dt_clock_ns is ahead of another's, from a few exchanges
 * ---- */

enum { RANK_CLOCK_ROUNDS = 16 };

/* Readings of a rank's clock: plain data, to be sent to the others. */
struct rank_clock {
    struct host_name host;
    int64_t before_ns[RANK_CLOCK_ROUNDS], after_ns[RANK_CLOCK_ROUNDS]; /* before and after each of a few exchanges of all ranks */
};

dt_status rank_clock_read(struct dt_comm *world, struct rank_clock *out);

/* How far `other`'s clock is ahead of `first`'s, correct to +- *error_ns. Both ranks have read
 * their clocks before and after the same exchanges, which end on no rank before all ranks have
 * begun them. Ranks of one host share a clock: 0, and no error.
 * Source  F. Cristian, "Probabilistic clock synchronization", Distributed Computing, 1989: the
 *         middle of the range that the quickest rounds allow. */
int64_t rank_clock_ahead_ns(const struct rank_clock *first, const struct rank_clock *other, int64_t *error_ns);
