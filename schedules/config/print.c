/* An experiment as a config. */
#include "schedules/config/parse.h"

#include "lib/config/json.h"

#include <stdlib.h>
#include <string.h>

/* Fields that an experiment does not show: strings and settings that are empty,
 * and of preset and sizes the one that it was not made of. */
static bool is_shown(const struct experiment *e, const struct dt_field *field)
{
    bool size =
        strcmp(field->path, "model.layers") == 0 || strcmp(field->path, "model.heads") == 0 || strcmp(field->path, "model.hidden") == 0;
    if (size)
        return e->model.preset[0] == 0;
    bool text = field->kind == DT_FIELD_STRING || field->kind == DT_FIELD_SETTINGS;
    return !text || ((const char *)e)[field->offset] != 0;
}

dt_status experiment_to_json(const struct experiment *e, int style, char **out)
{
    const struct dt_table *table = experiment_table();
    struct cJSON *object;
    bool *shown = calloc((size_t)table->count, sizeof *shown);
    if (!shown)
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a config");
    for (int i = 0; i < table->count; i++)
        shown[i] = is_shown(e, &table->fields[i]);
    dt_status status = dt_config_write(table, e, shown, &object);
    free(shown);
    DT_TRY(status);
    status = dt_json_print(object, style, out);
    dt_json_destroy(object);
    return status;
}
