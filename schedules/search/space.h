/* The space of a search: config keys, the values of each that are worth a look, and all combinations that are experiments.
 *
 * A key is an axis by its row in the table of space.c: which experiments it concerns, and what is proposed for them. Rows are in the order in
 * which values are chosen, so that proposals may depend on keys of earlier rows. A caller may restrict an axis, or make one of any other
 * key by saying its values. */
#ifndef SCHEDULES_SEARCH_SPACE_H
#define SCHEDULES_SEARCH_SPACE_H

#include "schedules/search/axes.h"

enum { SPACE_AXES = 32 };

/* Which experiment: of each axis the number of its value, counted from 1; 0: the base's. */
struct candidate {
    uint8_t values[SPACE_AXES];
};

struct space;

/* All candidates of an experiment, resolved, on a machine. Owner of *out: the caller. Errors: DT_ERR_INVALID where a request is wrong or
 * leaves nothing, in one line; DT_ERR_HOST_MEMORY. base, request and machine outlive it. */
dt_status space_create(const struct experiment *base, const struct simulated_machine *machine, const struct space_request *request,
                       struct space **out);
void space_destroy(struct space *space); /* takes NULL */

int space_count(const struct space *space);
const struct candidate *space_candidate(const struct space *space, int index);

/* The experiment of a candidate, complete but for its hash. */
void space_experiment(const struct space *space, const struct candidate *candidate, struct experiment *out);

/* The axes, in the order of their choice: the key, NULL past the last; and whether a candidate has a value of its own there. */
const char *space_axis_key(const struct space *space, int axis);

/* Whether two candidates have the same values but for this key. */
bool space_differ_only_in(const struct space *space, int left, int right, const char *key);

/* How many of the paradigm's candidates the requests have left. */
int space_paradigm_count(const struct space *space, enum paradigm_kind paradigm);

#endif
