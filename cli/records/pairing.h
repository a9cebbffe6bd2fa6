/* Which experiments `dtbench compare --by KEYS` pairs: those that differ in the named keys and in nothing else. */
#ifndef CLI_RECORDS_PAIRING_H
#define CLI_RECORDS_PAIRING_H

#include "lib/base/status.h"
#include "schedules/config/experiment.h"

struct pairing {
    const char *keys; /* as given; the caller's */
    bool *named; /* [experiment_table()->count] owned; also the keys that follow from a named one, as a model's sizes from its preset */
};

/* `keys`: comma-separated paths of the config, "activation,pipeline.order"; that of an object ("model") is all keys in it. Owner of *out, also
 * after a failure: the caller, pairing_finish. Errors: DT_ERR_INVALID for what is no key, DT_ERR_HOST_MEMORY. */
dt_status pairing_parse(const char *keys, struct pairing *out);
void pairing_finish(struct pairing *pairing);

bool pairing_names(const struct pairing *pairing, const char *path);

/* Do the two differ in named keys alone? Neither "name" counts, nor a key that makes no difference to one of them, such as those of a
 * pipeline to an experiment that has none. True also for two that are the same. */
bool pairing_fits(const struct pairing *pairing, const struct experiment *a, const struct experiment *b);

/* The values of the named keys of `e` in which it differs from `from`: "activation checkpoint", "fsdp, 4 ranks"; "the same"
 * where it differs in none. */
void pairing_describe(const struct pairing *pairing, const struct experiment *from, const struct experiment *e, char *text,
                      size_t text_bytes);

#endif
