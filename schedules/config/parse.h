/* From a config file to experiments, and back.
 *
 * A config is one JSON object (see configs/schema/config.schema.json and the
 * table in schedules/config/fields.c). Overrides are applied first, then
 * the sweep's combinations are made, and every one is read, completed with
 * defaults and checked before any of them runs. Combinations that no strategy
 * can have are left out (experiment_list_left_out), unless all are such. */
#pragma once

#include "lib/config/config.h"
#include "lib/config/schema.h"
#include "schedules/config/experiment_list.h"

struct cJSON;

/* Parse text [length], named `source` in errors, with sets [set_count] of
 * "path=value" applied. *out gets *count >= 1 experiments in the sweep's order.
 * Owner: the caller, free(*out). Errors: DT_ERR_INVALID with one line that
 * names file and JSON path, DT_ERR_HOST_MEMORY. */
dt_status experiments_parse(const char *text, size_t length, const char *source, const char *const *sets, int set_count,
                            struct experiment **out, int *count);

/* The same as a list, for a sweep that may be large. Owner of *out: the caller,
 * experiment_list_destroy. */
dt_status experiments_parse_list(const char *text, size_t length, const char *source, const char *const *sets, int set_count,
                                 struct experiment_list **out);

/* The list of a file; "-" is standard input. Order files that it names are read and checked, too
 * (order.h). passes_only: only the passes of a pipeline matter, and it may have more stages than
 * the model has layers. Errors: also DT_ERR_IO. */
dt_status experiments_read(const char *path, const char *const *sets, int set_count, bool passes_only, struct experiment_list **out);

/* The resolved config as JSON, with its name and every field that it depends on; style: as for
 * dt_json_print. A record's "config" holds this text, and rank processes receive it. Parsing it
 * again gives the same hash, and the same experiment except for fields that do not matter in it. A
 * model made from a preset shows "preset", any other its sizes. Owner: the caller, free. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status experiment_to_json(const struct experiment *experiment, int style, char **out);
/* The same as a tree. Owner: the caller, dt_json_destroy. */
dt_status experiment_to_tree(const struct experiment *experiment, struct cJSON **out);

/* Does what the experiment measures depend on this key? The name does not matter, nor do keys of
 * other paradigms, of a pipeline that it does not have, or of another device. Each row of the table
 * says so. The hash is made of these keys (print.h). */
bool experiment_depends_on(const struct experiment *experiment, const struct dt_field *field);

/* Whether predictions and checks before a run give the same for both: they differ at most in keys
 * such as name and seed, which change neither bytes nor times. */
bool experiment_predicted_alike(const struct experiment *left, const struct experiment *right);

/* Put the experiment's "nccl" settings into this process's environment, over
 * what is there. Before NCCL is asked for anything: it reads most of them once.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status experiment_set_environment(const struct experiment *experiment);

/* Complete what depends on other fields, check what one field alone cannot
 * tell, and set the hash. `where` begins the error text. For callers that build
 * an experiment themselves: every field is set. */
dt_status experiment_resolve(struct experiment *experiment, const char *where);

/* What one experiment of a config leaves for the next one. Starts zeroed. */
struct experiment_resolver {
    const char *cluster, *profile; /* if no profile is named: the cluster, and the profile that its file names; NULL: none yet */
    bool impossible;               /* it failed because its values, each valid by itself, do not go together */
};
/* The same for consecutive experiments of one config, which names the fields that are marked in `given` (NULL: all of them): a
 * cluster's file is read again only if it is another file. */
dt_status experiment_resolve_next(struct experiment *experiment, const bool *given, const char *where, struct experiment_resolver *last);

/* The last part of experiment_resolve: settle the strategy and check. For experiments whose keys
 * were changed. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status experiment_check(struct experiment *experiment, const char *where);

/* Whether the model's family computes in its dtype on a device of this kind; `kind` NULL, not yet
 * chosen: yes. Errors: DT_ERR_INVALID. */
dt_status experiment_check_dtype(const struct experiment *experiment, const struct dt_device_kind *kind, const char *where);

/* The table of fields, with those of all families. */
const struct dt_table *experiment_table(void);
/* Does the experiment's paradigm read this key? */
static inline bool experiment_reads(const struct experiment *e, const struct dt_field *field)
{
    return !field->readers || field->readers & e->strategy.paradigm->reads;
}

/* The family whose models have this row; NULL: all families have it. */
const struct dt_model_family *experiment_field_family(const struct dt_field *field);
const struct dt_schema *experiment_schema(void);
