#include "lib/config/schema.h"

#include "lib/base/text.h"
#include "lib/config/internal.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that dt_is_printable refuses, except U+E0000 to U+E007F, which dialects of patterns
 * write differently. */
#define NOT_PRINTABLE                                                                                                                      \
    "\"pattern\":\"[\\\\u0000-\\\\u001f\\\\u007f-\\\\u009f\\\\u061c\\\\u200b-\\\\u200f\\\\u2028-\\\\u202e\\\\u2060-\\\\u206f\\\\ufeff"     \
    "\\\\ufff9-\\\\ufffb]\""

static void write_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static void write_description(FILE *to, const char *description)
{
    if (!description)
        return;
    fputs("\"description\":", to);
    write_string(to, description);
    fputc(',', to);
}

/* "NCCL_[A-Z0-9_]{1,58}": the names of settings, for a pattern. */
static const char *setting_names(const struct dt_field *field, char text[128])
{
    snprintf(text, 128, "%s[A-Z0-9_]{1,%zu}", field->prefix, DT_CONFIG_SETTING_NAME_BYTES - strlen(field->prefix));
    return text;
}

static void write_settings(FILE *to, const struct dt_field *field)
{
    char names[128];
    fprintf(to, "\"type\":\"object\",\"additionalProperties\":false,\"patternProperties\":{\"^%s$\":{\"$ref\":\"#/$defs/%s_setting\"}}",
            setting_names(field, names), field->path);
}

/* The choices in quotes, separated by commas; as_lists: "a-b-c" as ["a","b","c"]. */
static void write_names(FILE *to, const struct dt_field *field, bool as_lists)
{
    for (int i = 0; dt_field_choice(field, i); i++) {
        fputs(i > 0 ? "," : "", to);
        fputs(as_lists ? "[\"" : "\"", to);
        for (const char *c = dt_field_choice(field, i); *c; c++)
            fputs(as_lists && *c == '-' ? "\",\"" : (char[]){*c, 0}, to);
        fputs(as_lists ? "\"]" : "\"", to);
    }
}

/* A list of choices, or the same as one word. */
static void write_choice_words(FILE *to, const struct dt_field *field)
{
    char any[DT_FIELD_TEXT_BYTES] = "";
    for (int i = 0; dt_field_choice(field, i); i++)
        dt_append(any, sizeof any, "|", "%s", dt_field_choice(field, i));
    fprintf(to, "\"oneOf\":[{\"type\":\"array\",\"minItems\":1,\"maxItems\":%d,\"items\":{\"enum\":[", field->words);
    write_names(to, field, false);
    fprintf(to, "]}},{\"type\":\"string\",\"pattern\":\"^(%s)(-(%s)){0,%d}$\"}]", any, any, field->words - 1);
}

static void write_choices(FILE *to, const struct dt_field *field)
{
    fputs(field->list               ? "\"enum\":["
          : field->most_numbers > 0 ? "\"anyOf\":[{\"enum\":["
          : field->file_ending      ? "\"type\":\"string\",\"anyOf\":[{\"enum\":["
                                    : "\"type\":\"string\",\"enum\":[",
          to);
    write_names(to, field, false);
    if (field->list) {
        fputc(',', to);
        write_names(to, field, true);
    }
    fputc(']', to);
    if (field->most_numbers > 0)
        fprintf(to,
                "},{\"type\":\"array\",\"minItems\":1,\"maxItems\":%d,\"items\":{\"type\":\"integer\",\"minimum\":%.0f,\"maximum\":%.0f}}]",
                field->most_numbers, field->min, field->max);
    if (field->file_ending)
        fprintf(to, "},{\"pattern\":\".\\\\%s$\"}]", field->file_ending);
}

static void write_type(FILE *to, const struct dt_field *field)
{
    char min[32], max[32];
    dt_format_double(field->min, min, sizeof min);
    dt_format_double(field->max, max, sizeof max);
    if (dt_field_has_choices(field) && field->booleans) {
        fputs("\"anyOf\":[{\"type\":\"boolean\"},{", to);
        write_choices(to, field);
        fputs("}]", to);
        return;
    }
    if (dt_field_has_choices(field)) {
        (field->words ? write_choice_words : write_choices)(to, field);
        return;
    }
    switch (field->kind) {
    case DT_FIELD_BOOL: fprintf(to, "\"type\":\"boolean\"%s", field->max > 0 ? "" : ",\"const\":false"); break;
    case DT_FIELD_SETTINGS: write_settings(to, field); break;
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT: fprintf(to, "\"type\":\"string\",\"minLength\":%s,\"maxLength\":%s,\"not\":{" NOT_PRINTABLE "}", min, max); break;
    case DT_FIELD_ENUM: break; /* has choices */
    case DT_FIELD_INT:
    case DT_FIELD_U64:
    case DT_FIELD_NUMBER:
    case DT_FIELD_FLOAT:
        if (field->word)
            fprintf(to, "\"anyOf\":[{\"const\":\"%s\"},{", field->word);
        fprintf(to, "\"type\":\"%s\",\"%s\":%s,\"%s\":%s",
                field->kind == DT_FIELD_INT || field->kind == DT_FIELD_U64 ? "integer" : "number",
                field->above ? "exclusiveMinimum" : "minimum", min, field->below ? "exclusiveMaximum" : "maximum", max);
        fputs(field->word ? "}]" : "", to);
    }
}

