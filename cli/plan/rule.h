/* Rules of thumb: what people are told to do without a plan, and what following them costs.
 *
 * A rule names a paradigm, and some more. Whatever else there is to choose is left to the plan's own search among the candidates that do as the
 * rule says, so that its loss is the least that one can have with it.
 *
 * Sources  the decision tree: "Distributed Training Strategies from Scratch" (DadOps), function recommend_strategy.
 *          the study's Best Practices: "PyTorch Data Parallel Best Practices on Google Cloud" (PyTorch, 2022), section Best Practices. */
#ifndef CLI_PLAN_RULE_H
#define CLI_PLAN_RULE_H

#include "cli/plan/planner.h"
#include "cli/plan/strategy.h"

enum { RULES = 2, RULE_FIXES = 4, RULE_BYTES = 160 };

struct rule_result {
    const char *name;
    char says[RULE_BYTES];         /* what it recommends here, and of which figures that follows */
    bool left_out;                 /* by --fix, --allow and --forbid */
    char strategy[STRATEGY_BYTES]; /* the best that does so; "": nothing of it fits, or it is left out */
    int batch;
    double tokens_per_s, regret; /* regret: what it lacks of the plan's best, 0.1: 10 %; NAN: there is no strategy */
    bool interrupted;            /* of the candidates that were reached */
};

struct rule_results {
    struct rule_result all[RULES];
    int count;
};

/* What each rule gives for the planner's model and cluster, once that has searched. On one GPU there is none. Errors: as search_run. */
dt_status rules_follow(const struct planner *planner, struct rule_results *out);

#endif
