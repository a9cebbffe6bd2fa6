/* The JSON Schema of a record's metrics, made from their table. Functions return NULL or false when memory is out, and take NULL for the
 * result of one that did. */
#include "lib/config/json.h"
#include "lib/record/metrics.h"

#include <cjson/cJSON.h>

/* Make `schema` that of an object without other keys than are added to it. */
static bool make_object(cJSON *schema)
{
    return cJSON_AddStringToObject(schema, "type", "object") && cJSON_AddFalseToObject(schema, "additionalProperties") &&
           cJSON_AddArrayToObject(schema, "required") && cJSON_AddObjectToObject(schema, "properties");
}

/* The schema of one more key of an object; description: NULL for none. */
static cJSON *add_key(cJSON *object, const char *key, bool required, const char *description)
{
    cJSON *schema = cJSON_AddObjectToObject(cJSON_GetObjectItemCaseSensitive(object, "properties"), key);
    if (required && !cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(object, "required"), cJSON_CreateString(key)))
        return NULL;
    return !description || cJSON_AddStringToObject(schema, "description", description) ? schema : NULL;
}

/* A value of this type, or null where it is unknown. */
static bool make_nullable(cJSON *schema, const char *type)
{
    cJSON *types = cJSON_AddArrayToObject(schema, "type");
    return cJSON_AddItemToArray(types, cJSON_CreateString(type)) && cJSON_AddItemToArray(types, cJSON_CreateString("null"));
}

/* A number of 0 or more, or null. */
static bool make_number(cJSON *schema, enum dt_metric_unit unit)
{
    return make_nullable(schema, dt_unit_is_whole(unit) ? "integer" : "number") && cJSON_AddNumberToObject(schema, "minimum", 0);
}

static bool make_steps(cJSON *schema, enum dt_metric_unit unit)
{
    cJSON *all;
    return make_object(schema) && make_number(add_key(schema, "median", true, NULL), unit) &&
           make_number(add_key(schema, "p95", true, NULL), unit) &&
           make_number(add_key(schema, "cv", true, "Coefficient of variation: sample standard deviation over mean; null for one step."),
                       DT_UNIT_FRACTION) &&
           (all = add_key(schema, "all", true, NULL)) && cJSON_AddStringToObject(all, "type", "array") &&
           make_number(cJSON_AddObjectToObject(all, "items"), unit);
}

static bool add_bytes(cJSON *object)
{
    bool done = make_number(add_key(object, "total", true, NULL), DT_UNIT_BYTES);
    for (int c = 0; done && c < DT_CATEGORY_COUNT; c++)
        done = make_number(add_key(object, dt_category_name((enum dt_category)c), true, NULL), DT_UNIT_BYTES);
    return done;
}

/* A list of whole numbers from 0 on; null among them where one may be unknown. */
static bool make_numbers(cJSON *schema, bool nullable)
{
    cJSON *items = cJSON_AddStringToObject(schema, "type", "array") ? cJSON_AddObjectToObject(schema, "items") : NULL;
    return nullable ? make_number(items, DT_UNIT_BYTES)
                    : cJSON_AddStringToObject(items, "type", "integer") && cJSON_AddNumberToObject(items, "minimum", 0);
}

/* The list of what ranks hold; of one of its objects. */
static cJSON *add_list(cJSON *object, const char *key, const char *description)
{
    cJSON *list = add_key(object, key, false, description);
    cJSON *item = cJSON_AddStringToObject(list, "type", "array") ? cJSON_AddObjectToObject(list, "items") : NULL;
    return item && make_object(item) ? item : NULL;
}

static bool make_peaks(cJSON *schema, bool of_host)
{
    cJSON *group, *ranges, *range, *rank, *number;
    if (!make_object(schema) || !add_bytes(schema))
        return false;
    group = add_list(schema, "by_ranks", "Ranks that hold the same, together.");
    ranges = add_key(group, "ranks", true, "Which ranks: ranges of a first rank, a last one, and a step.");
    range = cJSON_AddStringToObject(ranges, "type", "array") ? cJSON_AddObjectToObject(ranges, "items") : NULL;
    if (!make_numbers(range, false) || !cJSON_AddNumberToObject(range, "minItems", 3) || !cJSON_AddNumberToObject(range, "maxItems", 3) ||
        !add_bytes(group))
        return false;
    if (!of_host && !make_numbers(add_key(schema, "process_rss", false, "Of each rank's whole process; empty where nobody knows."), true))
        return false;
    rank = add_list(schema, "per_rank", "In records of older versions, instead of by_ranks: each rank by itself.");
    number = add_key(rank, "rank", true, NULL);
    return cJSON_AddStringToObject(number, "type", "integer") && cJSON_AddNumberToObject(number, "minimum", 0) && add_bytes(rank) &&
           (of_host || make_number(add_key(rank, "process_rss", true, NULL), DT_UNIT_BYTES));
}

static bool add_metric(cJSON *object, const struct dt_metric *metric)
{
    cJSON *schema = add_key(object, metric->key, !metric->later, metric->help);
    switch (metric->kind) {
    case DT_METRIC_NUMBER: return make_number(schema, metric->unit);
    case DT_METRIC_TEXT: return make_nullable(schema, "string");
    case DT_METRIC_STEPS: return make_steps(schema, metric->unit);
    case DT_METRIC_DEVICE_PEAKS: return make_peaks(schema, false);
    case DT_METRIC_HOST_PEAKS: return make_peaks(schema, true);
    }
    return false;
}

dt_status dt_metrics_schema(cJSON **out)
{
    cJSON *root = cJSON_CreateObject();
    bool done = cJSON_AddStringToObject(root, "$schema", "https://json-schema.org/draft/2020-12/schema") &&
                cJSON_AddStringToObject(root, "title", "dtbench metrics") &&
                cJSON_AddStringToObject(root, "description", "The numbers of a record. Unknown ones are null.") && make_object(root);
    for (int i = 0; done && dt_metric_at(i); i++)
        done = add_metric(root, dt_metric_at(i));
    if (!done) {
        cJSON_Delete(root);
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while making the schema of metrics");
    }
    *out = root;
    return DT_OK;
}
