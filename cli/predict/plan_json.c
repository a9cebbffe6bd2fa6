#include "cli/predict/plan.h"
#include "lib/config/json.h"
#include "schedules/config/order.h"
#include "schedules/plan/plans.h"
#include "schedules/run/rank_plan.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

static bool add_action(cJSON *array, const struct plan *plan, const struct action *a)
{
    cJSON *object = cJSON_CreateObject();
    bool kept = cJSON_AddItemToArray(array, object) && cJSON_AddStringToObject(object, "action", action_name((enum action_op)a->op));
    if (a->op == ACTION_PUBLISH || a->op == ACTION_END_STEP)
        return kept;
    kept = kept && cJSON_AddNumberToObject(object, "micro_batch", a->micro_batch) && cJSON_AddNumberToObject(object, "slot", a->slot);
    if (plan->parts > 1)
        kept = kept && cJSON_AddNumberToObject(object, "part", a->part);
    bool of_group = action_computes(a) || (a->op >= ACTION_GATHER && a->op <= ACTION_UPDATE);
    return kept && (!of_group || cJSON_AddNumberToObject(object, "group", a->group));
}

static dt_status add_rank(cJSON *array, const struct experiment *e, int rank)
{
    struct plan plan;
    dt_status status = rank_plan(e, rank, &plan);
    cJSON *object = status == DT_OK ? cJSON_CreateObject() : NULL, *actions = NULL;
    bool kept = object && cJSON_AddItemToArray(array, object) && cJSON_AddNumberToObject(object, "rank", rank) &&
                cJSON_AddNumberToObject(object, "stage", plan.stage) && cJSON_AddNumberToObject(object, "slots", plan.slots) &&
                (actions = cJSON_AddArrayToObject(object, "actions"));
    for (int i = 0; kept && i < plan.count; i++)
        kept = add_action(actions, &plan, &plan.actions[i]);
    plan_finish(&plan);
    DT_TRY(status);
    return kept ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans");
}

static dt_status add_experiment(cJSON *array, const struct experiment *e)
{
    int stages = e->strategy.stages;
    cJSON *object = cJSON_CreateObject(), *ranks = NULL;
    bool kept = cJSON_AddItemToArray(array, object) && cJSON_AddStringToObject(object, "name", e->name) &&
                cJSON_AddStringToObject(object, "config_hash", e->hash) &&
                cJSON_AddStringToObject(object, "paradigm", paradigm_name(e->paradigm)) &&
                (ranks = cJSON_AddArrayToObject(object, "ranks"));
    if (!kept)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans");
    struct experiment with_plans = *e;
    struct plan *made;
    DT_TRY(experiment_make_plans(e, &made));
    with_plans.made_plans = made;
    dt_status status = DT_OK;
    for (int stage = 0; status == DT_OK && stage < stages; stage++)
        status = add_rank(ranks, &with_plans, stages > 1 ? experiment_rank_of_kind(e, stage) : 0);
    plans_destroy(made, stages);
    return status;
}

dt_status plan_print_json(const struct experiment_list *experiments, FILE *to)
{
    struct experiment e;
    cJSON *array = cJSON_CreateArray();
    char *text = NULL;
    dt_status status = array ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans");
    for (int i = 0; status == DT_OK && i < experiment_list_count(experiments); i++)
        status = add_experiment(array, experiment_list_get(experiments, i, &e));
    if (status == DT_OK)
        status = dt_json_print(array, DT_JSON_INDENT, &text);
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(array);
    return status;
}
