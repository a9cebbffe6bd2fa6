/* What makes one candidate better than another. */
#ifndef SCHEDULES_SEARCH_SCORE_H
#define SCHEDULES_SEARCH_SCORE_H

#include "schedules/config/experiment.h"

enum search_objective {
    SEARCH_TOKENS, /* most tokens a second */
    SEARCH_MEMORY, /* fewest bytes on the fullest GPU, at no less than the floor */
    SEARCH_COST,   /* fewest GPU seconds a token */
    SEARCH_ENERGY, /* the same: GPUs are alike, and each is taken to need its full power all the time */
};

/* Lower is better: seconds a token, bytes, or GPU seconds a token. */
double search_score(enum search_objective objective, const struct experiment *experiment, double step_s, double bytes);
double search_tokens_per_s(const struct experiment *experiment, double step_s);

#endif
