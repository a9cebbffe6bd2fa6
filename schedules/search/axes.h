/* The table of a space's axes (space.h): config keys, which experiments each concerns, and what is proposed for them. */
#ifndef SCHEDULES_SEARCH_AXES_H
#define SCHEDULES_SEARCH_AXES_H

#include "schedules/config/experiment.h"
#include "schedules/predict/simulated_system.h"

enum { SPACE_VALUES = 64, SPACE_VALUE_BYTES = 32 };

/* What a caller wants of the space. All texts are "KEY=VALUE" or "KEY=VALUE,VALUE,..."; they outlive the space. */
struct space_request {
    const char *const *fix, *const *allow, *const *forbid;
    int fix_count, allow_count, forbid_count;
    int global_batch; /* samples of a step over all ranks; 0: any batch */
    int max_batch;    /* of batch_size where the batch is free */
    bool any_nodes;   /* fewer nodes than the base's world has are candidates, too */
};

/* What proposals depend on besides earlier values. */
struct space_scope {
    const struct experiment *base;
    const struct simulated_machine *machine;
    const struct space_request *request;
    int ranks_per_node;
};

struct proposal {
    const struct space_scope *scope;
    const struct experiment *experiment; /* with the values of earlier axes */
    char texts[SPACE_VALUES][SPACE_VALUE_BYTES];
    int count;
};

struct space_axis {
    const char *key;
    bool (*concerns)(const struct space_scope *scope, const struct experiment *experiment);
    void (*propose)(struct proposal *proposal);
};

/* Rows in the order in which values are chosen; NULL past the last. */
const struct space_axis *space_axis(int index);

#endif
