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

/* The words of a model type, and the family that has it; NULL: no family has it. */
static const struct dt_model_dialect *find_dialect(const char *type, const struct dt_model_family **family)
{
    for (int f = 0; (*family = model_family(f)); f++)
        for (const struct dt_model_dialect *d = (*family)->hugging_face; d && d->type; d++)
            if (strcmp(d->type, type) == 0)
                return d;
    return NULL;
}

/* The error for an unknown type: a feature that no family has says more than the type's name. */
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

enum { TYPE_BYTES = 64 };

static const struct dt_model_dialect *take_dialect(struct cJSON *config, char type[TYPE_BYTES], const struct dt_model_family **family)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *named = dt_json_take(config, "model_type");
    snprintf(type, TYPE_BYTES, "%s", cJSON_IsString(named) ? named->valuestring : "");
    return *type ? find_dialect(type, family) : NULL;
}

/* Of a multimodal model only the decoder is translated. */
dt_status model_translate(struct cJSON *config, const char *where, struct dt_translation *out, const struct dt_model_family **family)
{
    char type[TYPE_BYTES], outer[TYPE_BYTES] = "";
    const struct dt_model_dialect *dialect = take_dialect(config, type, family);
    struct cJSON *text = dialect ? NULL : dt_json_take(config, "text_config");
    if (cJSON_IsObject(text)) {
        snprintf(outer, sizeof outer, "%s", type);
        dt_json_destroy(config);
        config = text;
        dialect = take_dialect(config, type, family);
    } else {
        dt_json_destroy(text);
    }
    DT_TRY(dt_translation_init(out, HUGGING_FACE_ORIGIN, config, dialect && dialect->fixed ? dt_json_value(dialect->fixed) : NULL));
    if (!dialect)
        return unknown_type(out, type, where);
    if (*outer)
        dt_remark(out, DT_REMARK_ASSUMED, "text_config: of model_type \"%s\" the decoder alone, of model_type \"%s\"", outer, type);
    dt_words_read(dialect->words, out);
    if (dialect->settle)
        dialect->settle(out);
    return DT_OK;
}

/* Take over the family's keys from the translation. */
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

/* Owns the config, also after a failure. */
static dt_status read_model(struct cJSON *config, const char *label, struct dt_model *model, bool given[DT_MODEL_KEYS_MAX])
{
    DT_ENDED(dt_translation_finish) struct dt_translation t = {.origin = NULL};
    const struct dt_model_family *family;
    DT_TRY(model_translate(config, label, &t, &family));
    return take_keys(&t, family, label, model, given);
}

dt_status model_read_from(const char *file, const char *directory, const char *where, struct dt_model *model, bool given[DT_MODEL_KEYS_MAX])
{
    char path[PATH_MAX], label[WHERE_BYTES];
    struct cJSON *config;
    snprintf(label, sizeof label, "%.250s: model.from: %.200s", where, file);
    DT_TRY(dt_find_data_file(file, directory, path, sizeof path));
    DT_TRY(dt_json_read(path, label, &config));
    return read_model(config, label, model, given);
}

/* ---- models whose parameters are in files ---- */

static struct dt_table keys_of(const struct dt_model *model)
{
    return (struct dt_table){.fields = model->family->keys, .count = model->family->key_count};
}

/* Does a preset set this key, or the object that it belongs to? */
static bool is_of_shape(const struct dt_model *model, const struct dt_field *field)
{
    for (const char *const *path = model->family->shape; *path; path++) {
        size_t length = strlen(*path);
        if (strncmp(field->path, *path, length) == 0 && (field->path[length] == 0 || field->path[length] == '.'))
            return true;
    }
    return false;
}

/* Compare the given keys. DT_ERR_INVALID names the first key that differs; given NULL: compare all
 * keys. */
static dt_status compare_shapes(const struct dt_model *theirs, const bool *given, const char *label, const struct dt_model *ours)
{
    for (int i = 0; i < ours->family->key_count; i++) {
        const struct dt_field *field = &ours->family->keys[i];
        DT_FREED char *their_text = NULL;
        DT_FREED char *our_text = NULL;
        if (!is_of_shape(ours, field) || (given && !given[i]) || dt_field_same(field, dt_model_own(theirs), dt_model_own(ours)))
            continue;
        DT_TRY(dt_config_write_value(field, dt_model_own(theirs), DT_JSON_COMPACT, &their_text));
        DT_TRY(dt_config_write_value(field, dt_model_own(ours), DT_JSON_COMPACT, &our_text));
        return dt_fail(DT_ERR_INVALID, "%s: it is a model with %s %s, and this one has %s", label, field->path, their_text, our_text);
    }
    return DT_OK;
}

