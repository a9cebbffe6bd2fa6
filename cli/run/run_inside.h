/* Run an experiment on ranks that mpirun, srun or torchrun started: this process is one of them. */
#ifndef CLI_RUN_RUN_INSIDE_H
#define CLI_RUN_RUN_INSIDE_H

#include "cli/records/draft.h"
#include "cli/run/progress.h"
#include "lib/launch/world.h"
#include "schedules/run/report.h"

/* After the ranks have lost each other, rank 0 has this long to write its record before the other ranks' ends make the launcher end it. */
enum { RANK_0_WRITES_S = 5 };

struct run_inside_hooks {
    struct dt_trace_wish trace; /* of one more step */
    struct progress *progress;
    struct draft *draft; /* NULL: none is kept */
    /* This rank hangs inside a library, and the report says so: called in another thread, it writes what is to be written and ends the process.
     * NULL: nobody watches. */
    void (*hangs)(void *context);
    void *context;
};

/* Collective over the ranks of `place`. Fills `report`, initialised. A step and the start may take as long as the experiment's timeouts say.
 * False: the ranks have lost each other, and nothing more can run. */
bool run_inside(const struct experiment *experiment, const struct dt_world *place, const struct run_inside_hooks *hooks,
                struct report *report);

/* Everybody's `mine` in all [size * bytes], over a communicator for an experiment like this one, where it needs MPI, else over TCP. Waits
 * patience_s for the others, 0: for ever, even for a rank whose machine is gone. After a failure the ranks have lost each other.
 * Errors: as dt_comm_create. */
dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, double patience_s, const void *mine,
                            size_t bytes, void *all);

/* Wait until every rank is here. *number becomes the highest that any of them has. Errors: as above. */
dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, double patience_s, int *number);

#endif
