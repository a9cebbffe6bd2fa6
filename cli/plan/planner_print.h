/* A plan, printed. */
#ifndef CLI_PLAN_PLANNER_PRINT_H
#define CLI_PLAN_PLANNER_PRINT_H

#include "cli/plan/rule.h"
#include "cli/plan/why.h"

#include <stdio.h>

/* What is said of a plan beside its table: the first one's why, why not the others, what would change it, how sure it is,
 * and what rules of thumb would cost. */
struct planner_reasons {
    struct why chosen, not, changes, trusted;
    struct rule_results rules; /* none where they are not asked for */
};

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print(const struct planner *planner, const struct planner_reasons *reasons, FILE *to);

#endif
