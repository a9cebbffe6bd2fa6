/* The trace of one real step of the requested ranks, in one file: a process per rank, which shows
 * the step's phases and every stream. */
#pragma once

#include "lib/device/trace.h"
#include "schedules/run/trainer.h"

struct step_trace;

/* Begin the file on rank 0, before anything is measured, so that a path that cannot be written is
 * reported early. The other ranks get an object, too. Collective. Owner: the caller. Errors:
 * DT_ERR_IO, the same on all ranks; DT_ERR_HOST_MEMORY, DT_ERR_COMM. */
dt_status step_trace_open(const struct dt_trace_wish *wish, struct dt_comm *world, struct step_trace **out);

/* Run step `step` of `trainer` as an additional step, gather every rank's spans, and write them,
 * with an arrow for each message. All times are converted to one clock. On the cpu devices of one
 * machine they are exact; otherwise a rank's row shows their error. On another machine the error is
 * half of the quickest exchanges' time, on devices with a clock of their own half of the time of a
 * mark, and less where messages say more (dt_trace_place). The step is queued action by action,
 * even if other steps are replayed as a graph. Collective. Errors: as trainer_step. */
dt_status step_trace_run(struct step_trace *trace, struct trainer *trainer, int step);

dt_status step_trace_close(struct step_trace *trace); /* takes NULL. Errors: DT_ERR_IO, on rank 0 */
DT_DESTROYS(step_trace_close, struct step_trace)
