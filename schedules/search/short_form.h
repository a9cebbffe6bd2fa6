/* What a candidate with many micro-batches needs at least, told by a simulation of the same with few.
 *
 * More micro-batches never hold less, since all that is held is held by them, too; and each further one takes the time that nobody avoids
 * (struct bound, micro_batch_s). Blocks are alike, so that what a rank of fsdp holds is told by models of few of them. Candidates of different batches have the same short form where their micro-batches are of one size, so
 * that one simulation serves many of them. Pipelines whose backward comes in halves are played instead (pipeline_fill.h). */
#ifndef SCHEDULES_SEARCH_SHORT_FORM_H
#define SCHEDULES_SEARCH_SHORT_FORM_H

#include "schedules/search/bounds.h"

struct short_forms;

/* Owner of *out: the caller. machine outlives it. stop (NULL: never) ends a simulation. Errors: DT_ERR_HOST_MEMORY. */
dt_status short_forms_create(const struct simulated_machine *machine, double capacity_bytes, bool (*stop)(void *context), void *context,
                             struct short_forms **out);
void short_forms_destroy(struct short_forms *forms); /* takes NULL */

struct short_form {
    bool exists; /* false: the experiment has few micro-batches itself, and is simulated as fast; nothing else is said */
    bool fits;
    double bytes;  /* of the device, of the ranks that need most, at least */
    double step_s; /* what the whole experiment takes at least; 0: not told */
};

/* Whether few micro-batches of it fit: what is soonest told. step_s is not. For any number of threads. Errors: as below. */
dt_status short_forms_fit(struct short_forms *forms, const struct experiment *experiment, struct short_form *out);

/* Of an experiment with this bound. For any number of threads. Errors: DT_ERR_INTERRUPTED, and the simulator's own. */
dt_status short_forms_find(struct short_forms *forms, const struct experiment *experiment, const struct bound *bound,
                           struct short_form *out);

#endif
