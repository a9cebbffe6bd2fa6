/* Looking up paths in a table, and the messages about values that do not fit it. */
#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- looking up paths ---- */

void dt_config_join(const char *prefix, const char *key, char path[DT_CONFIG_PATH_BYTES])
{
    int bytes = snprintf(path, DT_CONFIG_PATH_BYTES, "%s%s%s", prefix, *prefix ? "." : "", key);
    if (bytes >= DT_CONFIG_PATH_BYTES)
        path[0] = '?';
}

int dt_config_find(const struct dt_table *table, const char *path)
{
    for (int i = 0; i < table->count; i++) /* in a large sweep this is called millions of times: most rows differ in their first letter */
        if (table->fields[i].path[0] == path[0] && strcmp(table->fields[i].path, path) == 0)
            return i;
    return -1;
}

bool dt_config_replaces(const struct dt_field *field, const char *path)
{
    for (const char *const *replaced = field->replaces; replaced && *replaced; replaced++) {
        size_t bytes = strlen(*replaced);
        if (strncmp(path, *replaced, bytes) == 0 && (path[bytes] == 0 || path[bytes] == '.'))
            return true;
    }
    return false;
}

bool dt_config_is_object(const struct dt_table *table, const char *path)
{
    size_t bytes = strlen(path);
    for (int i = 0; i < table->count; i++)
        if (bytes == 0 || (strncmp(table->fields[i].path, path, bytes) == 0 && table->fields[i].path[bytes] == '.'))
            return true;
    return false;
}

bool dt_config_next_key(const struct dt_table *table, const char *prefix, int *row, char path[DT_CONFIG_PATH_BYTES])
{
    size_t skip = *prefix ? strlen(prefix) + 1 : 0;
    for (; *row < table->count; ++*row) {
        const char *full = table->fields[*row].path;
        if (skip > 0 && (strncmp(full, prefix, skip - 1) != 0 || full[skip - 1] != '.'))
            continue;
        size_t bytes = skip + strcspn(full + skip, ".");
        snprintf(path, DT_CONFIG_PATH_BYTES, "%.*s", (int)bytes, full);
        while (*row < table->count && strncmp(table->fields[*row].path, path, bytes) == 0 && strchr(".", table->fields[*row].path[bytes]))
            ++*row;
        return true;
    }
    return false;
}

int dt_config_settings_above(const struct dt_table *table, const char *path, const char **out_name)
{
    for (int i = 0; i < table->count; i++) {
        size_t bytes = strlen(table->fields[i].path);
        if (table->fields[i].kind == DT_FIELD_SETTINGS && strncmp(path, table->fields[i].path, bytes) == 0 && path[bytes] == '.') {
            *out_name = path + bytes + 1;
            return i;
        }
    }
    return -1;
}

bool dt_config_is_known(const struct dt_table *table, const char *path)
{
    const char *name;
    return dt_config_find(table, path) >= 0 || dt_config_is_object(table, path) || dt_config_settings_above(table, path, &name) >= 0;
}

/* ---- messages ---- */

enum { QUOTE_BYTES = 64, LIST_BYTES = DT_FIELD_TEXT_BYTES };

static const char *type_name(const struct cJSON *value)
{
    return cJSON_IsObject(value)   ? "an object"
           : cJSON_IsArray(value)  ? "a list"
           : cJSON_IsString(value) ? "a string"
           : cJSON_IsNumber(value) ? "a number"
           : cJSON_IsBool(value)   ? "true or false"
                                   : "null";
}

static void list_choices(const struct dt_field *field, char list[LIST_BYTES])
{
    list[0] = 0;
    for (int i = 0; dt_field_choice(field, i); i++)
        dt_append(list, LIST_BYTES, ", ", "%s", dt_field_choice(field, i));
    if (field->most_numbers > 0)
        dt_append(list, LIST_BYTES, ", ", "a list of integers from %.0f to %.0f", field->min, field->max);
    if (field->file_ending)
        dt_append(list, LIST_BYTES, ", ", "a file whose name ends in %s", field->file_ending);
}

