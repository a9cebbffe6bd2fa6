#include "lib/config/schema.h"

#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 2 * DT_CONFIG_PATH_BYTES };

/* Characters that dt_is_printable refuses, except U+E0000 to U+E007F, which dialects of patterns
 * write differently. */
static const char not_printable[] = "[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
                                    "\\ufff9-\\ufffb]";

/* ---- parts of all schemas ---- */

static cJSON *described(const char *description)
{
    return description ? dt_json_object("description: %s", description) : cJSON_CreateObject();
}

static cJSON *reference(const char *definition, const char *suffix)
{
    char to[NAME_BYTES];
    snprintf(to, sizeof to, "#/$defs/%s%s", definition, suffix);
    return dt_json_object("$ref: %s", to);
}

static cJSON *list_of(cJSON *item)
{
    return dt_json_object("type: %s, minItems: %d, items: %p", "array", 1, item);
}

/* An object with only these keys; `by`: "properties", or "patternProperties". */
static cJSON *object_of(const char *by, cJSON *keys)
{
    return dt_json_object("type: %s, additionalProperties: %hhd, %s: %p", "object", (bool)false, by, keys);
}

static cJSON *two(cJSON *first, cJSON *second)
{
    cJSON *both = cJSON_CreateArray();
    dt_json_append(&both, first);
    dt_json_append(&both, second);
    return both;
}

/* Move all members of `from`, which it owns. */
static void add_members(cJSON **to, cJSON *from)
{
    while (from && from->child) {
        cJSON *member = cJSON_DetachItemViaPointer(from, from->child);
        dt_json_add(to, "%s: %p", member->string, member);
    }
    cJSON_Delete(from);
}

/* The field's settings by their names; whole: by their whole paths. */
static cJSON *settings_of(const struct dt_field *field, bool whole, cJSON *value)
{
    char names[NAME_BYTES];
    snprintf(names, sizeof names, "^%s%s%s[A-Z0-9_]{1,%zu}$", whole ? field->path : "", whole ? "\\." : "", field->prefix,
             DT_CONFIG_SETTING_NAME_BYTES - strlen(field->prefix));
    return dt_json_object("%s: %p", names, value);
}

/* ---- fields ---- */

/* Append the choices; as_lists: "a-b-c" as ["a", "b", "c"]. */
static void append_choices(cJSON **to, const struct dt_field *field, bool as_lists)
{
    for (int i = 0; dt_field_choice(field, i); i++)
        dt_json_append(to, as_lists ? dt_json_words(dt_field_choice(field, i), "-") : dt_json_text(dt_field_choice(field, i)));
}

/* A list of choices, or the same as one word. */
static cJSON *choice_words(const struct dt_field *field, cJSON *choices)
{
    char any[DT_FIELD_TEXT_BYTES] = "", pattern[3 * DT_FIELD_TEXT_BYTES];
    for (int i = 0; dt_field_choice(field, i); i++)
        dt_append(any, sizeof any, "|", "%s", dt_field_choice(field, i));
    snprintf(pattern, sizeof pattern, "^(%s)(-(%s)){0,%d}$", any, any, field->words - 1);
    return two(dt_json_object("type: %s, minItems: %d, maxItems: %d, items: {enum: %p}", "array", 1, field->words, choices),
               dt_json_object("type: %s, pattern: %s", "string", pattern));
}

static cJSON *choices_schema(const struct dt_field *field)
{
    char ending[64];
    cJSON *choices = cJSON_CreateArray(), *numbers;
    append_choices(&choices, field, false);
    if (field->words)
        return dt_json_object("oneOf: %p", choice_words(field, choices));
    if (field->list) {
        append_choices(&choices, field, true);
        return dt_json_object("enum: %p", choices);
    }
    if (field->most_numbers > 0) {
        numbers = dt_json_object("type: %s, minItems: %d, maxItems: %d, items: {type: %s, minimum: %g, maximum: %g}", "array", 1,
                                 field->most_numbers, "integer", field->min, field->max);
        return dt_json_object("anyOf: %p", two(dt_json_object("enum: %p", choices), numbers));
    }
    if (!field->file_ending)
        return dt_json_object("type: %s, enum: %p", "string", choices);
    snprintf(ending, sizeof ending, ".\\%s$", field->file_ending);
    return dt_json_object("type: %s, anyOf: %p", "string", two(dt_json_object("enum: %p", choices), dt_json_object("pattern: %s", ending)));
}

static cJSON *number_schema(const struct dt_field *field)
{
    cJSON *range = dt_json_object(
        "type: %s, %s: %g, %s: %g", field->kind == DT_FIELD_INT || field->kind == DT_FIELD_U64 ? "integer" : "number",
        field->above ? "exclusiveMinimum" : "minimum", field->min, field->below ? "exclusiveMaximum" : "maximum", field->max);
    return field->word ? dt_json_object("anyOf: %p", two(dt_json_object("const: %s", field->word), range)) : range;
}