static void write_field(FILE *to, const struct dt_field *field)
{
    fputc('{', to);
    write_description(to, field->description);
    write_type(to, field);
    if (field->initial)
        fprintf(to, ",\"default\":%s", field->initial);
    fputc('}', to);
}

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

static void write_required(FILE *to, const struct dt_schema *schema, const char *prefix)
{
    char path[DT_CONFIG_PATH_BYTES];
    int count = 0;
    for (int row = 0; dt_config_next_key(schema->table, prefix, &row, path);)
        if (is_required(schema->table, path))
            fprintf(to, "%s\"%s\"", count++ ? "," : ",\"required\":[", last_word(path));
    for (const struct dt_schema_part *part = schema->parts; part && part->path; part++)
        if (part->required && is_key_of(part->path, prefix))
            fprintf(to, "%s\"%s\"", count++ ? "," : ",\"required\":[", last_word(part->path));
    fputs(count ? "]" : "", to);
}

static void write_object(FILE *to, const struct dt_schema *schema, const char *prefix);

static void write_part(FILE *to, const struct dt_schema_part *part)
{
    fputc('{', to);
    write_description(to, part->description);
    if (part->list) {
        const struct dt_schema entry = {.table = part->list()->table};
        fprintf(to, "\"type\":\"array\",\"maxItems\":%d,\"items\":{", part->list()->max);
        write_object(to, &entry, "");
        fputc('}', to);
    } else {
        fputs(part->schema, to);
    }
    fputc('}', to);
}

/* The schema of the key at `path`: written out, or if a sweep needs it, too, a reference to its
 * definition. */
static void write_property(FILE *to, const struct dt_schema *schema, const char *path)
{
    int index = dt_config_find(schema->table, path);
    fprintf(to, "\"%s\":", last_word(path));
    if (schema->sweeps) {
        fprintf(to, "{\"$ref\":\"#/$defs/%s\"}", path);
    } else if (index >= 0) {
        write_field(to, &schema->table->fields[index]);
    } else {
        fputc('{', to);
        write_object(to, schema, path);
        fputc('}', to);
    }
}

/* The members of the schema of the object at `prefix`, without the braces. */
static void write_object(FILE *to, const struct dt_schema *schema, const char *prefix)
{
    const struct dt_schema_section *section = schema->sections;
    char path[DT_CONFIG_PATH_BYTES];
    const char *comma = "";
    while (section && section->path && strcmp(section->path, prefix) != 0)
        section++;
    if (section && !section->path)
        section = NULL;
    write_description(to, section ? section->description : NULL);
    fputs("\"type\":\"object\",\"additionalProperties\":false", to);
    write_required(to, schema, prefix);
    fputs(",\"properties\":{", to);
    if (!*prefix) {
        fputs("\"" DT_CONFIG_SCHEMA "\":{\"description\":\"Where this schema is: for editors, and not read.\"}", to);
        comma = ",";
    }
    for (int row = 0; dt_config_next_key(schema->table, prefix, &row, path); comma = ",") {
        fputs(comma, to);
        write_property(to, schema, path);
    }
    for (const struct dt_schema_part *part = schema->parts; part && part->path; part++) {
        if (!is_key_of(part->path, prefix))
            continue;
        fprintf(to, "%s\"%s\":", comma, last_word(part->path));
        write_part(to, part);
        comma = ",";
    }
    if (schema->sweeps && !*prefix)
        fprintf(to, "%s\"sweep\":{\"$ref\":\"#/$defs/sweep\"}", comma);
    fputc('}', to);
    if (section && section->rules)
        fprintf(to, ",%s", section->rules);
}

/* ---- sweeps ---- */

static void write_list_of(FILE *to, const char *definition, const char *suffix)
{
    fprintf(to, "{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/%s%s\"}}", definition, suffix);
}

/* An axis for one field: a list of its values, or of settings by name. */
static void write_field_axis(FILE *to, const struct dt_field *field)
{
    char names[128];
    bool settings = field->kind == DT_FIELD_SETTINGS;
    fputs(settings ? "{\"oneOf\":[" : "", to);
    write_list_of(to, field->path, "");
    if (!settings)
        return;
    fprintf(to, ",{\"type\":\"object\",\"additionalProperties\":false,\"patternProperties\":{\"^%s$\":", setting_names(field, names));
    write_list_of(to, field->path, "_setting");
    fputs("}}]}", to);
}

