/* What is measured: shapes of kernels and sizes of messages. Shared by the calibration's files alone. */
#ifndef SCHEDULES_PREDICT_CALIBRATION_POINTS_H
#define SCHEDULES_PREDICT_CALIBRATION_POINTS_H

#include "schedules/predict/calibration.h"

/* Kernel `index` of those that are measured; false past the last. ranks and threads are left alone. */
bool calibration_kernel(const struct calibration_request *request, int index, struct gpt_measured *out);
/* Collective or message `index` likewise: kind and bytes. */
bool calibration_collective(const struct calibration_request *request, int index, struct dt_sim_measured *out);

/* calibration_collectives.c: all of them. */
dt_status calibration_run_collectives(const struct calibration_request *request, struct dt_device *device, struct dt_comm *world,
                                      const struct calibration_hooks *hooks, int done, struct calibration *out);

#endif
