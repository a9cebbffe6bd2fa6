#include "lib/config/config.h"

#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void store(const struct dt_field *field, void *target, const void *value, size_t bytes)
{
    if (target)
        memcpy((char *)target + field->offset, value, bytes);
}

static dt_status read_number(const struct dt_field *field, const struct cJSON *value, const char *label, void *target)
{
    bool is_word = field->word && cJSON_IsString(value) && strcmp(value->valuestring, field->word) == 0;
    if (is_word) {
        store(field, target, &field->word_number, sizeof field->word_number);
        return DT_OK;
    }
    if (!cJSON_IsNumber(value))
        return dt_config_fail_type(field, value, label);
    double number = value->valuedouble;
    bool whole = field->kind == DT_FIELD_INT || field->kind == DT_FIELD_U64;
    if (whole && number != floor(number))
        return dt_config_fail_range(field, value, label);
    if (!(field->above ? number > field->min : number >= field->min) || !(field->below ? number < field->max : number <= field->max))
        return dt_config_fail_range(field, value, label);
    int as_int = field->kind == DT_FIELD_INT ? (int)number : 0;
    uint64_t as_u64 = field->kind == DT_FIELD_U64 ? (uint64_t)number : 0;
    float as_float = (float)number;
    switch (field->kind) {
    case DT_FIELD_INT: store(field, target, &as_int, sizeof as_int); break;
    case DT_FIELD_U64: store(field, target, &as_u64, sizeof as_u64); break;
    case DT_FIELD_FLOAT: /* rounding must not carry it out of an open range:
                            0.99999999999 is no float below 1 */
        if ((field->below && as_float >= (float)field->max) || (field->above && as_float <= (float)field->min))
            return dt_config_fail_range(field, value, label);
        store(field, target, &as_float, sizeof as_float);
        break;
    case DT_FIELD_NUMBER: store(field, target, &number, sizeof number); break;
    case DT_FIELD_BOOL:
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_ENUM:
    case DT_FIELD_SETTINGS: break; /* not numbers */
    }
    return DT_OK;
}

/* Join ["a", "b", "c"] to "a-b-c"; a value that is not a word becomes one that is no choice. */
static dt_status join_words(const struct cJSON *list, const char *label, struct cJSON **out)
{
    char text[1024];
    text[0] = 0;
    for (const struct cJSON *word = list->child; word; word = word->next) {
        bool is_word = cJSON_IsString(word) && *word->valuestring && !strchr(word->valuestring, '-');
        dt_append(text, sizeof text, "-", "%s", is_word ? word->valuestring : "?");
    }
    *out = cJSON_CreateString(text);
    return dt_allocated(*out, "%s: out of memory", label);
}

/* [4, 8] as "4-8". */
static dt_status read_numbers(const struct dt_field *field, const struct cJSON *list, const char *label, void *target)
{
    enum { ROOM = DT_FIELD_TEXT_MOST + 2 }; /* one more than there may be */
    char item[DT_CONFIG_LABEL_BYTES + 16];
    DT_FREED char *text = calloc(1, ROOM);
    size_t used = 0;
    int index = 0;
    DT_TRY(dt_allocated(text, "%s: out of memory", label));
    if (!list->child || cJSON_GetArraySize(list) > field->most_numbers)
        return dt_fail(DT_ERR_INVALID, "%s: a list of %d numbers; expected 1 to %d", label, cJSON_GetArraySize(list), field->most_numbers);
    for (const struct cJSON *number = list->child; number && used < ROOM; number = number->next) {
        struct dt_field one = {.path = field->path, .kind = DT_FIELD_INT, .min = field->min, .max = field->max};
        snprintf(item, sizeof item, "%s[%d]", label, index++);
        DT_TRY(read_number(&one, number, item, NULL));
        used += (size_t)snprintf(text + used, ROOM - used, "%s%d", used ? "-" : "", (int)number->valuedouble);
    }
    return dt_config_store_text(field, text, label, target);
}

/* The reverse. */
static struct cJSON *numbers_of(const char *text)
{
    struct cJSON *list = cJSON_CreateArray();
    for (char *end; list && *text; text = *end == '-' ? end + 1 : end)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)strtol(text, &end, 10)));
    return list;
}

