#include "schedules/config/model_from.h"

#include "lib/base/text.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "schedules/config/families.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES_BYTES = 512, WHERE_BYTES = 512 };

/* The words of a type, and the family that has it; NULL: none has. */
static const struct dt_model_dialect *find_dialect(const char *type, const struct dt_model_family **family)
{
    for (int f = 0; (*family = model_family(f)); f++)
        for (const struct dt_model_dialect *d = (*family)->hugging_face; d && d->type; d++)
            if (strcmp(d->type, type) == 0)
                return d;
    return NULL;
}

/* What an unknown type has that no family can be says more than its name. */
static dt_status unknown_type(struct dt_translation *t, const char *type, const char *where)
{
    char types[TYPES_BYTES] = "";
    for (int f = 0; model_family(f); f++)
        for (const struct dt_model_dialect *d = model_family(f)->hugging_face; d && d->type; d++) {
            if (*d->type)
                dt_append(types, sizeof types, ", ", "%s", d->type);
            else
                dt_words_read(d->words, t);
        }
    const char *cannot = dt_first_remark(t, DT_REMARK_CANNOT);
    if (cannot)
        return dt_fail(DT_ERR_INVALID, "%s: %s", where, cannot);
    return dt_fail(DT_ERR_INVALID, "%s: model_type: %s%s%s is not one of %s", where, *type ? "\"" : "nothing", type, *type ? "\"" : "",
                   types);
}

dt_status model_translate(struct cJSON *config, const char *where, struct dt_translation *out, const struct dt_model_family **family)
{
    struct cJSON *named = dt_json_take(config, "model_type");
    char type[64];
    snprintf(type, sizeof type, "%s", cJSON_IsString(named) ? named->valuestring : "");
    dt_json_destroy(named);
    const struct dt_model_dialect *dialect = *type ? find_dialect(type, family) : NULL;
    DT_TRY(dt_translation_init(out, HUGGING_FACE_ORIGIN, config, dialect && dialect->fixed ? dt_json_value(dialect->fixed) : NULL));
    if (!dialect)
        return unknown_type(out, type, where);
    dt_words_read(dialect->words, out);
    if (dialect->settle)
        dialect->settle(out);
    return DT_OK;
}

/* The keys of the family as the translation has them. */
static dt_status take_keys(const struct dt_translation *t, const struct dt_model_family *family, const char *where, struct dt_model *model,
                           bool given[DT_MODEL_KEYS_MAX])
{
    const char *cannot = dt_first_remark(t, DT_REMARK_CANNOT), *alike = dt_first_remark(t, DT_REMARK_ALIKE);
    if (cannot || alike)
        return dt_fail(DT_ERR_INVALID, "%s: %s", where, cannot ? cannot : alike);
    model_set_family(model, family);
    memset(given, 0, DT_MODEL_KEYS_MAX * sizeof *given);
    return dt_config_read(&(struct dt_table){.fields = family->keys, .count = family->key_count}, t->ours, where,
                          model->own + model->own_at, given);
}

dt_status model_read_from(const char *file, const char *directory, const char *where, struct dt_model *model, bool given[DT_MODEL_KEYS_MAX])
{
    char path[PATH_MAX], label[WHERE_BYTES], *text;
    size_t length;
    struct cJSON *config;
    struct dt_translation t = {.origin = NULL};
    const struct dt_model_family *family;
    snprintf(label, sizeof label, "%.250s: model.from: %.200s", where, file);
    DT_TRY(dt_find_data_file(file, directory, path, sizeof path));
    DT_TRY(dt_read_file(path, &text, &length));
    dt_status status = dt_json_parse(text, length, label, &config);
    free(text);
    DT_TRY(status);
    status = model_translate(config, label, &t, &family);
    if (status == DT_OK)
        status = take_keys(&t, family, label, model, given);
    dt_translation_finish(&t);
    return status;
}