/* Owns the config, also after a failure. */
static dt_status compare(struct cJSON *config, const char *label, const struct dt_model *model)
{
    struct dt_model described = *model;
    bool given[DT_MODEL_KEYS_MAX];
    struct dt_table keys = keys_of(model);
    dt_status status = dt_config_defaults(&keys, described.own + described.own_at);
    if (status < 0) {
        dt_json_destroy(config);
        return status;
    }
    DT_TRY(read_model(config, label, &described, given));
    if (described.family != model->family)
        return dt_fail(DT_ERR_INVALID, "%s: describes a model of the family %s", label, described.family->name);
    DT_TRY(described.family->check_model(&described));
    return compare_shapes(&described, NULL, label, model);
}

dt_status model_shape_write(const struct dt_model *model, char **out_text)
{
    struct dt_table keys = keys_of(model);
    DT_DESTROYED(dt_json_destroy) struct cJSON *tree = NULL;
    bool wanted[DT_MODEL_KEYS_MAX];
    for (int i = 0; i < keys.count; i++)
        wanted[i] = is_of_shape(model, &keys.fields[i]);
    DT_TRY(dt_config_write(&keys, dt_model_own(model), wanted, &tree));
    return dt_json_print(tree, DT_JSON_COMPACT, out_text);
}

dt_status model_shape_check(const char *text, const char *label, const struct dt_model *model)
{
    struct dt_model described = *model;
    struct dt_table keys = keys_of(model);
    DT_DESTROYED(dt_json_destroy) struct cJSON *tree = NULL;
    bool given[DT_MODEL_KEYS_MAX];
    DT_TRY(dt_json_parse(text, strlen(text), label, &tree));
    DT_TRY(dt_config_read(&keys, tree, label, described.own + described.own_at, given));
    return compare_shapes(&described, given, label, model);
}

dt_status model_check_from(const char *file, const struct dt_model *model, const struct dt_model_dialect **dialect)
{
    struct cJSON *config;
    const struct dt_model_family *family;
    DT_TRY(dt_json_read(file, file, &config));
    const char *type = cJSON_GetStringValue(dt_json_at(config, "model_type"));
    *dialect = type ? find_dialect(type, &family) : NULL;
    DT_TRY(compare(config, file, model));
    return (*dialect)->tensors ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: files of models of the type %s are not read", file, (*dialect)->type);
}

/* Remark on what a type always has, if its config does not say so and its class in transformers
 * would assume something else. */
static void say_what_is_fixed(const struct dt_word *words, struct cJSON *theirs)
{
    for (const struct dt_word *word = words; word->theirs; word++)
        if (!word->ours && word->initial && word->values && strcmp(word->initial, word->values->theirs) != 0)
            dt_json_put(theirs, word->theirs, dt_json_value(word->values->theirs));
}

static dt_status write_model(const struct dt_model *model, const struct dt_model_dialect *dialect, struct cJSON **out)
{
    struct cJSON *ours;
    struct dt_translation t;
    struct dt_table keys = keys_of(model);
    DT_TRY(dt_config_write(&keys, dt_model_own(model), NULL, &ours));
    DT_TRY(dt_translation_init(&t, HUGGING_FACE_ORIGIN, NULL, ours));
    dialect->unsettle(&t);
    dt_words_write(dialect->words, &t);
    say_what_is_fixed(dialect->words, t.theirs);
    struct cJSON *names = dt_json_array();
    dt_json_append(&names, dt_json_text(dialect->architecture));
    dt_json_put(t.theirs, "architectures", names);
    dt_json_put(t.theirs, "model_type", dt_json_text(dialect->type));
    *out = t.theirs;
    t.theirs = NULL;
    dt_translation_finish(&t);
    return DT_OK;
}

dt_status model_to_hugging_face(const struct dt_model *model, struct cJSON **config, const struct dt_model_dialect **dialect)
{
    char types[TYPES_BYTES] = "";
    *config = NULL;
    for (const struct dt_model_dialect *d = model->family->hugging_face; d && d->type; d++) {
        if (!d->tensors)
            continue;
        DT_DESTROYED(dt_json_destroy) struct cJSON *made = NULL;
        DT_TRY(write_model(model, d, &made));
        *dialect = d;
        if (compare(cJSON_Duplicate(made, true), d->type, model) == DT_OK) {
            *config = DT_PASSED_ON(made);
            return DT_OK;
        }
        dt_append(types, sizeof types, "; ", "%.150s", dt_error_message());
    }
    return dt_fail(DT_ERR_INVALID, "no model type of transformers describes this model: %s", *types ? types : "its family has none");
}