/* The axes in the object at `prefix`; for inner objects: a list of whole objects, or an object of
 * lists. */
static void write_axes(FILE *to, const struct dt_table *table, const char *prefix)
{
    char path[DT_CONFIG_PATH_BYTES];
    const char *comma = "";
    for (int row = 0; dt_config_next_key(table, prefix, &row, path); comma = ",") {
        int index = dt_config_find(table, path);
        fprintf(to, "%s\"%s\":", comma, last_word(path));
        if (index >= 0) {
            write_field_axis(to, &table->fields[index]);
            continue;
        }
        fputs("{\"oneOf\":[", to);
        write_list_of(to, path, "");
        fputs(",{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{", to);
        write_axes(to, table, path);
        fputs("}}]}", to);
    }
}

/* A reference to the definition of each key of the whole config. */
static void write_references(FILE *to, const struct dt_table *table)
{
    char path[DT_CONFIG_PATH_BYTES];
    const char *comma = "";
    for (int row = 0; dt_config_next_key(table, "", &row, path); comma = ",")
        fprintf(to, "%s\"%s\":{\"$ref\":\"#/$defs/%s\"}", comma, path, path);
}

static void write_sweep(FILE *to, const struct dt_table *table)
{
    const char *comma = "";
    char names[128];
    fputs("\"sweep\":{\"description\":\"Lists whose product is run, the first outermost. Paths are dotted or nested; objects in a list are "
          "merged into the config's own. Or a list of experiments: objects that are merged into the config.\",\"oneOf\":["
          "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{",
          to);
    write_references(to, table);
    fputs("}}},{\"type\":\"object\",\"additionalProperties\":false,\"patternProperties\":{", to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (field->kind != DT_FIELD_SETTINGS)
            continue;
        fprintf(to, "%s\"^%s\\\\.%s$\":", comma, field->path, setting_names(field, names));
        write_list_of(to, field->path, "_setting");
        comma = ",";
    }
    fputs("},\"properties\":{\"" DT_SWEEP_CASES
          "\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"not\":{\"required\":"
          "[\"sweep\"]},\"additionalProperties\":false,\"properties\":{",
          to);
    write_references(to, table);
    fputs("}}},", to);
    write_axes(to, table, "");
    for (int i = 0; i < table->count; i++) {
        if (!strchr(table->fields[i].path, '.'))
            continue;
        fprintf(to, ",\"%s\":", table->fields[i].path);
        write_field_axis(to, &table->fields[i]);
    }
    fputs("}}]}", to);
}

/* Definitions of the objects of fields in the object at `prefix`, and of those in them. */
static void write_object_definitions(FILE *to, const struct dt_schema *schema, const char *prefix)
{
    char path[DT_CONFIG_PATH_BYTES];
    for (int row = 0; dt_config_next_key(schema->table, prefix, &row, path);) {
        if (dt_config_find(schema->table, path) >= 0)
            continue;
        fprintf(to, "\"%s\":{", path);
        write_object(to, schema, path);
        fputs("},", to);
        write_object_definitions(to, schema, path);
    }
}

/* Definitions that the config and its sweep both refer to: each field, each object of fields, and
 * the sweep itself. */
static void write_definitions(FILE *to, const struct dt_schema *schema)
{
    const struct dt_table *table = schema->table;
    fputs(",\"$defs\":{", to);
    for (int i = 0; i < table->count; i++) {
        fprintf(to, "\"%s\":", table->fields[i].path);
        write_field(to, &table->fields[i]);
        fputc(',', to);
        if (table->fields[i].kind != DT_FIELD_SETTINGS)
            continue;
        fprintf(to,
                "\"%s_setting\":{\"description\":\"What the environment variable is set to: 1 for true, 0 for false.\","
                "\"type\":[\"string\",\"number\",\"boolean\"],\"minLength\":1,\"maxLength\":%d,"
                "\"not\":{\"type\":\"string\"," NOT_PRINTABLE "}},",
                table->fields[i].path, DT_CONFIG_SETTING_CHARACTERS); /* see lib/config/settings.c */
    }
    write_object_definitions(to, schema, "");
    write_sweep(to, table);
    fputc('}', to);
}

dt_status dt_schema_make(const struct dt_schema *schema, struct cJSON **out)
{
    DT_FREED char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    DT_TRY(dt_allocated(to, "out of memory while writing a schema"));
    fputs("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":", to);
    write_string(to, schema->title);
    fputc(',', to);
    write_object(to, schema, "");
    if (schema->sweeps)
        write_definitions(to, schema);
    fputc('}', to);
    if (fclose(to) != 0)
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a schema");
    return dt_json_parse(text, length, schema->title, out);
}
