/* The experiments of a config; a sweep has up to 100,000. */
#pragma once

#include "lib/base/status.h"
#include "schedules/config/experiment.h"

/* Combinations of a sweep that were left out because their values do not go together: no strategy
 * can have them. */
struct left_out {
    int count, of;    /* the number of combinations */
    char first[1024]; /* one line that names the first one and the reason; "" if there is none */
};

struct experiment_list {
    struct experiment *all; /* [count]; owned by the list */
    int count, room;
    struct left_out left_out;
};

void experiment_list_destroy(struct experiment_list *list); /* takes NULL */
DT_DESTROYS(experiment_list_destroy, struct experiment_list)

/* Append a copy of the experiment. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_list_add(struct experiment_list *list, const struct experiment *experiment);