static cJSON *type_schema(const struct dt_field *field)
{
    switch (field->kind) {
    case DT_FIELD_BOOL:
        return field->max > 0 ? dt_json_object("type: %s", "boolean") : dt_json_object("type: %s, const: %hhd", "boolean", (bool)false);
    case DT_FIELD_SETTINGS: return object_of("patternProperties", settings_of(field, false, reference(field->path, "_setting")));
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
        return dt_json_object("type: %s, minLength: %g, maxLength: %g, not: {pattern: %s}", "string", field->min, field->max,
                              not_printable);
    case DT_FIELD_ENUM: break; /* has choices */
    case DT_FIELD_INT:
    case DT_FIELD_U64:
    case DT_FIELD_NUMBER:
    case DT_FIELD_FLOAT: return number_schema(field);
    }
    return NULL;
}

static cJSON *field_schema(const struct dt_field *field)
{
    cJSON *schema = described(field->description), *type = dt_field_has_choices(field) ? choices_schema(field) : type_schema(field);
    if (dt_field_has_choices(field) && field->booleans)
        type = dt_json_object("anyOf: %p", two(dt_json_object("type: %s", "boolean"), type));
    add_members(&schema, type);
    if (field->initial)
        dt_json_add(&schema, "default: %p", cJSON_Parse(field->initial));
    return schema;
}

/* ---- objects ---- */

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Whether `path` is a key of the object at `prefix` itself, not of an object in it. */
static bool is_key_of(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);
    const char *key = bytes ? path + bytes + 1 : path;
    return strlen(path) > bytes && strncmp(path, prefix, bytes) == 0 && (!bytes || path[bytes] == '.') && !strchr(key, '.');
}

/* Whether the key at `path` must be in its object, if that exists. An object must exist if a key in
 * it is always required. */
static bool is_required(const struct dt_table *table, const char *path)
{
    size_t bytes = strlen(path);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (strcmp(field->path, path) == 0)
            return dt_field_requirement(table, field) != DT_OPTIONAL;
        if (strncmp(field->path, path, bytes) == 0 && field->path[bytes] == '.' && dt_field_requirement(table, field) == DT_REQUIRED)
            return true;
    }
    return false;
}

static cJSON *object_schema(cJSON *object, const struct dt_schema *schema, const char *prefix);

static cJSON *part_schema(const struct dt_schema_part *part)
{
    cJSON *object = described(part->description);
    if (part->list) {
        const struct dt_schema entry = {.table = part->list()->table};
        dt_json_add(&object, "type: %s, maxItems: %d, items: %p", "array", part->list()->max,
                    object_schema(cJSON_CreateObject(), &entry, ""));
    } else {
        add_members(&object, cJSON_Parse(part->schema));
    }
    return object;
}

/* The schema of the key at `path`: written out, or if a sweep needs it, too, a reference to its
 * definition. */
static cJSON *key_schema(const struct dt_schema *schema, const char *path)
{
    int index = dt_config_find(schema->table, path);
    if (schema->sweeps)
        return reference(path, "");
    return index >= 0 ? field_schema(&schema->table->fields[index]) : object_schema(cJSON_CreateObject(), schema, path);
}

/* Add the schema of the object at `prefix` to `object`, and return it. */
static cJSON *object_schema(cJSON *object, const struct dt_schema *schema, const char *prefix)
{
    const struct dt_schema_section none = {0}, *section = schema->sections ? schema->sections : &none;
    char path[DT_CONFIG_PATH_BYTES];
    cJSON *keys = cJSON_CreateObject(), *required = cJSON_CreateArray();
    while (section->path && strcmp(section->path, prefix) != 0)
        section++;
    if (!*prefix)
        dt_json_add(&keys, DT_CONFIG_SCHEMA ": {description: %s}", "Where this schema is: for editors, and not read.");
    for (int row = 0; dt_config_next_key(schema->table, prefix, &row, path);) {
        dt_json_add(&keys, "%s: %p", last_word(path), key_schema(schema, path));
        if (is_required(schema->table, path))
            dt_json_append(&required, dt_json_text(last_word(path)));
    }
    for (const struct dt_schema_part *part = schema->parts; part && part->path; part++) {
        if (!is_key_of(part->path, prefix))
            continue;
        dt_json_add(&keys, "%s: %p", last_word(part->path), part_schema(part));
        if (part->required)
            dt_json_append(&required, dt_json_text(last_word(part->path)));
    }
    if (schema->sweeps && !*prefix)
        dt_json_add(&keys, "sweep: %p", reference("sweep", ""));
    if (section->description)
        dt_json_add(&object, "description: %s", section->description);
    dt_json_add(&object, "type: %s, additionalProperties: %hhd", "object", (bool)false);
    if (cJSON_GetArraySize(required) > 0)
        dt_json_add(&object, "required: %p", required);
    else
        cJSON_Delete(required);
    dt_json_add(&object, "properties: %p", keys);
    if (section->rules)
        add_members(&object, cJSON_Parse(section->rules));
    return object;
}

