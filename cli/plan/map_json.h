/* A map as JSON. */
#ifndef CLI_PLAN_MAP_JSON_H
#define CLI_PLAN_MAP_JSON_H

#include "cli/plan/map.h"

struct cJSON;

/* An empty array of boxes, or NULL: no host memory. map_print_json takes it; else it ends in map_json_destroy, which may be given NULL. */
struct cJSON *map_json_create(void);
void map_json_destroy(struct cJSON *array);

/* Adds {"model": ..., "global_batch": ..., "plan": what the plan alone would print} to an array. Errors: DT_ERR_HOST_MEMORY. */
dt_status map_add_json(struct cJSON *array, const struct map_box *box, const struct planner *planner,
                       const struct planner_reasons *reasons);
/* {"boxes": array}, which it takes. Errors: DT_ERR_HOST_MEMORY. */
dt_status map_print_json(struct cJSON *array, FILE *to);

#endif
