#include "cli/text/text.h"

#include "lib/base/text.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Fields that follow from others: where those differ, these add nothing. */
static const struct {
    const char *path, *follows;
} dependent[] = {
    {"model.layers", "model.preset"},
    {"model.heads", "model.preset"},
    {"model.hidden", "model.preset"},
    {"fsdp.unit", "model.preset"},
    {"loss_scaling", "model.dtype"},
    {"loss_scaling", "loss"},
    {"optimizer.learning_rate", "optimizer.name"},
    {"pipeline.paradigms", "pipeline.stages"},
};

void experiment_differences_add(struct experiment_differences *d, const struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    d->first = d->first ? d->first : e;
    for (int f = 0; e && f < table->count && f < FIELDS_MAX; f++)
        d->fields[f] = d->fields[f] || !dt_field_same(&table->fields[f], d->first, e);
}

bool experiment_field_follows(const char *path, const char *from)
{
    for (size_t d = 0; d < sizeof dependent / sizeof dependent[0]; d++)
        if (strcmp(path, dependent[d].path) == 0 && strcmp(from, dependent[d].follows) == 0)
            return true;
    return false;
}

static bool is_dependent(const bool differs[FIELDS_MAX], const struct dt_field *field)
{
    for (size_t d = 0; d < sizeof dependent / sizeof dependent[0]; d++)
        if (strcmp(field->path, dependent[d].path) == 0 && differs[dt_config_find(experiment_table(), dependent[d].follows)])
            return true;
    return false;
}

void experiment_columns_choose(const struct experiment_differences *differences, struct experiment_columns *out)
{
    const struct dt_table *table = experiment_table();
    const bool *differs = differences->fields;
    *out = (struct experiment_columns){0};
    for (int i = 0; i < table->count && i < FIELDS_MAX; i++) {
        const struct dt_field *field = &table->fields[i];
        bool *const told = strcmp(field->path, "name") == 0         ? &out->names_differ
                           : strcmp(field->path, "world_size") == 0 ? &out->worlds_differ
                           : strcmp(field->path, "batch_size") == 0 ? &out->batches_differ
                                                                    : NULL;
        if (told)
            *told = differs[i];
        if (told || !differs[i] || strcmp(field->path, "paradigm") == 0)
            continue;
        out->models_differ |= strncmp(field->path, "model.", 6) == 0;
        if (out->count < COLUMNS_MAX && !is_dependent(differs, field))
            out->fields[out->count++] = field;
    }
}

void experiment_columns_find(const struct experiment *experiments, int count, struct experiment_columns *out)
{
    struct experiment_differences differences = {0};
    for (int i = 0; i < count; i++)
        experiment_differences_add(&differences, &experiments[i]);
    experiment_columns_choose(&differences, out);
}

const char *experiment_key_title(const char *path)
{
    /* titles where the last word of the path is unclear, or too long */
    static const char *const words[][2] = {
        {"mesh.order", "mesh"}, {"tensor.size", "tensor"}, {"context.size", "context"}, {"world_size", "ranks"}, {"batch_size", "batch"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(path, words[i][0]) == 0)
            return words[i][1];
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".name") != 0 ? dot + 1 : path;
}

void experiment_key_column(struct table *table, const char *path)
{
    char title[64];
    snprintf(title, sizeof title, "%s", experiment_key_title(path));
    char *between = strrchr(title, '_');
    if (between && strlen(title) > 10)
        *between = '\n';
    table_column(table, TABLE_RIGHT | TABLE_KEY, "%s", title);
}

/* {"NCCL_ALGO":"Ring","NCCL_PROTO":"LL"} as NCCL_ALGO=Ring NCCL_PROTO=LL. */
static void describe_settings(const char *json, char text[VALUE_BYTES])
{
    size_t used = 0;
    for (const char *c = json; *c && used + 1 < VALUE_BYTES; c++) {
        bool after_name = *c == ':' && c > json && c[-1] == '"', between = *c == ',' && c[1] == '"';
        if (after_name)
            text[used++] = '=';
        else if (between)
            text[used++] = ' ';
        else if (!strchr("{}\"", *c))
            text[used++] = *c;
    }
    if (used == 0)
        text[used++] = '-';
    text[used] = 0;
}

/* A cluster or a profile without its folder; any other text whole, since two folders may have files
 * of one name. */
