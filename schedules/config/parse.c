#include "schedules/config/parse.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES = 512 };

/* Read and complete combination `index` over `base`, the config without its
 * sweep. */
static dt_status resolve_combination(const struct dt_sweep *sweep, int index, const char *source, const struct experiment *base,
                                     const bool *base_given, bool *given, struct experiment *out)
{
    const struct dt_table *table = experiment_table();
    char where[WHERE_BYTES], combination[WHERE_BYTES / 2];
    dt_sweep_describe(sweep, index, combination, sizeof combination);
    snprintf(where, sizeof where, "%.200s%s%s", source, *combination ? ": sweep " : "", combination);
    memcpy(out, base, sizeof *out);
    memcpy(given, base_given, (size_t)table->count * sizeof *given);
    DT_TRY(dt_sweep_read(table, sweep, index, where, out, given));
    return experiment_resolve(out, given, where);
}

static dt_status resolve_all(const struct cJSON *config, const char *source, struct experiment **out, int *count)
{
    const struct dt_table *table = experiment_table();
    struct experiment *base = calloc(1, sizeof *base), *experiments = NULL;
    struct dt_sweep *sweep = malloc(sizeof *sweep);
    bool *base_given = calloc(2 * (size_t)table->count, sizeof *base_given); /* and each combination's own behind it */
    dt_status status = DT_ERR_HOST_MEMORY;
    if (!base || !sweep || !base_given) {
        dt_fail(status, "%s: out of memory", source);
        goto done;
    }
    if ((status = dt_config_defaults(table, base)) < 0 || (status = dt_config_read(table, config, source, base, base_given)) < 0 ||
        (status = dt_sweep_init(table, config, source, sweep)) < 0)
        goto done;
    experiments = calloc((size_t)sweep->combinations, sizeof *experiments);
    if (!experiments) {
        status = dt_fail(DT_ERR_HOST_MEMORY, "%s: out of memory for %d experiments", source, sweep->combinations);
        goto done;
    }
    for (int i = 0; i < sweep->combinations; i++)
        if ((status = resolve_combination(sweep, i, source, base, base_given, base_given + table->count, &experiments[i])) < 0)
            goto done;
    *out = experiments;
    *count = sweep->combinations;
    experiments = NULL;
done:
    free(experiments);
    free(base_given);
    free(sweep);
    free(base);
    return status;
}

dt_status experiments_parse(const char *text, size_t length, const char *source, const char *const *sets, int set_count,
                            struct experiment **out, int *count)
{
    struct cJSON *config;
    DT_TRY(dt_json_parse(text, length, source, &config));
    dt_status status = DT_OK;
    /* Overrides need an object to change; whether it is one is the table's to
     * say. */
    if (set_count > 0)
        status = dt_config_read(experiment_table(), config, source, NULL, NULL);
    for (int i = 0; i < set_count && status == DT_OK; i++)
        status = dt_config_set(experiment_table(), config, sets[i]);
    if (status == DT_OK)
        status = resolve_all(config, source, out, count);
    dt_json_destroy(config);
    return status;
}

dt_status experiments_read(const char *path, const char *const *sets, int set_count, struct experiment **out, int *count)
{
    char *text;
    size_t length;
    DT_TRY(dt_read_file(path, &text, &length));
    dt_status status = experiments_parse(text, length, strcmp(path, "-") == 0 ? "standard input" : path, sets, set_count, out, count);
    free(text);
    const char *slash = strrchr(path, '/');
    for (int i = 0; status == DT_OK && slash && i < *count; i++)
        snprintf((*out)[i].directory, sizeof(*out)[i].directory, "%.*s", (int)(slash - path), path);
    return status;
}

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

dt_status experiment_set_environment(const struct experiment *e)
{
    struct cJSON *settings;
    if (!*e->nccl)
        return DT_OK;
    DT_TRY(dt_json_parse(e->nccl, strlen(e->nccl), "nccl", &settings));
    dt_status status = DT_OK;
    for (const struct cJSON *s = settings->child; s && status == DT_OK; s = s->next)
        if (setenv(s->string, s->valuestring, 1) != 0)
            status = dt_fail(DT_ERR_HOST_MEMORY, "no memory for %s in the environment", s->string);
    dt_json_destroy(settings);
    return status;
}
