#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"
#include "lib/config/words.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* The value of an assignment: JSON if it is valid JSON, else the text itself. For string fields 123
 * and null are texts, too. */
static dt_status parse_assigned(const struct dt_field *field, const char *text, const char *label, struct cJSON **out)
{
    bool wants_string = field && (field->kind == DT_FIELD_STRING || field->kind == DT_FIELD_TEXT || field->kind == DT_FIELD_ENUM);
    if (dt_json_parse(text, strlen(text), label, out) == DT_OK) {
        bool takes_list = field && (field->list || field->words || field->most_numbers > 0);
        bool takes_boolean = field && field->booleans;
        if (!wants_string || cJSON_IsString(*out) || (takes_list && cJSON_IsArray(*out)) || (takes_boolean && cJSON_IsBool(*out)))
            return DT_OK;
        dt_json_destroy(*out);
    }
    for (const char *c = text, *end = text + strlen(text); c < end; c += dt_utf8_bytes(c, end))
        if (dt_utf8_bytes(c, end) == 0) /* the bytes of a command line may be anything */
            return dt_fail(DT_ERR_INVALID, "%s: byte 0x%02X is not valid UTF-8", label, (unsigned char)*c);
    *out = cJSON_CreateString(text);
    return dt_allocated(*out, "%s: out of memory", label);
}

/* The rest of `path` below `above`: "dtype" for model.dtype below model; NULL: it is not below. */
static const char *rest_below(const char *path, const char *above)
{
    size_t bytes = strlen(above);
    return strncmp(path, above, bytes) == 0 && path[bytes] == '.' ? path + bytes + 1 : NULL;
}

/* Remove the keys that the field at `path` replaces. */
static void take_out_replaced(const struct dt_table *table, struct cJSON *object, const char *path)
{
    int index = dt_config_find(table, path);
    for (const char *const *replaced = index >= 0 ? table->fields[index].replaces : NULL; replaced && *replaced; replaced++)
        dt_json_drop(object, *replaced);
}

/* Remove the axis `path` from the sweep. An axis of whole objects that sets `path` among others can
 * neither be kept nor removed: an error. */
static dt_status drop_axis(struct cJSON *node, const char *prefix, const char *path, const char *label)
{
    struct cJSON *next;
    for (struct cJSON *child = node->child; child; child = next) {
        char here[DT_CONFIG_PATH_BYTES];
        next = child->next;
        dt_config_join(prefix, child->string, here);
        const char *rest = strcmp(here, DT_SWEEP_CASES) == 0 ? path : rest_below(path, here);
        if (strcmp(here, path) == 0) {
            cJSON_Delete(cJSON_DetachItemViaPointer(node, child));
        } else if (rest && cJSON_IsObject(child)) {
            DT_TRY(drop_axis(child, here, path, label));
            if (!child->child)
                cJSON_Delete(cJSON_DetachItemViaPointer(node, child));
        } else if (rest && cJSON_IsArray(child)) {
            for (struct cJSON *value = child->child; value; value = value->next)
                if (dt_json_at(value, rest))
                    return dt_fail(DT_ERR_INVALID, "%s: the sweep's \"%s\" sets it too; set sweep.%s as well", label, here, here);
        }
    }
    return DT_OK;
}

/* Remove the axes of everything that `value`, now at `path`, sets. */
static dt_status drop_axes(struct cJSON *sweep, const char *path, const struct cJSON *value, const char *label)
{
    DT_TRY(drop_axis(sweep, "", path, label));
    for (const struct cJSON *member = cJSON_IsObject(value) ? value->child : NULL; member; member = member->next) {
        char inner[DT_CONFIG_PATH_BYTES];
        dt_config_join(path, member->string, inner);
        DT_TRY(drop_axes(sweep, inner, member, label));
    }
    return DT_OK;
}

/* The object called `key` in `parent`; made if there is none. */
static dt_status child_object(struct cJSON *parent, const char *key, const char *label, struct cJSON **out)
{
    *out = cJSON_GetObjectItemCaseSensitive(parent, key);
    if (!*out)
        *out = cJSON_AddObjectToObject(parent, key);
    DT_TRY(dt_allocated(*out, "%s: out of memory", label));
    if (!cJSON_IsObject(*out))
        return dt_fail(DT_ERR_INVALID, "%s: \"%s\" is not an object in the config", label, key);
    return DT_OK;
}

/* Put value at `key` of object, instead of the existing one. Owns value in any case. */
static dt_status put(struct cJSON *object, const char *key, struct cJSON *value, const char *label)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    if (cJSON_AddItemToObject(object, key, value))
        return DT_OK;
    cJSON_Delete(value);
    return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory", label);
}

/* PATH=null: the key gets its default again, and the sweep does not vary it. sweep.PATH=null
 * removes the axis. */
