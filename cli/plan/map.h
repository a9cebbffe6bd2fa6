/* A map: the best way of training for each of some models and batches, as the study's Figures 20 and 21 have it for its cluster. */
#ifndef CLI_PLAN_MAP_H
#define CLI_PLAN_MAP_H

#include "cli/plan/planner_print.h"
#include "cli/plan/strategy.h"

struct cJSON;

enum { MAP_VALUES = 32, MAP_TEXT_BYTES = 4096 };

/* The two axes. A model or batch of NULL is what the other options say. */
struct map {
    const char *models[MAP_VALUES], *batches[MAP_VALUES]; /* in `text` */
    int model_count, batch_count;
    char text[MAP_TEXT_BYTES];
};

/* What one box says, once its search is over. */
struct map_box {
    const char *model, *batch;
    char strategy[STRATEGY_BYTES]; /* "": nothing fits, or nothing was reached */
    double tokens_per_s, peak_bytes;
    bool interrupted; /* the best so far */
    struct rule_results rules;
};

/* Of texts like "model=GPTSmall,GPT13B" and "batch=64,256", or both in one text with a space between them. Errors: DT_ERR_INVALID with one
 * line. */
dt_status map_read(const struct option_list *texts, const struct planner_arguments *arguments, struct map *out);

void map_fill(const struct planner *planner, struct map_box *box);

/* A row for each of so many boxes. Errors: DT_ERR_HOST_MEMORY. */
dt_status map_print(const struct map_box *boxes, int count, FILE *to);

/* Add {"model": ..., "global_batch": ..., "plan": what the plan alone would print} to an array. */
dt_status map_add_json(struct cJSON **array, const struct map_box *box, const struct planner *planner,
                       const struct planner_reasons *reasons);

#endif
