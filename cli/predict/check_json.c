#include "cli/predict/check.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool add_usage(cJSON *object, const char *key, int rank, const struct dt_memory_bytes *memory)
{
    cJSON *peak = cJSON_AddObjectToObject(object, key);
    bool kept =
        peak && cJSON_AddNumberToObject(peak, "rank", rank) && cJSON_AddNumberToObject(peak, "total", (double)memory->peak_total_bytes);
    for (int c = 0; kept && c < DT_CATEGORY_COUNT; c++)
        kept = cJSON_AddNumberToObject(peak, dt_category_name((enum dt_category)c), (double)memory->peak_bytes[c]) != NULL;
    return kept;
}

static bool add_stage(cJSON *array, const struct check_stage *stage)
{
    cJSON *object = cJSON_CreateObject();
    return cJSON_AddItemToArray(array, object) && cJSON_AddStringToObject(object, "layers", stage->layers) &&
           cJSON_AddNumberToObject(object, "parameters", (double)stage->parameters) &&
           cJSON_AddNumberToObject(object, "flops_per_step", stage->flops_per_step) &&
           cJSON_AddNumberToObject(object, "predicted_compute_s", stage->compute_s) && /* NaN becomes null */
           add_usage(object, "predicted_peak_bytes", stage->rank, &stage->device);
}

static bool add_pipeline(cJSON *object, const struct experiment *e, const struct check_pipeline *pipeline)
{
    if (pipeline->stages == 0)
        return cJSON_AddNullToObject(object, "pipeline") != NULL;
    cJSON *out = cJSON_AddObjectToObject(object, "pipeline"), *kept = NULL;
    bool all =
        out && cJSON_AddStringToObject(out, "order", e->pipeline.order) && (kept = cJSON_AddArrayToObject(out, "kept_micro_batches"));
    for (int i = 0; all && i < pipeline->stages; i++)
        all = cJSON_AddItemToArray(kept, cJSON_CreateNumber(pipeline->kept[i]));
    cJSON *stages = all ? cJSON_AddArrayToObject(out, "stages") : NULL;
    all = stages != NULL;
    for (int i = 0; all && i < pipeline->stages; i++)
        all = add_stage(stages, &pipeline->ranks[i]);
    return all && cJSON_AddNumberToObject(out, "bubble", pipeline->bubble) &&
           cJSON_AddBoolToObject(out, "closed_form", pipeline->by_source) &&
           (*pipeline->tried ? cJSON_AddStringToObject(out, "tried", pipeline->tried) : cJSON_AddNullToObject(out, "tried"));
}

/* {"replica": {"all_reduce": 1667905536}}: what is 0 is left out. */
static bool add_traffic(cJSON *object, const struct step_traffic *traffic)
{
    cJSON *axes = cJSON_AddObjectToObject(object, "comm_bytes_per_step");
    bool kept = axes != NULL;
    for (int axis = 0; kept && axis < MESH_AXES; axis++) {
        cJSON *kinds = NULL;
        for (int kind = 0; kept && kind < DT_COMM_KINDS; kind++) {
            if (traffic->bytes[axis][kind] == 0)
                continue;
            kinds = kinds ? kinds : cJSON_AddObjectToObject(axes, mesh_axis_name((enum mesh_axis)axis));
            kept = kinds && cJSON_AddNumberToObject(kinds, dt_comm_kind_name((enum dt_comm_kind)kind), (double)traffic->bytes[axis][kind]);
        }
    }
    return kept;
}

static bool add_notes(cJSON *object, const struct check *check)
{
    cJSON *notes = cJSON_AddArrayToObject(object, "notes");
    bool kept = notes != NULL;
    for (int i = 0; kept && i < check->note_count; i++)
        kept = cJSON_AddItemToArray(notes, cJSON_CreateString(check->notes[i]));
    return kept;
}

static dt_status add_check(cJSON *array, const struct experiment *e, const struct check *check)
{
    char *text;
    cJSON *object = cJSON_CreateObject(), *config;
    if (!cJSON_AddItemToArray(array, object))
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the checks");
    DT_TRY(experiment_to_json(e, DT_JSON_COMPACT, &text));
    dt_status status = dt_json_parse(text, strlen(text), "experiment", &config);
    free(text);
    DT_TRY(status);
    cJSON_AddItemToObject(object, "config", config);
    bool kept = cJSON_AddStringToObject(object, "config_hash", e->hash) &&
                cJSON_AddNumberToObject(object, "parameters", (double)check->parameters) &&
                cJSON_AddNumberToObject(object, "tokens_per_step", (double)check->tokens_per_step) &&
                cJSON_AddNumberToObject(object, "flops_per_step", check->flops_per_step) &&
                cJSON_AddBoolToObject(object, "fits", check->fits) &&
                (isnan(check->step_s) ? cJSON_AddNullToObject(object, "predicted_step_s")
                                      : cJSON_AddNumberToObject(object, "predicted_step_s", check->step_s)) &&
                add_usage(object, "predicted_peak_bytes", check->rank, &check->usage.device) &&
                add_usage(object, "predicted_host_peak_bytes", check->host_rank, &check->usage.host) &&
                add_traffic(object, &check->traffic) && add_pipeline(object, e, &check->pipeline) && add_notes(object, check);
    return kept ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the checks");
}

dt_status check_print_json(const struct experiment_list *experiments, const struct check *checks, FILE *to)
{
    struct experiment e;
    cJSON *array = cJSON_CreateArray();
    char *text = NULL;
    dt_status status = array ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the checks");
    for (int i = 0; status == DT_OK && i < experiment_list_count(experiments); i++)
        status = add_check(array, experiment_list_get(experiments, i, &e), &checks[i]);
    if (status == DT_OK)
        status = dt_json_print(array, DT_JSON_INDENT, &text);
    if (status == DT_OK)
        fprintf(to, "%s\n", text);
    free(text);
    cJSON_Delete(array);
    return status;
}
