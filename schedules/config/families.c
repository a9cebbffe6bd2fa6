#include "schedules/config/families.h"
#include "gpt/family.h"
#include "lib/base/text.h"
#include "vision/family.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct dt_model_family *const families[] = {&gpt_family, &vision_family};

enum { FAMILIES = sizeof families / sizeof *families };

__attribute__((weak)) const struct dt_model_family *model_family_more(int index)
{
    return NULL;
}

const struct dt_model_family *model_family(int index)
{
    return index < FAMILIES ? families[index] : model_family_more(index - FAMILIES);
}

void model_set_family(struct dt_model *model, const struct dt_model_family *family)
{
    size_t at = 0;
    model->family = family;
    for (int f = 0; model_family(f) && model_family(f) != family; f++)
        at += (model_family(f)->own_bytes + 7) / 8 * 8;
    model->own_at = (int)at;
}

const struct dt_model_preset *model_preset(int index, const struct dt_model_family **family)
{
    for (int f = 0; (*family = model_family(f)); f++)
        for (const struct dt_model_preset *p = (*family)->presets; p->name; p++)
            if (index-- == 0)
                return p;
    return NULL;
}

const struct dt_model_preset *model_find_preset(const char *name, const struct dt_model_family **family)
{
    const struct dt_model_preset *preset;
    for (int i = 0; (preset = model_preset(i, family)); i++)
        if (strcmp(preset->name, name) == 0)
            return preset;
    return NULL;
}

/* Is this the preset's name as others write it: "Meta-Llama-3-8B", "llama-7b-hf", "Mistral-7B-v0.1"? */
static bool is_preset(const char *text, const char *preset)
{
    static const char *const versions[] = {"", "hf", "base", "chat", "chat-hf", "instruct", "v0.1", "v0.2", "v0.3"};
    char name[64];
    text += strncasecmp(text, "meta-", 5) == 0 ? 5 : 0;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        snprintf(name, sizeof name, "%s-%s", preset, versions[i]);
        if (dt_same_name(name, text))
            return true;
    }
    return false;
}

const struct dt_model_preset *model_find_abroad(const char *name, const struct dt_model_family **family)
{
    const struct dt_model_preset *preset;
    const char *owner = strrchr(name, '/');
    for (int i = 0; (preset = model_preset(i, family)); i++)
        if (is_preset(owner ? owner + 1 : name, preset->name))
            return preset;
    return NULL;
}

/* Whether the preset sets the key. A number of 0 that is no probability means the key's default. */
static bool says(const struct dt_model_preset *preset, const struct dt_field *key)
{
    const void *value = (const char *)preset->own + key->offset;
    double number;
    if (key->kind != DT_FIELD_NUMBER)
        return key->kind != DT_FIELD_INT || *(const int *)value != 0;
    memcpy(&number, value, sizeof number);
    return number != 0;
}

void model_take_preset(struct dt_model *model, const struct dt_model_preset *preset, const bool *given)
{
    const struct dt_model_family *family = model->family;
    for (int i = 0; i < (preset->sizes_only ? family->sizes : family->key_count); i++) {
        const struct dt_field *key = &family->keys[i];
        if (i < family->sizes || (!given[i] && says(preset, key)))
            memcpy(model->own + model->own_at + key->offset, (const char *)preset->own + key->offset, key->size);
    }
}

struct dt_model model_of_preset(const struct dt_model_preset *preset, const struct dt_model_family *family)
{
    static const bool none[DT_MODEL_KEYS_MAX];
    struct dt_model model = {.family = NULL};
    model_set_family(&model, family);
    (void)dt_config_defaults(&(struct dt_table){.fields = family->keys, .count = family->key_count}, model.own + model.own_at);
    model_take_preset(&model, preset, none);
    return model;
}
