/* An experiment as a config. */
#include "schedules/config/print.h"

#include "lib/config/json.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>

/* Whether the model's other keys leave this one a meaning. */
static bool concerns_model(const struct dt_model *m, const char *path)
{
    static const char *const of_scaling[] = {"model.rope.factor", "model.rope.low_frequency_factor", "model.rope.high_frequency_factor",
                                             "model.rope.original_length"};
    bool concerns = strncmp(path, "model.rope.", 11) != 0 || m->position == DT_POSITION_ROPE;
    for (size_t i = 0; i < sizeof of_scaling / sizeof *of_scaling; i++)
        concerns &= m->rope.scaling != DT_ROPE_UNSCALED || strcmp(path, of_scaling[i]) != 0;
    return concerns;
}

/* A preset that says more than sizes may say another thing than the key's default: its model is written out whole. */
static bool whole_model(const struct dt_model *m)
{
    const struct dt_model_family *family;
    const struct dt_model_preset *preset = *m->preset ? model_find_preset(m->preset, &family) : NULL;
    return preset && dt_preset_is_whole(preset);
}

dt_status experiment_shows(const struct experiment *e, const struct dt_field *field, bool *shown)
{
    bool size =
        strcmp(field->path, "model.layers") == 0 || strcmp(field->path, "model.heads") == 0 || strcmp(field->path, "model.hidden") == 0;
    bool text = field->kind == DT_FIELD_STRING || field->kind == DT_FIELD_SETTINGS;
    DT_TRY(dt_config_shows(field, e, shown));
    *shown |= strncmp(field->path, "model.", 6) == 0 && whole_model(&e->model);
    *shown &= concerns_model(&e->model, field->path);
    if (size)
        *shown = e->model.preset[0] == 0;
    else if (text)
        *shown &= ((const char *)e)[field->offset] != 0;
    return DT_OK;
}

static bool belongs_to_some_paradigm(const char *path)
{
    bool some = false;
    for (int kind = 0; paradigm_of((enum paradigm_kind)kind) && !some; kind++)
        some = paradigm_has_key(paradigm_of((enum paradigm_kind)kind), path);
    return some;
}

bool experiment_depends_on(const struct experiment *e, const char *path)
{
    if (strcmp(path, "name") == 0)
        return false;
    if (strncmp(path, "pipeline.", 9) == 0 && e->paradigm != PARADIGM_PDP && experiment_stages(e) == 1)
        return false;
    return paradigm_has_key(paradigm_of(e->paradigm), path) || !belongs_to_some_paradigm(path);
}

bool experiment_predicted_alike(const struct experiment *left, const struct experiment *right)
{
    static const char *const numbers[] = {
        "name",           "seed",          "optimizer.learning_rate", "optimizer.beta1", "optimizer.beta2", "optimizer.epsilon",
        "timeout.init_s", "timeout.step_s"};
    const struct dt_table *table = experiment_table();
    for (int i = 0; i < table->count; i++) {
        bool alike = dt_field_same(&table->fields[i], left, right);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers && !alike; n++)
            alike = strcmp(table->fields[i].path, numbers[n]) == 0;
        if (!alike)
            return false;
    }
    return true;
}

dt_status experiment_to_json(const struct experiment *e, int style, char **out)
{
    const struct dt_table *table = experiment_table();
    struct cJSON *object;
    bool *shown = calloc((size_t)table->count, sizeof *shown);
    if (!shown)
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a config");
    dt_status status = DT_OK;
    for (int i = 0; i < table->count && status == DT_OK; i++)
        status = experiment_shows(e, &table->fields[i], &shown[i]);
    if (status == DT_OK)
        status = dt_config_write(table, e, shown, &object);
    free(shown);
    DT_TRY(status);
    status = dt_json_print(object, style, out);
    dt_json_destroy(object);
    return status;
}
