/* Rendezvous over TCP: how the ranks of a world connect where no MPI does it, and what they exchange apart from their devices.
 *
 * Rank 0 listens at the meeting point (dt_world_meeting_point), the others connect and try again until it is there. Both ends of a
 * connection prove that they know the job's secret (lib/launch/secret.c) before anything that they say counts, so that neither a stranger
 * nor a rank of another job gets in, delays the ranks, or ends their meeting. The connections stay open until the end: gatherings of a
 * few bytes go through rank 0, and a rank whose connection closes is known to be gone on all others. A thread in each process looks after
 * them. Nothing here touches a device.
 *
 * Gatherings cost rank 0 size * size * bytes: meant for control data, and not for every step. Reductions cost size * bytes. */
#ifndef LIB_RENDEZVOUS_RENDEZVOUS_H
#define LIB_RENDEZVOUS_RENDEZVOUS_H

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
    double timeout_s;               /* until all have met; 0: never */
};

/* Meet. Collective over the ranks; size is at least 2. Errors, each with a text that names place and ranks:
 *   DT_ERR_TIMEOUT  "ranks 3 and 5 of 8 did not reach node1:29500 within 60 s", on every rank that came; says so where connections began as
 *                   a rank's and could not prove to be of this job
 *   DT_ERR_WORLD    the port is in use or another job's; ranks that disagree on the size, the build of dtbench, or who is rank 2
 *   DT_ERR_COMM     a rank went away; DT_ERR_IO, DT_ERR_HOST_MEMORY
 * Owner: the caller. */
dt_status dt_rendezvous_create(const struct dt_rendezvous_place *place, struct dt_rendezvous **out);
/* Take leave: the others do not count this rank as lost. Rank 0 waits a few seconds for the others to do so, since without it they cannot
 * talk. Where not all is well the connections are just closed. Takes NULL. */
void dt_rendezvous_destroy(struct dt_rendezvous *rendezvous, bool well);

/* Ranks that gather among themselves. */
struct dt_rendezvous_group {
    uint64_t id;         /* no other group has it; the world's is 0 */
    const int *ranks;    /* [size] their ranks in the world, in the group's order; the caller's */
    int size, rank;      /* rank: this process's place in `ranks` */
    uint64_t gatherings; /* so far; starts at 0 */
};

/* all [size * bytes] gets everybody's mine [bytes] in the group's order. Blocks; collective over the group, from one thread of each rank.
 * timeout_s 0: never. `what` begins the error texts.
 * Errors: DT_ERR_TIMEOUT naming the ranks that are missing, DT_ERR_COMM when a member is gone, when interrupted, or when the members gather
 * different sizes; DT_ERR_HOST_MEMORY. Ranks in texts are the group's. */
dt_status dt_rendezvous_all_gather(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const void *mine,
                                   size_t bytes, void *all, double timeout_s);

/* The same for the group's rank 0 alone; elsewhere `all` is not touched. */
dt_status dt_rendezvous_gather(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const void *mine,
                               size_t bytes, void *all, double timeout_s);

/* sums_and_highest [2 * count]: the sums of mine [count] over the group's ranks, then the highest of each; NaN where a rank's number is.
 * The same bits on all. Costs rank 0 size * count numbers. The rest as for dt_rendezvous_all_gather. */
dt_status dt_rendezvous_reduce(struct dt_rendezvous *rendezvous, struct dt_rendezvous_group *group, const char *what, const double *mine,
                               size_t count, double *sums_and_highest, double timeout_s);

/* Every wait of this process ends soon with DT_ERR_COMM, now and later. From any thread. */
void dt_rendezvous_interrupt(struct dt_rendezvous *rendezvous);

/* The one of a group's members that went first, by its place in the group; -1: none is gone. One that took leave counts where `left` is
 * set. */
int dt_rendezvous_gone(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, bool left);
/* How one that is gone without leave went: "its connection closed", or which rule it broke before it was closed. */
const char *dt_rendezvous_how_gone(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, int index);

/* Tell all others that this rank gives up, and why: they hear it before its connection closes, and their waits end with it. The first such
 * word counts. heard: has another rank said so? Its rank, status and text. */
void dt_rendezvous_tell(struct dt_rendezvous *rendezvous, dt_status status, const char *text);
bool dt_rendezvous_heard(struct dt_rendezvous *rendezvous, int *rank, dt_status *status, char *text, size_t text_bytes);

/* How far a rank has come in what a group does together: operations it has called, and that it has seen finished. */
struct dt_rendezvous_progress {
    uint64_t called, finished;
};
/* Who answers when others ask for this rank's progress, in the thread that looks after the connections; false: not a member (any more). */
typedef bool dt_rendezvous_answer(void *context, uint64_t group, struct dt_rendezvous_progress *out);
void dt_rendezvous_on_ask(struct dt_rendezvous *rendezvous, dt_rendezvous_answer *answer, void *context);
/* Ask all members of a group, and wait at most wait_s for their answers. progress [size], answered [size]: whether its entry came. */
void dt_rendezvous_ask(struct dt_rendezvous *rendezvous, const struct dt_rendezvous_group *group, double wait_s,
                       struct dt_rendezvous_progress *progress, bool *answered);

/* Append "rank 3", "ranks 3 and 5", "ranks 1, 2, 3 and 17 more": those of [count] whose chosen[i] is set. */
void dt_rendezvous_name_ranks(const bool *chosen, int count, char *text, size_t text_bytes);

#endif
