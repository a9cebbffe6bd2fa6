/* The experiments of a config: of a sweep up to 100,000. */
#ifndef SCHEDULES_CONFIG_EXPERIMENT_LIST_H
#define SCHEDULES_CONFIG_EXPERIMENT_LIST_H

#include "lib/base/status.h"
#include "schedules/config/experiment.h"

/* Combinations of a sweep that are not in the list, because their values do not go together: no strategy has them. */
struct left_out {
    int count, of;    /* the number of combinations */
    char first[1024]; /* one line: which the first is, and why; "" where there is none */
};

struct experiment_list {
    struct experiment *all; /* [count]; the list's */
    int count, room;
    struct left_out left_out;
};

/* An empty list. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_list_create(struct experiment_list **out);
void experiment_list_destroy(struct experiment_list *list); /* takes NULL */

/* A copy of the experiment, with every byte, becomes the last one. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_list_add(struct experiment_list *list, const struct experiment *experiment);

/* Take out those whose dropped[i] is true; the others keep their order. */
void experiment_list_drop(struct experiment_list *list, const bool *dropped);

#endif