/* "an integer from 1 to 64", "a number above 0, up to 1", "one of a, b" */
void dt_field_describe(const struct dt_field *field, char text[DT_FIELD_TEXT_BYTES])
{
    char min[32], max[32], names[LIST_BYTES];
    dt_format_double(field->min, min, sizeof min);
    dt_format_double(field->max, max, sizeof max);
    if (dt_field_has_choices(field)) {
        list_choices(field, names);
        snprintf(text, LIST_BYTES, field->words ? "a list of %.380s" : "one of %.380s", names);
        return;
    }
    switch (field->kind) {
    case DT_FIELD_BOOL: snprintf(text, LIST_BYTES, "true or false"); break;
    case DT_FIELD_SETTINGS: snprintf(text, LIST_BYTES, "an object of settings whose names begin with %s", field->prefix); break;
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
        if (field->min > 0)
            snprintf(text, LIST_BYTES, "a string of %s to %s characters", min, max);
        else
            snprintf(text, LIST_BYTES, "a string of at most %s characters", max);
        break;
    case DT_FIELD_ENUM: *text = 0; break; /* has choices */
    case DT_FIELD_INT:
    case DT_FIELD_U64:
    case DT_FIELD_NUMBER:
    case DT_FIELD_FLOAT:
        snprintf(text, LIST_BYTES, "%s %s %s %s %s", field->kind == DT_FIELD_INT || field->kind == DT_FIELD_U64 ? "an integer" : "a number",
                 field->above ? "above" : "from", min,
                 field->below   ? "to below"
                 : field->above ? "and up to"
                                : "to",
                 max);
        if (field->word)
            dt_append(text, LIST_BYTES, ", or ", "\"%s\"", field->word);
    }
}

dt_status dt_config_fail_missing(const struct dt_field *field, const char *where)
{
    char wanted[LIST_BYTES];
    dt_field_describe(field, wanted);
    return dt_fail(DT_ERR_INVALID, "%s: %s: missing; expected %s (%s)", where, field->path, wanted, field->description);
}

dt_status dt_config_fail_type(const struct dt_field *field, const struct cJSON *value, const char *label)
{
    char quote[QUOTE_BYTES], wanted[LIST_BYTES];
    dt_json_quote(value, quote, sizeof quote);
    dt_field_describe(field, wanted);
    if (cJSON_IsBool(value) || cJSON_IsNull(value))
        return dt_fail(DT_ERR_INVALID, "%s: expected %s, not %s", label, wanted, quote);
    return dt_fail(DT_ERR_INVALID, "%s: %s is %s; expected %s", label, quote, type_name(value), wanted);
}

dt_status dt_config_fail_range(const struct dt_field *field, const struct cJSON *value, const char *label)
{
    char quote[QUOTE_BYTES], wanted[LIST_BYTES];
    dt_json_quote(value, quote, sizeof quote);
    dt_field_describe(field, wanted);
    bool fraction = (field->kind == DT_FIELD_INT || field->kind == DT_FIELD_U64) && value->valuedouble != floor(value->valuedouble);
    return dt_fail(DT_ERR_INVALID, "%s: %s is %s; expected %s", label, quote, fraction ? "not an integer" : "out of range", wanted);
}

/* If a choice is like the wrong one, longer lists are left out of the message. */
enum { MOST_CHOICES = 24 };

dt_status dt_config_fail_choice(const struct dt_field *field, const struct cJSON *value, const char *label)
{
    char quote[QUOTE_BYTES], names[LIST_BYTES], hint[128] = "";
    const char *text = value->valuestring, *nearest = NULL;
    dt_json_quote(value, quote, sizeof quote);
    for (const struct dt_refused_choice *r = field->refused; r && r->name; r++)
        if (strcmp(r->name, text) == 0)
            return dt_fail(DT_ERR_INVALID, "%s: %s is not supported by this version; use \"%s\"", label, quote, r->instead);
    for (int i = 0; dt_field_choice(field, i); i++)
        if (dt_looks_like(text, dt_field_choice(field, i)) &&
            (!nearest || dt_edit_distance(text, dt_field_choice(field, i)) < dt_edit_distance(text, nearest)))
            nearest = dt_field_choice(field, i);
    if (nearest)
        snprintf(hint, sizeof hint, "; did you mean \"%s\"?", nearest);
    int count = 0;
    while (dt_field_choice(field, count))
        count++;
    if (nearest && count > MOST_CHOICES)
        return dt_fail(DT_ERR_INVALID, "%s: %s is none of %d known names%s", label, quote, count, hint);
    list_choices(field, names);
    return dt_fail(DT_ERR_INVALID, "%s: %s is not %s %s%s", label, quote, field->words ? "a list of" : "one of", names, hint);
}

/* For an object with more than MOST_KEYS keys, a message names only the nearest ones. */
enum { MOST_KEYS = 8, NEAREST_KEYS = 3 };

/* List the keys that may be in the object at `prefix`, or the first few of many. Returns their
 * number. */
static int list_keys(const struct dt_table *table, const char *prefix, char list[LIST_BYTES])
{
    char path[DT_CONFIG_PATH_BYTES], few[LIST_BYTES] = "";
    int count = 0;
    list[0] = 0;
    for (int row = 0; dt_config_next_key(table, prefix, &row, path);) {
        dt_append(list, LIST_BYTES, ", ", "%s", path + (*prefix ? strlen(prefix) + 1 : 0));
        if (++count == NEAREST_KEYS)
            snprintf(few, sizeof few, "%s", list);
    }
    if (count > MOST_KEYS)
        snprintf(list, LIST_BYTES, "%.380s, ...", few);
    return count;
}

