/* What would change a plan: a network four times as fast, twice the memory of each GPU, twice the nodes. */
#ifndef CLI_PLAN_CHANGES_H
#define CLI_PLAN_CHANGES_H

#include "cli/plan/why.h"

/* Plans again under each of them by itself: a line for each that makes another strategy the best. The earlier winner is simulated there, and
 * only what is unlike it and could be better; then, where something is, what is like it. Interrupted as the plan's search. Errors: as
 * search_run. */
dt_status changes_find(const struct planner *planner, struct why *out);

#endif
