/* An experiment as a config, and the hash of that. */
#include "schedules/config/print.h"

#include "lib/config/json.h"
#include "schedules/config/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool experiment_depends_on(const struct experiment *e, const struct dt_field *field)
{
    const struct dt_model_family *family = experiment_field_family(field);
    if (family && family != e->model.family)
        return false;
    return field->matters ? field->matters(e) : experiment_reads(e, field);
}

bool experiment_shows(const struct experiment *e, const struct dt_field *field)
{
    const char *text = dt_field_text(field, e);
    return !(text && !*text) && (experiment_depends_on(e, field) || strcmp(field->path, "name") == 0);
}

bool experiment_predicted_alike(const struct experiment *left, const struct experiment *right)
{
    const struct dt_table *table = experiment_table();
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (!field->costs_nothing && !dt_field_same(field, left, right))
            return false;
    }
    return true;
}

dt_status experiment_to_tree(const struct experiment *e, struct cJSON **out)
{
    const struct dt_table *table = experiment_table();
    DT_FREED bool *shown = calloc((size_t)table->count, sizeof *shown);
    DT_TRY(dt_allocated(shown, "out of memory while writing a config"));
    for (int i = 0; i < table->count; i++)
        shown[i] = experiment_shows(e, &table->fields[i]);
    return dt_config_write(table, e, shown, out);
}

dt_status experiment_to_json(const struct experiment *e, int style, char **out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    DT_TRY(experiment_to_tree(e, &object));
    return dt_json_print(object, style, out);
}

/* ---- its hash ---- */

dt_status experiment_set_hash(struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = NULL;
    DT_FREED char *text = NULL;
    DT_FREED bool *wanted = calloc((size_t)table->count, sizeof *wanted);
    DT_TRY(dt_allocated(wanted, "out of memory while writing a config"));
    for (int i = 0; i < table->count; i++)
        wanted[i] = experiment_depends_on(e, &table->fields[i]) && experiment_shows(e, &table->fields[i]);
    DT_TRY(dt_config_write(table, e, wanted, &config));
    DT_TRY(dt_json_print(config, DT_JSON_SORTED, &text));
    snprintf(e->hash, sizeof e->hash, "%016" PRIx64, dt_hash_fnv1a(text, strlen(text)));
    return DT_OK;
}

void experiment_hash_file(struct experiment *e, const char *text, size_t bytes)
{
    snprintf(e->hash, sizeof e->hash, "%016" PRIx64, dt_hash_fnv1a(text, bytes) ^ (uint64_t)strtoull(e->hash, NULL, 16));
}
