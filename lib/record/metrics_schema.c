/* The JSON Schema of a record's metrics, made from their table. Trees are NULL when memory is out, and so is what they become part of. */
#include "lib/config/json.h"
#include "lib/record/metrics.h"

#include <cjson/cJSON.h>

/* A schema that begins with a description, NULL: none. */
static cJSON *described(const char *description)
{
    return description ? dt_json_object("description: %s", description) : dt_json_object("");
}

/* A value of this type, or null where it is unknown. */
static cJSON *nullable_schema(const char *description, const char *type)
{
    cJSON *schema = described(description), *types = dt_json_words(type, " ");
    dt_json_append(&types, dt_json_text("null"));
    dt_json_add(&schema, "type: %p", types);
    return schema;
}

/* A number of 0 or more, or null. */
static cJSON *number_schema(const char *description, enum dt_metric_unit unit)
{
    cJSON *schema = nullable_schema(description, dt_unit_is_whole(unit) ? "integer" : "number");
    dt_json_add(&schema, "minimum: %d", 0);
    return schema;
}

static cJSON *list_schema(const char *description, cJSON *items)
{
    cJSON *schema = described(description);
    dt_json_add(&schema, "type: %s, items: %p", "array", items);
    return schema;
}

/* An object that has no other keys than these properties. */
static cJSON *object_schema(const char *description, cJSON *required, cJSON *properties)
{
    cJSON *schema = described(description);
    dt_json_add(&schema, "type: %s, additionalProperties: %hhd, required: %p, properties: %p", "object", (bool)false, required, properties);
    return schema;
}

static cJSON *steps_schema(const struct dt_metric *metric)
{
    static const char variation[] = "Coefficient of variation: sample standard deviation over mean; null for one step.";
    enum dt_metric_unit unit = metric->unit;
    return object_schema(metric->help, dt_json_words("median p95 cv all", " "),
                         dt_json_object("median: %p, p95: %p, cv: %p, all: %p", number_schema(NULL, unit), number_schema(NULL, unit),
                                        number_schema(variation, DT_UNIT_FRACTION), list_schema(NULL, number_schema(NULL, unit))));
}

static void add_bytes(cJSON **required, cJSON **properties)
{
    dt_json_append(required, dt_json_text("total"));
    dt_json_add(properties, "total: %p", number_schema(NULL, DT_UNIT_BYTES));
    for (int c = 0; c < DT_CATEGORY_COUNT; c++) {
        dt_json_append(required, dt_json_text(dt_category_name((enum dt_category)c)));
        dt_json_add(properties, "%s: %p", dt_category_name((enum dt_category)c), number_schema(NULL, DT_UNIT_BYTES));
    }
}

static cJSON *peaks_schema(const char *help, bool of_host)
{
    cJSON *required = dt_json_array(), *properties = dt_json_object("");
    cJSON *group_required = dt_json_words("ranks", " "), *rank_required = dt_json_words("rank", " ");
    cJSON *range = dt_json_object("type: %s, items: {type: %s, minimum: %d}, minItems: %d, maxItems: %d", "array", "integer", 0, 3, 3);
    cJSON *group = dt_json_object("ranks: %p", list_schema("Which ranks: ranges of a first rank, a last one, and a step.", range));
    cJSON *rank = dt_json_object("rank: {type: %s, minimum: %d}", "integer", 0);
    add_bytes(&required, &properties);
    add_bytes(&group_required, &group);
    add_bytes(&rank_required, &rank);
    dt_json_add(&properties, "by_ranks: %p",
                list_schema("Ranks that hold the same, together.", object_schema(NULL, group_required, group)));
    if (!of_host) {
        dt_json_add(&properties, "process_rss: %p",
                    list_schema("Of each rank's whole process; empty where nobody knows.", number_schema(NULL, DT_UNIT_BYTES)));
        dt_json_append(&rank_required, dt_json_text("process_rss"));
        dt_json_add(&rank, "process_rss: %p", number_schema(NULL, DT_UNIT_BYTES));
    }
    dt_json_add(
        &properties, "per_rank: %p",
        list_schema("In records of older versions, instead of by_ranks: each rank by itself.", object_schema(NULL, rank_required, rank)));
    return object_schema(help, required, properties);
}

static cJSON *metric_schema(const struct dt_metric *metric)
{
    switch (metric->kind) {
    case DT_METRIC_NUMBER: return number_schema(metric->help, metric->unit);
    case DT_METRIC_TEXT: return nullable_schema(metric->help, "string");
    case DT_METRIC_STEPS: return steps_schema(metric);
    case DT_METRIC_DEVICE_PEAKS: return peaks_schema(metric->help, false);
    case DT_METRIC_HOST_PEAKS: return peaks_schema(metric->help, true);
    }
    return NULL;
}

dt_status dt_metrics_schema(cJSON **out)
{
    cJSON *required = dt_json_array(), *properties = dt_json_object("");
    const struct dt_metric *metric;
    for (int i = 0; (metric = dt_metric_at(i)); i++) {
        if (!metric->later)
            dt_json_append(&required, dt_json_text(metric->key));
        dt_json_add(&properties, "%s: %p", metric->key, metric_schema(metric));
    }
    *out = dt_json_object("$schema: %s, title: %s, description: %s, type: %s, additionalProperties: %hhd, required: %p, properties: %p",
                          "https://json-schema.org/draft/2020-12/schema", "dtbench metrics",
                          "The numbers of a record. Unknown ones are null.", "object", (bool)false, required, properties);
    return *out ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "out of memory while making the schema of metrics");
}