static bool is_file(const struct dt_field *field, const char *text)
{
    size_t ending = field->file_ending ? strlen(field->file_ending) : 0, length = strlen(text);
    return ending > 0 && length > ending && strcmp(text + length - ending, field->file_ending) == 0;
}

static int find_choice(const struct dt_field *field, const char *text, size_t length)
{
    for (int i = 0; dt_field_choice(field, i); i++)
        if (strlen(dt_field_choice(field, i)) == length && strncmp(dt_field_choice(field, i), text, length) == 0)
            return i;
    return -1;
}

/* Whether "a-b-a" consists of words that are choices. */
static bool are_choices(const struct dt_field *field, const char *text)
{
    for (int count = 1; count <= field->words; count++) {
        size_t length = strcspn(text, "-");
        if (find_choice(field, text, length) < 0)
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
    return false;
}

static dt_status read_string(const struct dt_field *field, const struct cJSON *value, const char *label, void *target)
{
    if (!cJSON_IsString(value))
        return dt_config_fail_type(field, value, label);
    const char *text = value->valuestring;
    int chosen = dt_field_has_choices(field) ? find_choice(field, text, strlen(text)) : -1;
    if (dt_field_has_choices(field) && chosen < 0 && !is_file(field, text) && !are_choices(field, text))
        return dt_config_fail_choice(field, value, label);
    if (field->kind == DT_FIELD_ENUM) {
        store(field, target, &chosen, sizeof chosen);
        return DT_OK;
    }
    double characters = 0;
    for (const char *c = text; *c; c++)
        characters += ((unsigned char)*c & 0xC0) != 0x80;
    if (!dt_is_printable(text))
        return dt_fail(DT_ERR_INVALID, "%s: control characters are not allowed here, nor characters without width or that reverse the text",
                       label);
    if (!dt_field_has_choices(field) && (characters < field->min || characters > field->max))
        return dt_config_fail_range(field, value, label);
    return dt_config_store_text(field, text, label, target);
}

static dt_status read_list(const struct dt_field *field, const struct cJSON *value, const char *label, void *target)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *joined = NULL;
    DT_TRY(join_words(value, label, &joined));
    return read_string(field, joined, label, target);
}

static dt_status read_boolean_choice(const struct dt_field *field, bool truth, void *target)
{
    const char *name = field->booleans[truth];
    int chosen = find_choice(field, name, strlen(name));
    store(field, target, &chosen, sizeof chosen);
    return DT_OK;
}

/* Check `value` against a row and store it in `target` (NULL: check only). */
static dt_status read_value(const struct dt_field *field, const struct cJSON *value, const char *label, void *target)
{
    if (field->booleans && cJSON_IsBool(value))
        return read_boolean_choice(field, cJSON_IsTrue(value), target);
    if ((field->list || field->words) && cJSON_IsArray(value))
        return read_list(field, value, label, target);
    if (field->most_numbers > 0 && cJSON_IsArray(value))
        return read_numbers(field, value, label, target);
    switch (field->kind) {
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_ENUM: return read_string(field, value, label, target);
    case DT_FIELD_BOOL: break;
    case DT_FIELD_SETTINGS: return dt_config_read_settings(field, NULL, value, label, target);
    case DT_FIELD_INT:
    case DT_FIELD_U64:
    case DT_FIELD_NUMBER:
    case DT_FIELD_FLOAT: return read_number(field, value, label, target);
    }
    if (!cJSON_IsBool(value))
        return dt_config_fail_type(field, value, label);
    bool truth = cJSON_IsTrue(value);
    if (truth > field->max)
        return dt_config_fail_range(field, value, label);
    store(field, target, &truth, sizeof truth);
    return DT_OK;
}

static dt_status read_member(const struct dt_table *table, const char *prefix, const struct cJSON *member, const char *label, void *target,
                             bool *given)
{
    char path[DT_CONFIG_PATH_BYTES], inner[DT_CONFIG_LABEL_BYTES];
    const char *key = member->string;
    dt_config_join(prefix, key, path);
    snprintf(inner, sizeof inner, "%s%s%s", label, *prefix ? "." : ": ", *key ? key : "\"\"");
    if (strchr(key, '.') && (dt_config_find(table, path) >= 0 || dt_config_is_object(table, path)))
        return dt_fail(DT_ERR_INVALID, "%s: a path of two keys; write an object inside an object", inner);
    if (!*key || strchr(key, '.') || (dt_config_find(table, path) < 0 && !dt_config_is_object(table, path)))
        return dt_config_fail_unknown(table, prefix, key, inner);
    return dt_config_read_at(table, path, member, inner, target, given);
}

