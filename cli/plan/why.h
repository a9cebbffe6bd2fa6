/* Why a plan looks as it does: said of what was predicted, in numbers. */
#ifndef CLI_PLAN_WHY_H
#define CLI_PLAN_WHY_H

#include "cli/plan/planner.h"

enum { WHY_LINES = 16, WHY_BYTES = 480 };

struct why {
    char lines[WHY_LINES][WHY_BYTES];
    int count;
};

/* Adds a line, while there is room. */
void why_say(struct why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Where the time of the candidate at `place` goes, what bounds it, and what its communication crosses. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_chosen(const struct planner *planner, int place, struct why *out);

/* What rejected each paradigm that is not among the shown ones, and by how much. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_not(const struct planner *planner, struct why *out);

/* What is known of the predictions' errors: the first candidates', and what about this plan was never measured. Errors: DT_ERR_HOST_MEMORY. */
dt_status why_trusted(const struct planner *planner, struct why *out);

/* By how much less the candidate at `place` scores than the best (0.03: 3 %), and whether the predictions can tell. */
double why_margin(const struct planner *planner, int place);
bool why_margin_tells(const struct planner *planner, int place);

/* Tokens a second that none of the candidates which are too slow can exceed, of a paradigm or of all (-1). 0: none is too slow. */
double why_too_slow(const struct planner *planner, int paradigm);

/* How many more of the kind of the one at `place` the predictions cannot tell from it; none are folded where --top asks for so many. */
int why_alike(const struct planner *planner, int place);

#endif
