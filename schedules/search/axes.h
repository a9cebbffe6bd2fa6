/* The table of a space's axes (space.h): config keys, which experiments each concerns, and what is proposed for them. */
#ifndef SCHEDULES_SEARCH_AXES_H
#define SCHEDULES_SEARCH_AXES_H

#include "schedules/search/space.h"

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
