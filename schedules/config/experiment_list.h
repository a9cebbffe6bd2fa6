/* The experiments of a config. A sweep may have 100,000 of them, 8 KiB each, that differ in a few keys: kept is the first one whole, and of
 * each other one what differs from it. */
#ifndef SCHEDULES_CONFIG_EXPERIMENT_LIST_H
#define SCHEDULES_CONFIG_EXPERIMENT_LIST_H

#include "lib/base/status.h"
#include "schedules/config/experiment.h"

struct experiment_list;

/* An empty list. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_list_create(struct experiment_list **out);
void experiment_list_destroy(struct experiment_list *list);

/* A copy of the experiment becomes the last one. Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_list_add(struct experiment_list *list, const struct experiment *experiment);

int experiment_list_count(const struct experiment_list *list);

/* Experiment `index`, written to *out. Returns out. */
const struct experiment *experiment_list_get(const struct experiment_list *list, int index, struct experiment *out);

/* Are two experiments of the list the same in every byte? */
bool experiment_list_same(const struct experiment_list *list, int left, int right);

/* Take out those whose dropped[i] is true; the others keep their order. */
void experiment_list_drop(struct experiment_list *list, const bool *dropped);

/* Combinations of a sweep that are not in the list, because their values do not go together: no strategy has them. */
struct left_out {
    int count, of;    /* the number of combinations */
    char first[1024]; /* one line: which the first is, and why; "" where there is none */
};
void experiment_list_leave_out(struct experiment_list *list, const struct left_out *left_out);
const struct left_out *experiment_list_left_out(const struct experiment_list *list);

#endif
