#include "cli/predict/plan_times.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

static bool add_ranks(cJSON *array, const struct timed_plan *t)
{
    double makespan = plan_makespan(t->ranks, t->stages);
    bool kept = true;
    for (int i = 0; kept && i < t->stages; i++) {
        const struct rank_time *r = &t->ranks[i];
        cJSON *object = cJSON_CreateObject();
        kept = cJSON_AddItemToArray(array, object) && cJSON_AddNumberToObject(object, "rank", i) &&
               cJSON_AddNumberToObject(object, "begin_ms", r->begin) && cJSON_AddNumberToObject(object, "end_ms", r->end) &&
               cJSON_AddNumberToObject(object, "busy_ms", r->busy) && cJSON_AddNumberToObject(object, "bubble", 1 - r->busy / makespan) &&
               cJSON_AddNumberToObject(object, "kept_micro_batches", t->kept[i].activations) &&
               cJSON_AddNumberToObject(object, "kept_weighted", t->kept[i].weighted);
    }
    return kept;
}

static dt_status add_timed_plan(cJSON *object, const struct experiment *e, const struct plan_times *times)
{
    struct timed_plan t;
    cJSON *plan = NULL, *ranks = NULL;
    dt_status status = timed_plan_init(&t, e, times);
    bool kept = status == DT_OK && cJSON_AddStringToObject(object, "name", e->name) &&
                cJSON_AddStringToObject(object, "config_hash", e->hash) && (plan = cJSON_AddObjectToObject(object, "plan")) &&
                cJSON_AddStringToObject(plan, "order", t.order) && cJSON_AddNumberToObject(plan, "stages", t.stages) &&
                cJSON_AddNumberToObject(plan, "micro_batches", t.micro_batches) &&
                cJSON_AddNumberToObject(plan, "makespan_ms", plan_makespan(t.ranks, t.stages)) &&
                cJSON_AddNumberToObject(plan, "bubble", plan_bubble(t.ranks, t.stages)) &&
                (ranks = cJSON_AddArrayToObject(plan, "ranks")) && add_ranks(ranks, &t);
    timed_plan_finish(&t);
    DT_TRY(status);
    return kept ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans");
}

dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to)
{
    int count = experiment_list_count(experiments);
    struct experiment e;
    cJSON *array = cJSON_CreateArray();
    char *text = NULL;
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < count; i++) {
        cJSON *object = cJSON_CreateObject();
        status = cJSON_AddItemToArray(array, object) ? add_timed_plan(object, experiment_list_get(experiments, i, &e), times)
                                                     : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the plans");
    }
    if (status == DT_OK)
        status = dt_json_print(count == 1 ? array->child : array, DT_JSON_INDENT, &text);
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(array);
    return status;
}
