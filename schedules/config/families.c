#include "schedules/config/families.h"
#include "gpt/family.h"

#include <string.h>

static const struct dt_model_family *const families[] = {&gpt_family};

enum { FAMILIES = sizeof families / sizeof *families };

__attribute__((weak)) const struct dt_model_family *model_family_more(int index)
{
    return NULL;
}

const struct dt_model_family *model_family(int index)
{
    return index < FAMILIES ? families[index] : model_family_more(index - FAMILIES);
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

struct dt_model model_of_preset(const struct dt_model_preset *preset, const struct dt_model_family *family)
{
    struct dt_model model = preset->model;
    model.family = family;
    if (!dt_preset_is_whole(preset)) {
        model.vocab_size = 50000;
        model.block_size = 256;
    }
    return model;
}
