/* The space of a search: config keys, the values of each that are worth a look, and all combinations that are experiments.
 *
 * A key is an axis by its row in the table of space.c: which experiments it concerns, and what is proposed for them. Rows are in the order in
 * which values are chosen, so that proposals may depend on keys of earlier rows. A caller may restrict an axis, or make one of any other
 * key by saying its values. */
#ifndef SCHEDULES_SEARCH_SPACE_H
#define SCHEDULES_SEARCH_SPACE_H

#include "schedules/config/experiment.h"
#include "schedules/predict/simulated_system.h"

enum { SPACE_AXES = 32, SPACE_VALUES = 64, SPACE_VALUE_BYTES = 32 };

/* Which experiment: of each axis the number of its value, counted from 1; 0: the base's. */
struct candidate {
    uint8_t values[SPACE_AXES];
};

/* What a caller wants of the space. All texts are "KEY=VALUE" or "KEY=VALUE,VALUE,..."; they outlive the space. */
struct space_request {
    const char *const *fix, *const *allow, *const *forbid;
    int fix_count, allow_count, forbid_count;
    int global_batch; /* samples of a step over all ranks; 0: any batch */
    int max_batch;    /* of batch_size where the batch is free */
    bool any_nodes;   /* fewer nodes than the base's world has are candidates, too */
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

/* How many of the paradigm's candidates the requests have left. */
int space_paradigm_count(const struct space *space, enum paradigm_kind paradigm);

#endif
