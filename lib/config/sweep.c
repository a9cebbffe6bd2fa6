#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check the values of an axis separately. path "": they are merged into the whole config, and have
 * no sweep of their own. */
static dt_status check_values(const struct dt_table *table, const char *path, const struct cJSON *values, const char *label)
{
    char item[DT_CONFIG_LABEL_BYTES + 16];
    struct dt_failures failures = {0};
    int number = 0;
    for (const struct cJSON *value = values->child; value; value = value->next) {
        snprintf(item, sizeof item, "%s[%d]", label, number++);
        if (!*path && cJSON_GetObjectItemCaseSensitive(value, "sweep"))
            dt_failures_add(&failures,
                            dt_fail(DT_ERR_INVALID, "%s.sweep: a case has no sweep of its own; put its lists next to \"cases\"", item));
        dt_failures_add(&failures, dt_config_read_at(table, path, value, item, NULL, NULL));
    }
    return dt_failures_end(&failures);
}

static dt_status add_axis(const struct dt_table *table, const char *path, const struct cJSON *values, const char *label,
                          struct dt_sweep *sweep)
{
    char quote[64];
    if (!cJSON_IsArray(values)) {
        dt_json_quote(values, quote, sizeof quote);
        return dt_fail(DT_ERR_INVALID, "%s: expected a list of %s, not %s", label, *path ? "values" : "objects", quote);
    }
    if (!values->child)
        return dt_fail(DT_ERR_INVALID, "%s: the list is empty; give it at least one value", label);
    if (sweep->axis_count == DT_SWEEP_MAX_AXES)
        return dt_fail(DT_ERR_INVALID, "%s: more than %d lists in one sweep", label, DT_SWEEP_MAX_AXES);
    struct dt_sweep_axis *axis = &sweep->axes[sweep->axis_count++];
    if (strlen(path) >= sizeof axis->path)
        return dt_fail(DT_ERR_INVALID, "%s: a path of more than %zu bytes", label, sizeof axis->path - 1);
    snprintf(axis->path, sizeof axis->path, "%.*s", (int)sizeof axis->path - 1, path);
    axis->values = values;
    axis->count = cJSON_GetArraySize(values);
    return check_values(table, path, values, label);
}

static dt_status collect_axes(const struct dt_table *table, const struct cJSON *node, const char *prefix, const char *label,
                              struct dt_sweep *sweep);

/* Collect one member of the sweep: a list, or an object of lists. */
static dt_status collect_axis(const struct dt_table *table, const struct cJSON *child, const char *prefix, const char *label,
                              struct dt_sweep *sweep)
{
    char path[DT_CONFIG_PATH_BYTES], inner[DT_CONFIG_LABEL_BYTES];
    dt_config_join(prefix, child->string, path);
    snprintf(inner, sizeof inner, "%s.%s", label, *child->string ? child->string : "\"\"");
    if (strcmp(path, DT_SWEEP_CASES) == 0)
        return add_axis(table, "", child, inner, sweep);
    if (!*child->string || !dt_config_is_known(table, path))
        return dt_config_fail_unknown(table, prefix, child->string, inner);
    int index = dt_config_find(table, path);
    bool settings = index >= 0 && table->fields[index].kind == DT_FIELD_SETTINGS;
    if (cJSON_IsObject(child) && (settings || dt_config_is_object(table, path)))
        return collect_axes(table, child, path, inner, sweep);
    return add_axis(table, path, child, inner, sweep);
}

/* Find the lists below `node`, the member `prefix` of the sweep, in their order in the file. */
static dt_status collect_axes(const struct dt_table *table, const struct cJSON *node, const char *prefix, const char *label,
                              struct dt_sweep *sweep)
{
    struct dt_failures failures = {0};
    for (const struct cJSON *child = node->child; child; child = child->next)
        dt_failures_add(&failures, collect_axis(table, child, prefix, label, sweep));
    return dt_failures_end(&failures);
}

static const char *name_of(const struct dt_sweep_axis *axis)
{
    return *axis->path ? axis->path : DT_SWEEP_CASES;
}

/* Two axes that each set one setting, but different ones, do not contradict each other. */
static bool are_different_settings(const struct dt_table *table, const struct dt_sweep_axis *a, const struct dt_sweep_axis *b)
{
    const char *name;
    return dt_config_settings_above(table, a->path, &name) >= 0 && dt_config_settings_above(table, b->path, &name) >= 0 &&
           strcmp(a->path, b->path) != 0;
}

/* No field may be set by two axes, since the result would be ambiguous. */
static dt_status check_overlap(const struct dt_table *table, const struct dt_sweep *sweep, const char *label)
{
    DT_FREED bool *set = calloc((size_t)table->count * DT_SWEEP_MAX_AXES, sizeof *set);
    DT_TRY(dt_allocated(set, "%s: out of memory", label));
    dt_status status = DT_OK;
    for (int a = 0; a < sweep->axis_count; a++)
        for (const struct cJSON *value = sweep->axes[a].values->child; value; value = value->next)
            (void)dt_config_read_at(table, sweep->axes[a].path, value, label, NULL,
                                    set + a * table->count); /* read before, without an error */
    for (int a = 0; a < sweep->axis_count; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < table->count && status == DT_OK; i++)
                if (set[a * table->count + i] && set[b * table->count + i] &&
                    !are_different_settings(table, &sweep->axes[a], &sweep->axes[b]))
                    status = dt_fail(DT_ERR_INVALID, "%s: both \"%s\" and \"%s\" set %s; leave one of them", label,
                                     name_of(&sweep->axes[b]), name_of(&sweep->axes[a]), table->fields[i].path);
    return status;
}

