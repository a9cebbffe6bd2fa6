/* A plan as JSON, and the best of it as a config. */
#ifndef CLI_PLAN_PLANNER_JSON_H
#define CLI_PLAN_PLANNER_JSON_H

#include "cli/plan/measured.h"
#include "cli/plan/planner_print.h"

/* As planner_print_json prints it. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_to_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                          struct cJSON **out);

/* {"plans": [{"config": {...}, "tokens_per_s": ..., "peak_bytes": ..., "why": [...]}], ...}. Errors: DT_ERR_HOST_MEMORY. */
dt_status planner_print_json(const struct planner *planner, const struct planner_reasons *reasons, const struct measured *measured,
                             FILE *to);

/* The shown candidates as a config whose sweep lists them, written to `path`. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status planner_write_config(const struct planner *planner, const char *path);

#endif