dt_status dt_config_read_at(const struct dt_table *table, const char *path, const struct cJSON *value, const char *label, void *target,
                            bool *given)
{
    const char *setting = NULL;
    int index = dt_config_find(table, path);
    if (index < 0)
        index = dt_config_settings_above(table, path, &setting);
    if (index >= 0) {
        DT_TRY(setting ? dt_config_read_settings(&table->fields[index], setting, value, label, target)
                       : read_value(&table->fields[index], value, label, target));
        if (given)
            given[index] = true;
        return DT_OK;
    }
    if (!cJSON_IsObject(value))
        return dt_config_fail_object(table, path, value, label);
    struct dt_failures failures = {0};
    for (const cJSON *member = value->child; member; member = member->next)
        if (*path || (strcmp(member->string, "sweep") != 0 && strcmp(member->string, DT_CONFIG_SCHEMA) != 0))
            dt_failures_add(&failures, read_member(table, path, member, label, target, given));
    return dt_failures_end(&failures);
}

dt_status dt_config_read(const struct dt_table *table, const struct cJSON *object, const char *where, void *target, bool *given)
{
    return dt_config_read_at(table, "", object, where, target, given);
}

/* Whether any key is given of the object that contains `path`. */
static bool is_section_given(const struct dt_table *table, const bool *given, const char *path)
{
    const char *dot = strrchr(path, '.');
    size_t bytes = dot ? (size_t)(dot - path) + 1 : 0;
    for (int i = 0; i < table->count; i++)
        if (given[i] && strncmp(table->fields[i].path, path, bytes) == 0)
            return true;
    return false;
}

enum dt_requirement dt_field_requirement(const struct dt_table *table, const struct dt_field *field)
{
    if (table->complete)
        return field->initial ? DT_OPTIONAL : DT_REQUIRED;
    return field->required;
}

dt_status dt_config_check_required(const struct dt_table *table, const bool *given, const char *where)
{
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        enum dt_requirement required = dt_field_requirement(table, field);
        if (given[i] || required == DT_OPTIONAL)
            continue;
        if (required == DT_REQUIRED || is_section_given(table, given, field->path))
            return dt_config_fail_missing(field, where);
    }
    return DT_OK;
}

/* Set a value without a default to zero, or to an empty text. */
static void clear(const struct dt_field *field, void *target)
{
    memset((char *)target + field->offset, 0, field->kind == DT_FIELD_STRING ? 1 : field->size);
    if (field->kind == DT_FIELD_TEXT || field->kind == DT_FIELD_SETTINGS)
        (void)dt_config_store_text(field, "", "", target); /* an empty text needs no memory */
}

dt_status dt_config_defaults(const struct dt_table *table, void *target)
{
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (!field->initial) {
            clear(field, target);
            continue;
        }
        char label[DT_CONFIG_LABEL_BYTES];
        DT_DESTROYED(dt_json_destroy) struct cJSON *value = NULL;
        snprintf(label, sizeof label, "default of %s", field->path);
        DT_TRY(dt_json_parse(field->initial, strlen(field->initial), label, &value));
        DT_TRY(read_value(field, value, label, target));
    }
    return DT_OK;
}