static dt_status reset_path(struct cJSON *object, const char *path, const char *label)
{
    struct cJSON *sweep = cJSON_GetObjectItemCaseSensitive(object, "sweep");
    const char *axis = rest_below(path, "sweep");
    if (!axis)
        dt_json_destroy(dt_json_take(object, path));
    else if (cJSON_IsObject(sweep) && strcmp(axis, DT_SWEEP_CASES) == 0)
        cJSON_DeleteItemFromObjectCaseSensitive(sweep, axis);
    return cJSON_IsObject(sweep) ? drop_axis(sweep, "", axis ? axis : path, label) : DT_OK;
}

/* sweep.PATH=[...]: the axis is kept under its dotted path. The sweep's reader checks the list. */
static dt_status set_axis(const struct dt_table *table, struct cJSON *object, const char *path, const char *text, const char *label)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *value = NULL;
    struct cJSON *sweep = NULL;
    DT_TRY(parse_assigned(NULL, text, label, &value));
    if (!cJSON_IsArray(value))
        return dt_fail(DT_ERR_INVALID, "%s: a sweep takes a list, as in sweep.paradigm=[\"ddp\",\"fsdp\"]", label);
    DT_TRY(child_object(object, "sweep", label, &sweep));
    if (strcmp(path, DT_SWEEP_CASES) != 0)
        DT_TRY(drop_axis(sweep, "", path, label));
    take_out_replaced(table, object, path);
    return put(sweep, path, DT_PASSED_ON(value), label);
}

static dt_status set_path(const struct dt_table *table, struct cJSON *object, const char *path, const char *text, const char *label)
{
    char read_label[DT_CONFIG_LABEL_BYTES + DT_CONFIG_PATH_BYTES];
    int index = dt_config_find(table, path);
    DT_DESTROYED(dt_json_destroy) struct cJSON *value = NULL;
    struct cJSON *parent = object, *sweep = cJSON_GetObjectItemCaseSensitive(object, "sweep");
    DT_TRY(parse_assigned(index >= 0 ? &table->fields[index] : NULL, text, label, &value));
    /* Errors inside an object value name the path in it; for fields the path is in the
     * assignment. */
    snprintf(read_label, sizeof read_label, "%s%s%s", label, index >= 0 ? "" : ": ", index >= 0 ? "" : path);
    DT_TRY(dt_config_read_at(table, path, value, read_label, NULL, NULL));
    if (cJSON_IsObject(sweep))
        DT_TRY(drop_axes(sweep, path, value, label));
    for (struct cJSON *one = cJSON_IsArray(sweep) ? sweep->child : NULL; one; one = one->next)
        if (cJSON_IsObject(one)) /* for a list of experiments */
            DT_TRY(drop_axes(one, path, value, label));
    take_out_replaced(table, object, path);
    const char *key = path;
    for (const char *dot; (dot = strchr(key, '.')) != NULL; key = dot + 1) {
        char name[DT_CONFIG_PATH_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)(dot - key), key);
        DT_TRY(child_object(parent, name, label, &parent));
    }
    return put(parent, key, DT_PASSED_ON(value), label);
}

dt_status dt_config_set(const struct dt_table *table, struct cJSON *object, const char *assignment)
{
    char label[128], path[DT_CONFIG_PATH_BYTES], prefix[DT_CONFIG_PATH_BYTES];
    size_t bytes = strcspn(assignment, "=");
    int cut = (int)strlen(assignment) > 80 ? 77 : 80;
    snprintf(label, sizeof label, "--set %.*s%s", cut, assignment, cut < 80 ? "..." : "");
    if (bytes == 0 || assignment[bytes] == 0)
        return dt_fail(DT_ERR_INVALID, "%s: expected PATH=VALUE, as in model.dtype=bf16", label);
    if (bytes >= sizeof path)
        return dt_fail(DT_ERR_INVALID, "%s: unknown key", label);
    snprintf(path, sizeof path, "%.*s", (int)bytes, assignment);
    const char *text = assignment + bytes + 1, *axis = rest_below(path, "sweep"), *known = axis ? axis : path;

    if (strcmp(path, "sweep") == 0) {
        struct cJSON *value;
        DT_TRY(parse_assigned(NULL, text, label, &value));
        return put(object, "sweep", value, label);
    }
    bool cases = axis && strcmp(axis, DT_SWEEP_CASES) == 0;
    if (!cases && (*known == 0 || !dt_config_is_known(table, known))) {
        const char *dot = strrchr(known, '.');
        snprintf(prefix, sizeof prefix, "%.*s", dot ? (int)(dot - known) : 0, known);
        if (dot && dt_config_is_object(table, prefix))
            return dt_config_fail_unknown(table, prefix, dot + 1, label);
        return dt_config_fail_unknown(table, "", known, label);
    }
    if (strcmp(text, "null") == 0)
        return reset_path(object, path, label);
    return axis ? set_axis(table, object, axis, text, label) : set_path(table, object, path, text, label);
}