static const char *without_folder(const char *value)
{
    static const char *const folders[] = {"clusters/", "profiles/"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        if (strncmp(value, folders[f], strlen(folders[f])) == 0)
            return value + strlen(folders[f]);
    return value;
}

void experiment_text_shown(const char *value, char text[VALUE_BYTES])
{
    const char *name = without_folder(value), *end = strstr(name, ".json");
    bool is_file = end && !end[5];
    size_t length = is_file ? (size_t)(end - name) : strlen(name), cut = 0;
    if (length >= VALUE_BYTES) /* its end says more than its beginning, which long paths often share */
        for (cut = length - VALUE_BYTES + sizeof "..."; ((unsigned char)name[cut] & 0xC0) == 0x80;)
            cut++; /* not within a character of UTF-8 */
    snprintf(text, VALUE_BYTES, "%s%.*s", cut > 0 ? "..." : length > 0 ? "" : "-", (int)(length - cut), name + cut);
}

void experiment_value(const struct experiment *e, const struct dt_field *field, char text[VALUE_BYTES])
{
    const void *value = (const char *)e + field->offset;
    switch (field->kind) {
    case DT_FIELD_BOOL: snprintf(text, VALUE_BYTES, "%s", *(const bool *)value ? "true" : "false"); break;
    case DT_FIELD_INT: snprintf(text, VALUE_BYTES, "%d", *(const int *)value); break;
    case DT_FIELD_U64: snprintf(text, VALUE_BYTES, "%" PRIu64, *(const uint64_t *)value); break;
    case DT_FIELD_NUMBER:
        dt_format_double(*(const double *)value, text, VALUE_BYTES);
        if (field->word && *(const double *)value == field->word_number)
            snprintf(text, VALUE_BYTES, "%s", field->word);
        break;
    case DT_FIELD_FLOAT: dt_format_float(*(const float *)value, text, VALUE_BYTES); break;
    case DT_FIELD_STRING: experiment_text_shown(value, text); break;
    case DT_FIELD_TEXT: experiment_text_shown(*(const char *const *)value, text); break;
    case DT_FIELD_SETTINGS: describe_settings(*(const char *const *)value, text); break;
    case DT_FIELD_ENUM: snprintf(text, VALUE_BYTES, "%s", dt_field_choice(field, *(const int *)value)); break;
    }
}

void experiment_value_cells(struct table *table, const struct experiment *e, const struct experiment_columns *columns)
{
    char text[VALUE_BYTES];
    for (int c = 0; c < columns->count; c++) {
        bool depends = experiment_depends_on(e, columns->fields[c]);
        if (depends)
            experiment_value(e, columns->fields[c], text);
        table_text(table, depends ? text : "-");
    }
}

void experiment_cells(struct table *table, const struct experiment *e, const struct experiment_columns *columns)
{
    if (columns->names_differ)
        table_text(table, e->name);
    table_text(table, paradigm_name(e->paradigm));
    table_cell(table, "%d", e->world_size);
    table_cell(table, "%.4g", e->batch_size);
    experiment_value_cells(table, e, columns);
}

void experiment_label(const struct experiment *e, const struct experiment_columns *columns, char *text, size_t text_bytes)
{
    char value[VALUE_BYTES];
    snprintf(text, text_bytes, "%s", paradigm_name(e->paradigm));
    if (columns->worlds_differ)
        dt_append(text, text_bytes, ", ", "%d rank%s", e->world_size, e->world_size == 1 ? "" : "s");
    if (columns->batches_differ)
        dt_append(text, text_bytes, ", ", "batch %g", e->batch_size);
    for (int i = 0; i < columns->count; i++) {
        const struct dt_field *field = columns->fields[i];
        if (!experiment_depends_on(e, field))
            continue;
        experiment_value(e, field, value);
        dt_append(text, text_bytes, ", ", "%s %s", experiment_key_title(field->path), value);
    }
}

/* ---- remarks on predictions ---- */

/* Add a file's name to the list, once: "clusters/gcp_a2.json" as gcp_a2, any other file by its
 * path. */
static void add_name(char *list, size_t list_bytes, const char *folder, const char *path)
{
    size_t folder_bytes = strlen(folder), bytes = strlen(path), ending = strlen(".json");
    if (strncmp(path, folder, folder_bytes) == 0 && bytes > folder_bytes + ending)
        dt_append_once(list, list_bytes, path + folder_bytes, bytes - folder_bytes - ending);
    else
        dt_append_once(list, list_bytes, path, bytes);
}

void predictions_add(struct predictions *all, const struct experiment *e)
{
    if (!experiment_is_simulated(e)) {
        all->measured++;
        return;
    }
    predictions_add_files(all, e->cluster, e->profile);
    if (e->rates && *e->rates && !strstr(all->rates, e->rates))
        dt_append(all->rates, sizeof all->rates, ", ", "%s", e->rates);
}

void predictions_add_files(struct predictions *all, const char *cluster, const char *profile)
{
    all->predicted++;
    add_name(all->clusters, sizeof all->clusters, "clusters/", cluster);
    add_name(all->profiles, sizeof all->profiles, "profiles/", profile);
}

const char *predictions_describe(const struct predictions *all, char text[PREDICTIONS_BYTES])
{
    *text = '\0';
    if (all->predicted > 0)
        snprintf(text, PREDICTIONS_BYTES, "%spredicted, not measured: cluster%s %s, profile%s %s%s%s",
                 all->measured > 0 ? "the rows of device sim are " : "", strchr(all->clusters, ',') ? "s" : "", all->clusters,
                 strchr(all->profiles, ',') ? "s" : "", all->profiles, *all->rates ? ", rates of " : "", all->rates);
    return text;
}