/* A list of experiments: one axis of objects at the config's own path. */
static dt_status collect_experiments(const struct dt_table *table, const struct cJSON *node, const char *label, struct dt_sweep *sweep)
{
    struct dt_sweep_axis *axis = &sweep->axes[sweep->axis_count++];
    char quote[64], item[DT_CONFIG_LABEL_BYTES + 16];
    if (!node->child)
        return dt_fail(DT_ERR_INVALID, "%s: the list is empty; give it at least one object", label);
    *axis = (struct dt_sweep_axis){.values = node};
    for (const struct cJSON *value = node->child; value; value = value->next) {
        snprintf(item, sizeof item, "%s[%d]", label, axis->count++);
        if (!cJSON_IsObject(value)) {
            dt_json_quote(value, quote, sizeof quote);
            return dt_fail(DT_ERR_INVALID, "%s: expected an object of keys, not %s", item, quote);
        }
        if (cJSON_GetObjectItemCaseSensitive(value, "sweep"))
            return dt_fail(DT_ERR_INVALID, "%s: a sweep inside a sweep; a list of experiments has none of its own", item);
        DT_TRY(dt_config_read_at(table, "", value, item, NULL, NULL));
    }
    return DT_OK;
}

dt_status dt_sweep_init(const struct dt_table *table, const struct cJSON *object, const char *where, struct dt_sweep *out)
{
    const struct cJSON *node = cJSON_GetObjectItemCaseSensitive(object, "sweep");
    char label[DT_CONFIG_LABEL_BYTES], quote[64];
    *out = (struct dt_sweep){.combinations = 1};
    if (!node)
        return DT_OK;
    snprintf(label, sizeof label, "%s: sweep", where);
    if (!cJSON_IsObject(node) && !cJSON_IsArray(node)) {
        dt_json_quote(node, quote, sizeof quote);
        return dt_fail(DT_ERR_INVALID, "%s: expected an object of lists, or a list of objects, not %s", label, quote);
    }
    if (cJSON_IsArray(node)) {
        DT_TRY(collect_experiments(table, node, label, out));
    } else {
        DT_TRY(collect_axes(table, node, "", label, out));
        DT_TRY(check_overlap(table, out, label));
    }
    double combinations = 1;
    for (int a = 0; a < out->axis_count; a++)
        combinations *= out->axes[a].count;
    if (combinations > DT_SWEEP_MAX)
        return dt_fail(DT_ERR_INVALID, "%s: %.0f combinations; at most %d are allowed", label, combinations, DT_SWEEP_MAX);
    out->combinations = (int)combinations;
    return DT_OK;
}

/* The value of each axis in combination `index`: the last axis changes fastest. */
static const struct cJSON *value_at(struct dt_sweep *sweep, int number, int index)
{
    struct dt_sweep_axis *axis = &sweep->axes[number];
    for (int a = sweep->axis_count - 1; a > number; a--)
        index /= sweep->axes[a].count;
    index %= axis->count;
    if (!axis->at || index < axis->at_index) {
        axis->at = axis->values->child;
        axis->at_index = 0;
    }
    for (; axis->at_index < index; axis->at_index++)
        axis->at = axis->at->next;
    return axis->at;
}

/* If an axis has set field i: it is given, and the fields that it replaces are not, unless the axis
 * sets these, too. */
static void take_back(const struct dt_table *table, int i, const bool *set, bool *given)
{
    given[i] |= set[i];
    for (int other = 0; set[i] && table->fields[i].replaces && other < table->count; other++)
        if (dt_config_replaces(&table->fields[i], table->fields[other].path))
            given[other] = set[other];
}

dt_status dt_sweep_read(const struct dt_table *table, struct dt_sweep *sweep, int index, const char *where, void *target, bool *given)
{
    DT_FREED bool *set = calloc((size_t)table->count, sizeof *set);
    DT_TRY(dt_allocated(set, "%s: out of memory", where));
    for (int a = 0; a < sweep->axis_count; a++) {
        memset(set, 0, (size_t)table->count * sizeof *set);
        DT_TRY(dt_config_read_at(table, sweep->axes[a].path, value_at(sweep, a, index), where, target, set));
        for (int i = 0; i < table->count; i++)
            take_back(table, i, set, given);
    }
    return DT_OK;
}

void dt_sweep_describe(struct dt_sweep *sweep, int index, char *text, size_t text_bytes)
{
    text[0] = 0;
    if (sweep->axis_count == 0)
        return;
    snprintf(text, text_bytes, "combination %d of %d (", index + 1, sweep->combinations);
    for (int a = 0; a < sweep->axis_count; a++) {
        char quote[48];
        dt_json_quote(value_at(sweep, a, index), quote, sizeof quote);
        dt_append(text, text_bytes, a ? ", " : "", "%s%s%s", sweep->axes[a].path, *sweep->axes[a].path ? "=" : "", quote);
    }
    dt_append(text, text_bytes, "", ")");
}