/* ---- sweeps ---- */

static cJSON *values_of(const char *definition, const char *suffix)
{
    return list_of(reference(definition, suffix));
}

/* An axis for one field: a list of its values, or of settings by name. */
static cJSON *field_axis(const struct dt_field *field)
{
    cJSON *values = values_of(field->path, "");
    if (field->kind != DT_FIELD_SETTINGS)
        return values;
    return dt_json_object("oneOf: %p",
                          two(values, object_of("patternProperties", settings_of(field, false, values_of(field->path, "_setting")))));
}

/* The axes in the object at `prefix`; for inner objects: a list of whole objects, or an object of
 * lists. */
static void add_axes(cJSON **to, const struct dt_table *table, const char *prefix)
{
    char path[DT_CONFIG_PATH_BYTES];
    for (int row = 0; dt_config_next_key(table, prefix, &row, path);) {
        int index = dt_config_find(table, path);
        if (index >= 0) {
            dt_json_add(to, "%s: %p", last_word(path), field_axis(&table->fields[index]));
            continue;
        }
        cJSON *inner = cJSON_CreateObject();
        add_axes(&inner, table, path);
        dt_json_add(to, "%s: {oneOf: %p}", last_word(path), two(values_of(path, ""), object_of("properties", inner)));
    }
}

/* A reference to the definition of each key of the whole config. */
static cJSON *references(const struct dt_table *table)
{
    char path[DT_CONFIG_PATH_BYTES];
    cJSON *keys = cJSON_CreateObject();
    for (int row = 0; dt_config_next_key(table, "", &row, path);)
        dt_json_add(&keys, "%s: %p", path, reference(path, ""));
    return keys;
}

static cJSON *sweep_schema(const struct dt_table *table)
{
    cJSON *settings = cJSON_CreateObject();
    cJSON *axes = dt_json_object(
        DT_SWEEP_CASES ": {type: %s, minItems: %d, items: {type: %s, not: {required: %p}, additionalProperties: %hhd, properties: %p}}",
        "array", 1, "object", dt_json_words("sweep", " "), (bool)false, references(table));
    add_axes(&axes, table, "");
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (field->kind == DT_FIELD_SETTINGS)
            add_members(&settings, settings_of(field, true, values_of(field->path, "_setting")));
        if (strchr(field->path, '.'))
            dt_json_add(&axes, "%s: %p", field->path, field_axis(field));
    }
    return dt_json_object(
        "description: %s, oneOf: %p",
        "Lists whose product is run, the first outermost. Paths are dotted or nested; objects in a list are merged into the config's own. "
        "Or a list of experiments: objects that are merged into the config.",
        two(list_of(object_of("properties", references(table))),
            dt_json_object("type: %s, additionalProperties: %hhd, patternProperties: %p, properties: %p", "object", (bool)false, settings,
                           axes)));
}

/* Definitions of the objects of fields in the object at `prefix`, and of those in them. */
static void add_object_definitions(cJSON **to, const struct dt_schema *schema, const char *prefix)
{
    char path[DT_CONFIG_PATH_BYTES];
    for (int row = 0; dt_config_next_key(schema->table, prefix, &row, path);) {
        if (dt_config_find(schema->table, path) >= 0)
            continue;
        dt_json_add(to, "%s: %p", path, object_schema(cJSON_CreateObject(), schema, path));
        add_object_definitions(to, schema, path);
    }
}

/* Definitions that the config and its sweep both refer to: each field, each object of fields, and
 * the sweep itself. */
static cJSON *definitions(const struct dt_schema *schema)
{
    const struct dt_table *table = schema->table;
    cJSON *all = cJSON_CreateObject();
    char name[NAME_BYTES];
    for (int i = 0; i < table->count; i++) {
        dt_json_add(&all, "%s: %p", table->fields[i].path, field_schema(&table->fields[i]));
        if (table->fields[i].kind != DT_FIELD_SETTINGS)
            continue;
        snprintf(name, sizeof name, "%s_setting", table->fields[i].path); /* see lib/config/settings.c */
        dt_json_add(&all, "%s: {description: %s, type: %p, minLength: %d, maxLength: %d, not: {type: %s, pattern: %s}}", name,
                    "What the environment variable is set to: 1 for true, 0 for false.", dt_json_words("string number boolean", " "), 1,
                    DT_CONFIG_SETTING_CHARACTERS, "string", not_printable);
    }
    add_object_definitions(&all, schema, "");
    dt_json_add(&all, "sweep: %p", sweep_schema(table));
    return all;
}

dt_status dt_schema_make(const struct dt_schema *schema, struct cJSON **out)
{
    *out = dt_json_object("$schema: %s, title: %s", "https://json-schema.org/draft/2020-12/schema", schema->title);
    *out = object_schema(*out, schema, "");
    if (schema->sweeps)
        dt_json_add(out, "$defs: %p", definitions(schema));
    return dt_allocated(*out, "out of memory while writing a schema");
}
