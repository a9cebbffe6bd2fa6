/* A candidate in words, as the field says it: "HSDP 8x4, checkpoint", "PDP 4 stages x 8, 1F1B, 16 micro-batches". */
#ifndef CLI_PLAN_STRATEGY_H
#define CLI_PLAN_STRATEGY_H

#include "schedules/config/experiment.h"

enum { STRATEGY_BYTES = 192 };

/* Batch and world are left out: tables have columns for them. */
void strategy_describe(const struct experiment *experiment, char text[STRATEGY_BYTES]);

#endif