/* The key in the object at `prefix` that is most similar to `key` and has at least the distance
 * `above`; -1: none. *distance gets its distance. */
static int nearest_key(const struct dt_table *table, const char *prefix, const char *key, int above, int *distance,
                       char path[DT_CONFIG_PATH_BYTES])
{
    char each[DT_CONFIG_PATH_BYTES];
    int best = -1, number = 0;
    for (int row = 0; dt_config_next_key(table, prefix, &row, each); number++) {
        const char *last = each + (*prefix ? strlen(prefix) + 1 : 0);
        int missing = abs((int)strlen(key) - (int)strlen(last));
        if (best >= 0 && 1000 * missing + number >= *distance) /* not nearer, whatever the letters are */
            continue;
        /* the number makes distances different, and earlier keys nearer */
        int its = 1000 * dt_edit_distance(key, last) + number;
        if (its < above || (best >= 0 && its >= *distance))
            continue;
        best = number;
        *distance = its;
        memcpy(path, each, sizeof each);
    }
    return best;
}

static void list_nearest(const struct dt_table *table, const char *prefix, const char *key, char list[LIST_BYTES])
{
    char path[DT_CONFIG_PATH_BYTES];
    int above = 0, distance = 0;
    list[0] = 0;
    for (int i = 0; i < NEAREST_KEYS && nearest_key(table, prefix, key, above, &distance, path) >= 0; i++) {
        dt_append(list, LIST_BYTES, ", ", "%s", path + (*prefix ? strlen(prefix) + 1 : 0));
        above = distance + 1;
    }
}

dt_status dt_config_fail_object(const struct dt_table *table, const char *path, const struct cJSON *value, const char *label)
{
    char quote[QUOTE_BYTES], keys[LIST_BYTES];
    dt_json_quote(value, quote, sizeof quote);
    list_keys(table, path, keys);
    return dt_fail(DT_ERR_INVALID, "%s: expected an object with %s, not %s", label, keys, quote);
}

/* The distance of `key` in the object at `prefix` from the row `path`: by the whole key in the same
 * object, by the last word elsewhere. */
static int distance_to(const char *path, const char *prefix, const char *key)
{
    const char *last = strrchr(path, '.');
    char first[64];
    size_t skip = strlen(prefix);
    int distance = 1000;
    if (!skip) { /* a path of two keys, or the name of an object */
        if (dt_looks_like(key, path))
            distance = 2 * dt_edit_distance(key, path);
        snprintf(first, sizeof first, "%.*s", (int)strcspn(path, "."), path);
        if (last && dt_looks_like(key, first))
            distance = 2 * dt_edit_distance(key, first);
    } else if (strncmp(path, prefix, skip) == 0 && path[skip] == '.' && dt_looks_like(key, path + skip + 1)) {
        distance = 2 * dt_edit_distance(key, path + skip + 1);
    }
    last = last ? last + 1 : path;
    if (dt_looks_like(key, last) && dt_edit_distance(key, last) <= 1) { /* the right word, the wrong object: prefer a key of this one */
        int elsewhere = 2 * dt_edit_distance(key, last) + 1;
        distance = elsewhere < distance ? elsewhere : distance;
    }
    return distance;
}

dt_status dt_config_fail_unknown(const struct dt_table *table, const char *prefix, const char *key, const char *label)
{
    char keys[LIST_BYTES], known[DT_CONFIG_PATH_BYTES];
    const char *nearest = NULL;
    int least = 1000;
    for (int i = 0; i < table->count; i++) {
        int distance = distance_to(table->fields[i].path, prefix, key);
        if (distance < least) {
            least = distance;
            nearest = table->fields[i].path;
        }
    }
    int from_sweep = *prefix ? 0 : 2 * dt_edit_distance(key, "sweep"); /* the only key that is in no table */
    if (from_sweep > 0 && from_sweep < least && dt_looks_like(key, "sweep"))
        return dt_fail(DT_ERR_INVALID, "%s: unknown key; did you mean \"sweep\"?", label);
    if (nearest) {
        /* A key that is similar to an object's name means the object. */
        int bytes = (int)strcspn(nearest, ".");
        snprintf(known, sizeof known, "%.*s", bytes, nearest);
        if (*prefix || !dt_looks_like(key, known) || 2 * dt_edit_distance(key, known) > least)
            snprintf(known, sizeof known, "%s", nearest);
        return dt_fail(DT_ERR_INVALID, "%s: unknown key; did you mean \"%s\"?", label, known);
    }
    if (list_keys(table, prefix, keys) > MOST_KEYS) {
        list_nearest(table, prefix, key, keys);
        return dt_fail(DT_ERR_INVALID, "%s: unknown key; the nearest are %s", label, keys);
    }
    return dt_fail(DT_ERR_INVALID, "%s: unknown key; known %s%s: %s", label, *prefix ? "in " : "here", prefix, keys);
}
