/* The rank's side of lib/launch/launch.h: a process that a supervisor started.
 *
 *     dt_launch_rank_connect(socket, world.rank, &rank);   first of all: from here on a death is noticed, and stderr is the supervisor's
 *     ... dt_launch_rank_input(rank) ... dt_launch_rank_progress(rank, "ready") ... a step, a progress ...
 *     dt_launch_rank_result(rank, json);                   rank 0; or dt_launch_rank_failed(rank, status, text)
 *     dt_launch_rank_finish(rank);                         last of all
 *
 * A thread of its own listens to the supervisor. When the supervisor is gone the process ends at once (_exit): nobody is left to work
 * for, and the other ranks do the same. */
#ifndef LIB_LAUNCH_RANK_H
#define LIB_LAUNCH_RANK_H

#include "lib/base/status.h"

#include <stdbool.h>

struct dt_launch_rank;

/* Announce this process as `rank` at `socket_name`, the text that the supervisor appended to the program's arguments. Waits for the input.
 * stdout and stderr become the supervisor's stderr: results travel as messages, and whatever a library prints is a diagnostic.
 * Errors: DT_ERR_COMM when there is no supervisor, DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_launch_rank_connect(const char *socket_name, int rank, struct dt_launch_rank **out);

const char *dt_launch_rank_input(const struct dt_launch_rank *rank); /* lives as long as `rank` */

/* Alive, and a step further. The first one ends the start-up. From any thread, like the two below. */
dt_status dt_launch_rank_progress(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_result(struct dt_launch_rank *rank, const char *text);
dt_status dt_launch_rank_failed(struct dt_launch_rank *rank, dt_status status, const char *text);

/* The supervisor asks to stop after the current step. Any thread. */
bool dt_launch_rank_stop_requested(const struct dt_launch_rank *rank);

/* What to call, in the listening thread, when the supervisor wants to know where this rank hangs; NULL: nothing any more, and when this
 * returns no call is under way. */
void dt_launch_rank_on_dump(struct dt_launch_rank *rank, void (*dump)(void *context), void *context);

/* Tell the supervisor that this rank is done, and free. Takes NULL. */
void dt_launch_rank_finish(struct dt_launch_rank *rank);

#endif
