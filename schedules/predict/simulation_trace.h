/* A simulated step as a trace: a process per wished rank, in it the host and every stream, and an arrow from each
 * send to its receive. Used by simulation.c. */
#ifndef SCHEDULES_PREDICT_SIMULATION_TRACE_H
#define SCHEDULES_PREDICT_SIMULATION_TRACE_H

#include "lib/device/trace.h"
#include "lib/sim/engine.h"
#include "schedules/predict/simulated_system.h"

struct simulation_trace;

/* Begin the wished file and fill in the collector that an engine is given. Owner: the caller. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status simulation_trace_open(const struct dt_trace_wish *wish, const struct simulated_system *system, int world_size,
                                struct simulation_trace **out, struct dt_sim_collector *collector);
dt_status simulation_trace_close(struct simulation_trace *trace); /* takes NULL. Errors: DT_ERR_IO */

#endif
