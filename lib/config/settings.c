/* Fields that are maps: names of a kind, such as environment variables that begin with NCCL_, and a
 * value for each. */
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 4 * DT_CONFIG_SETTING_CHARACTERS + 1 };

static int characters(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static bool is_name(const struct dt_field *field, const char *name)
{
    size_t prefix = strlen(field->prefix), bytes = strlen(name);
    if (strncmp(name, field->prefix, prefix) != 0 || bytes == prefix || bytes > DT_CONFIG_SETTING_NAME_BYTES)
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == bytes;
}

/* The text for the environment: true is 1, and 2 is "2". */
static dt_status format_value(const struct cJSON *value, const char *label, char out[VALUE_BYTES])
{
    char quote[64];
    dt_json_quote(value, quote, sizeof quote);
    if (cJSON_IsBool(value))
        snprintf(out, VALUE_BYTES, "%d", cJSON_IsTrue(value));
    else if (cJSON_IsNumber(value))
        dt_format_double(value->valuedouble, out, VALUE_BYTES);
    else if (!cJSON_IsString(value))
        return dt_fail(DT_ERR_INVALID, "%s: expected a string, a number, or true or false, not %s", label, quote);
    else if (!*value->valuestring || characters(value->valuestring) > DT_CONFIG_SETTING_CHARACTERS)
        return dt_fail(DT_ERR_INVALID, "%s: %s is out of range; expected a string of 1 to %d characters", label, quote,
                       DT_CONFIG_SETTING_CHARACTERS);
    else
        snprintf(out, VALUE_BYTES, "%s", value->valuestring);
    for (const char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            return dt_fail(DT_ERR_INVALID, "%s: a control character is not allowed here", label);
    return DT_OK;
}

/* Insert name and value in the order of names, instead of an earlier value. */
static bool insert(struct cJSON *object, const char *name, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    const struct cJSON *own = cJSON_AddStringToObject(object, name, value);
    for (struct cJSON *member = object->child, *next; own && member && member != own; member = next) {
        next = member->next;
        if (strcmp(member->string, name) > 0)
            cJSON_AddItemToArray(object, cJSON_DetachItemViaPointer(object, member)); /* moved to the end; it keeps its name */
    }
    return own;
}

static dt_status add(const struct dt_field *field, struct cJSON *object, const char *name, const struct cJSON *value, const char *label)
{
    char text[VALUE_BYTES];
    if (!is_name(field, name))
        return dt_fail(DT_ERR_INVALID,
                       "%s: names here begin with %s, and go on with capital "
                       "letters, digits and underscores; at most %d bytes",
                       label, field->prefix, DT_CONFIG_SETTING_NAME_BYTES);
    DT_TRY(format_value(value, label, text));
    return dt_allocated(insert(object, name, text), "%s: out of memory", label);
}

static dt_status add_all(const struct dt_field *field, struct cJSON *object, const struct cJSON *value, const char *label)
{
    char inner[DT_CONFIG_LABEL_BYTES];
    if (!cJSON_IsObject(value))
        return dt_config_fail_type(field, value, label);
    for (const struct cJSON *member = value->child; member; member = member->next) {
        snprintf(inner, sizeof inner, "%s.%s", label, member->string);
        DT_TRY(add(field, object, member->string, member, inner));
    }
    return DT_OK;
}

static dt_status store(const struct dt_field *field, const struct cJSON *object, const char *label, void *target)
{
    DT_FREED char *text = NULL;
    if (!object->child)
        return dt_config_store_text(field, "", label, target);
    DT_TRY(dt_json_print(object, DT_JSON_COMPACT, &text));
    return strlen(text) <= DT_FIELD_TEXT_MOST
               ? dt_config_store_text(field, text, label, target)
               : dt_fail(DT_ERR_INVALID, "%s: the settings have more than %d bytes together", label, DT_FIELD_TEXT_MOST);
}

dt_status dt_config_read_settings(const struct dt_field *field, const char *name, const struct cJSON *value, const char *label,
                                  void *target)
{
    const char *text = target ? dt_field_text(field, target) : "";
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    if (*text)
        DT_TRY(dt_json_parse(text, strlen(text), label, &object));
    else if (!(object = cJSON_CreateObject()))
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory", label);
    DT_TRY(name ? add(field, object, name, value, label) : add_all(field, object, value, label));
    return store(field, object, label, target);
}
