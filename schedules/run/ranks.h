/* Facts about all ranks of a run: each rank tells the others about its machine, and all ranks come to the same result. Functions with a
 * parameter `world` are collective over it. Errors: DT_ERR_COMM, DT_ERR_TIMEOUT, DT_ERR_HOST_MEMORY. */
#ifndef SCHEDULES_RUN_RANKS_H
#define SCHEDULES_RUN_RANKS_H

#include "lib/base/machine.h"
#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "schedules/run/doubts.h"

/* ---- machines: two are different if their names are ---- */

struct host_name {
    char text[256];
};

/* This machine's. */
struct host_name host_name(void);

/* How many ranks each machine has, where all have as many and they are neighbours in the world; else 0. *several: there are more machines
 * than one. ranks: [size] the machine of each, at least one. */
int ranks_per_node(const struct host_name *ranks, int size, bool *several);

/* Each machine once, in the order of its first rank, with line breaks between them. Owner: the caller, free. NULL: no memory. */
char *distinct_hosts(const struct host_name *ranks, int size);

/* ranks_per_node of a communicator's ranks; nothing is known after a failure: 0 and false. */
dt_status ranks_per_node_find(struct dt_comm *world, int *out, bool *several);

/* ---- their processors over the timed steps: how many threads share them, and what else runs on them ---- */

struct rank_processors {
    struct dt_processors usable; /* by the ranks of this machine */
    struct processor_use use;    /* since the beginning */
};

/* The timed steps begin; this rank's kernels have `threads` threads. */
dt_status rank_processors_begin(struct rank_processors *p, struct dt_comm *world, int threads);

/* The timed steps are over; append to `text` what may have disturbed them. */
dt_status rank_processors_end(struct rank_processors *p, struct dt_comm *world, char *text, size_t bytes);

/* ---- their GPUs, before and after the timed steps (lib/device/condition.h) ---- */

/* Each with its own device and what that was before; now is after. *out: the entries of all ranks as an array of JSON, in order, or NULL where
 * no rank knows anything; owner: the caller, free. To doubts is appended which ranks' GPUs may not have done what they can ("rank 3's GPU:
 * clocks held down by heat for 1.2 s"), the first few of them. */
dt_status rank_conditions_gather(struct dt_comm *world, const struct dt_device *device, const struct dt_device_condition *before,
                                 char **out, char *doubts, size_t doubts_bytes);

/* ---- their network ---- */

/* *out: how the communication library has connected the ranks, as far as it tells. */
dt_status rank_network_gather(struct dt_comm *world, struct dt_comm_network *out);

/* ---- their clocks: how far dt_clock_ns of one is ahead of another's, from a few exchanges ---- */

enum { RANK_CLOCK_ROUNDS = 16 };

/* What a rank reads on its clock: plain data, to be sent to the others. */
struct rank_clock {
    struct host_name host;
    int64_t before_ns[RANK_CLOCK_ROUNDS], after_ns[RANK_CLOCK_ROUNDS]; /* each of a few exchanges of all ranks */
};

dt_status rank_clock_read(struct dt_comm *world, struct rank_clock *out);

/* How much more `other` shows than `first` at the same moment, right to *error_ns on either side: both have read their clocks around the same
 * exchanges, none of which is over on any rank before all have begun it. Ranks of one host show the same: 0, and no error.
 * Source  F. Cristian, "Probabilistic clock synchronization", Distributed Computing, 1989: the middle of what the quickest rounds allow. */
int64_t rank_clock_ahead_ns(const struct rank_clock *first, const struct rank_clock *other, int64_t *error_ns);

#endif