static struct cJSON *value_of(const struct dt_field *field, const void *source)
{
    const char *at = (const char *)source + field->offset, *words = dt_field_text(field, source);
    bool truth;
    int as_int;
    uint64_t as_u64;
    double number;
    float as_float;
    char text[32];
    switch (field->kind) {
    case DT_FIELD_BOOL: memcpy(&truth, at, sizeof truth); return cJSON_CreateBool(truth);
    case DT_FIELD_INT: memcpy(&as_int, at, sizeof as_int); return cJSON_CreateNumber(as_int);
    case DT_FIELD_U64: memcpy(&as_u64, at, sizeof as_u64); return cJSON_CreateNumber((double)as_u64);
    case DT_FIELD_NUMBER:
        memcpy(&number, at, sizeof number);
        return field->word && number == field->word_number ? cJSON_CreateString(field->word) : cJSON_CreateNumber(number);
    case DT_FIELD_FLOAT: /* 0.1, and not 0.10000000149011612 */
        memcpy(&as_float, at, sizeof as_float);
        dt_format_float(as_float, text, sizeof text);
        return cJSON_CreateNumber(strtod(text, NULL));
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT: return field->most_numbers > 0 && isdigit((unsigned char)*words) ? numbers_of(words) : cJSON_CreateString(words);
    case DT_FIELD_SETTINGS: return *words ? cJSON_Parse(words) : cJSON_CreateObject();
    case DT_FIELD_ENUM: memcpy(&as_int, at, sizeof as_int); return cJSON_CreateString(dt_field_choice(field, as_int));
    }
    return NULL;
}

dt_status dt_config_write_value(const struct dt_field *field, const void *source, int style, char **out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *value = value_of(field, source);
    DT_TRY(dt_allocated(value, "out of memory while writing a config"));
    return dt_json_print(value, style, out);
}

bool dt_field_same(const struct dt_field *field, const void *left, const void *right)
{
    const char *a = (const char *)left + field->offset, *b = (const char *)right + field->offset;
    uint32_t half[2];
    if (field->size == sizeof *half) { /* most fields; in a large sweep this is called millions of times */
        memcpy(&half[0], a, sizeof *half);
        memcpy(&half[1], b, sizeof *half);
        return half[0] == half[1];
    }
    const char *text = dt_field_text(field, left);
    return memcmp(a, b, field->size) == 0 || (text && strcmp(text, dt_field_text(field, right)) == 0);
}

dt_status dt_config_write(const struct dt_table *table, const void *source, const bool *wanted, struct cJSON **out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *root = cJSON_CreateObject();
    for (int i = 0; i < table->count; i++) {
        if (wanted && !wanted[i])
            continue;
        const char *key;
        struct cJSON *object = dt_json_parent(root, table->fields[i].path, true, &key), *value = value_of(&table->fields[i], source);
        if (!value || !cJSON_AddItemToObject(object, key, value)) {
            cJSON_Delete(value);
            return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a config");
        }
    }
    *out = DT_PASSED_ON(root);
    return dt_allocated(*out, "out of memory while writing a config");
}

/* ---- lists ---- */

static dt_status read_entry(const struct dt_table *table, const struct cJSON *entry, const char *where, void *target)
{
    DT_FREED bool *given = calloc((size_t)table->count, sizeof *given);
    DT_TRY(dt_allocated(given, "%s: out of memory", where));
    DT_TRY(dt_config_read(table, entry, where, target, given));
    return dt_config_check_required(table, given, where);
}

dt_status dt_config_read_list(const struct dt_list *list, const struct cJSON *array, const char *where, void *target, int *count)
{
    char label[DT_CONFIG_LABEL_BYTES], quote[64];
    *count = 0;
    if (!array)
        return DT_OK;
    if (!cJSON_IsArray(array)) {
        dt_json_quote(array, quote, sizeof quote);
        return dt_fail(DT_ERR_INVALID, "%s: expected a list of objects, not %s", where, quote);
    }
    for (const struct cJSON *entry = array->child; entry; entry = entry->next) {
        if (*count == list->max)
            return dt_fail(DT_ERR_INVALID, "%s: expected a list of at most %d objects", where, list->max);
        void *at = (char *)target + (size_t)*count * list->stride;
        snprintf(label, sizeof label, "%s[%d]", where, *count);
        DT_TRY(dt_config_defaults(list->table, at));
        DT_TRY(read_entry(list->table, entry, label, at));
        ++*count;
    }
    return DT_OK;
}

dt_status dt_config_write_list(const struct dt_list *list, const void *source, int count, struct cJSON **out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < count; i++) {
        struct cJSON *entry;
        DT_TRY(dt_config_write(list->table, (const char *)source + (size_t)i * list->stride, NULL, &entry));
        dt_json_append(&array, entry);
    }
    *out = DT_PASSED_ON(array);
    return dt_allocated(*out, "out of memory while writing a list");
}
