/* Rendezvous over TCP: how the ranks of a world connect without MPI, and exchange data outside
 * their devices.
 *
 * Rank 0 listens at the meeting point (dt_world_meeting_point), the others connect and try again
 * until it is there. Both ends of a connection prove that they know the job's secret
 * (lib/launch/secret.c) before their messages count, so that no other process and no rank of
 * another job can join, delay the ranks, or end their meeting. The connections stay open until the
 * end: gatherings of a few bytes go through rank 0, and if a rank's connection closes, all other
 * ranks learn that it is gone. A thread in each process serves them. This code does not use
 * devices.
 *
 * Gatherings cost rank 0 size * size * bytes: use them for control data, not in every step.
 * Reductions cost size * bytes. */
#pragma once

#include "lib/base/status.h"
#include "lib/launch/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_rendezvous;

struct dt_rendezvous_place {
    const char *address; /* of rank 0: a name, or an IPv4 or IPv6 address */
    int port;
    bool local; /* all ranks are on this machine: other machines cannot connect, and `address` is ignored */
    int rank, size;
    const struct dt_secret *secret; /* of dt_secret_of_job */
    double timeout_s;               /* time limit until all have met; 0: none */
};

/* Meet the other ranks. Collective over the ranks; size is at least 2. Owner: the caller. Errors,
 * each with a text that names place and ranks:
 *   DT_ERR_TIMEOUT  "ranks 3 and 5 of 8 did not reach node1:29500 within 60 s", on every rank that
 *                   arrived; the text mentions connections that began like a rank's but did not
 *                   prove that they belong to this job
 *   DT_ERR_WORLD    the port is in use or belongs to another job; or ranks disagree on the size,
 *                   the build of dtbench, or which process is rank 2
 *   DT_ERR_COMM     a rank is gone
 *   DT_ERR_IO, DT_ERR_HOST_MEMORY */
dt_status dt_rendezvous_create(const struct dt_rendezvous_place *place, struct dt_rendezvous **out);
/* Leave. well: the other ranks do not count this rank as lost, and rank 0 waits a few seconds for
 * the others to leave too, since they communicate through it. Not well: the connections are only
 * closed. Takes NULL. */
void dt_rendezvous_destroy(struct dt_rendezvous *rendezvous, bool well);

/* Ranks that gather among themselves. */
struct dt_rendezvous_group {
    uint64_t id;         /* unique to the group; 0 for the world */
    const int *ranks;    /* [size] world ranks, in the group's order; owned by the caller */
    int size, rank;      /* rank: this process's place in `ranks` */
    uint64_t gatherings; /* number of gatherings so far; initially 0 */
};

/* all [size * bytes] receives each rank's mine [bytes] in the group's order. Blocks; collective
 * over the group, from one thread of each rank. timeout_s 0: no limit. `what` begins the error
 * texts. Errors: DT_ERR_TIMEOUT, naming the missing ranks; DT_ERR_COMM if a member is gone, if
 * interrupted, or if the members gather different sizes; DT_ERR_HOST_MEMORY. Ranks in texts are the
 * group's. */
dt_status dt_rendezvous_all_gather(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const void *mine,
                                   size_t bytes, void *all, double timeout_s);

/* The same, but only the group's rank 0 receives; elsewhere `all` is not touched. */
dt_status dt_rendezvous_gather(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const void *mine,
                               size_t bytes, void *all, double timeout_s);

/* sums_and_highest [2 * count]: the sums of mine [count] over the group's ranks, then the highest
 * of each; NaN if a rank's number is NaN. The result has the same bits on all ranks. Costs rank 0
 * size * count numbers. Otherwise as dt_rendezvous_all_gather. */
dt_status dt_rendezvous_reduce(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const double *mine,
                               size_t count, double *sums_and_highest, double timeout_s);

/* Every wait of this process ends soon with DT_ERR_COMM, now and later. From any thread. */
void dt_rendezvous_interrupt(struct dt_rendezvous *rendezvous);

/* The member of a group that was lost first, by its place in the group; -1: none. left: members
 * that left normally count, too. */
int dt_rendezvous_gone(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, bool left);
/* How a lost rank was lost: "its connection closed", or which rule it broke before it was
 * closed. */
const char *dt_rendezvous_how_gone(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, int index);

/* tell: inform all other ranks that this rank gives up, and why. They receive this before its
 * connection closes, and their waits end with it. Only the first such message counts. heard: has
 * another rank given up? Returns its rank, status and text. */
void dt_rendezvous_tell(struct dt_rendezvous *rendezvous, dt_status status, const char *text);
bool dt_rendezvous_heard(struct dt_rendezvous *rendezvous, int *rank, dt_status *status, char *text, size_t text_bytes);

/* A rank's progress in a group's operations: how many it has called, and how many it has seen
 * finished. */
struct dt_rendezvous_progress {
    uint64_t called, finished;
};
/* Callback that answers questions of other ranks for this rank's progress, in the thread that
 * serves the connections; false: not a member (any more). */
typedef bool dt_rendezvous_answer(void *context, uint64_t group, struct dt_rendezvous_progress *out);
void dt_rendezvous_on_ask(struct dt_rendezvous *rendezvous, dt_rendezvous_answer *answer, void *context);
/* Ask all members of a group, and wait at most wait_s for their answers. progress [size]; answered
 * [size]: true if the member answered. */
void dt_rendezvous_ask(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, double wait_s,
                       struct dt_rendezvous_progress *progress, bool *answered);

/* Append "rank 3", "ranks 3 and 5", "ranks 1, 2, 3 and 17 more": the ranks i of [count] with
 * chosen[i] set. */
void dt_rendezvous_name_ranks(const bool *chosen, int count, char *text, size_t text_bytes);
