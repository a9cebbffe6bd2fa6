/* Measures collectives and kernels on ranks, which are started for this or were started by a
 * launcher. */
#pragma once

#include "cli/text/text.h"
#include "lib/comm/comm.h"
#include "predict/calibration.h"

#include <stdbool.h>

/* Progress over several worlds, measured one after another. */
struct calibration_watch {
    int ranks, threads, total; /* of this world; total: measurements of all worlds */
    int before;                /* measurements of the worlds before this one */
    bool live;                 /* a line on stderr is redrawn */
};

/* What the commands that measure have in common: find the world, refuse `ranks` (the option's text;
 * NULL: not given) where a launcher has started the ranks, and call `work`. Returns the exit code;
 * `wrong` is that of DT_ERR_INVALID. */
typedef dt_status calibration_work(void *options, const struct dt_world *world, struct calibration *calibration);
int calibration_command(const char *command, const char *ranks, enum exit_code wrong, calibration_work *work, void *options);

/* Start watch->ranks ranks, which append what they measure to *calibration. Errors: as
 * dt_launch_run and calibration_run. */
dt_status calibration_measure_world(const struct calibration_request *request, struct calibration_watch *watch,
                                    struct calibration *calibration);
/* The same as one of the ranks that a launcher has started. After a failure the communicator and
 * the device stay open: other ranks may be gone, and the process ends. */
dt_status calibration_measure_inside(const struct calibration_request *request, const struct dt_world *world, bool quiet,
                                     struct calibration *calibration);
