/* --verify: an experiment's losses against those of one device that does the same work. */
#ifndef CLI_RUN_VERIFY_H
#define CLI_RUN_VERIFY_H

#include "schedules/run/report.h"

struct verify_reference;

struct verify_cache {
    struct verify_reference *first; /* one per reference config: a sweep's experiments share them */
};

/* The experiment that all divisions of the same work must agree with: paradigm none, the global batch in world_size micro-batches, the same
 * seed and number of steps. Errors: DT_ERR_INVALID. */
dt_status verify_reference_of(const struct experiment *experiment, struct experiment *out);

/* The reference's report, when it was kept before; NULL. */
const struct report *verify_find(const struct verify_cache *cache, const struct experiment *reference);
/* Keep `report`: the cache owns its content from here on. Errors: DT_ERR_HOST_MEMORY, and it is finished. */
dt_status verify_keep(struct verify_cache *cache, const struct experiment *reference, struct report *report);
void verify_finish(struct verify_cache *cache);

/* Compare step by step, and set the report's verification and, on a mismatch, its status and error. */
void verify_compare(struct report *report, const struct experiment *experiment, const struct report *reference);

#endif
