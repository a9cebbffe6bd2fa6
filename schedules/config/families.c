#include "schedules/config/families.h"
#include "gpt/family.h"

#include <string.h>

static const struct dt_model_family *const families[] = {&gpt_family};

enum { FAMILIES = sizeof families / sizeof *families };

const struct dt_model_family *model_family(int index)
{
    return index >= 0 && index < FAMILIES ? families[index] : NULL;
}

const struct dt_model_preset *model_preset(int index, const struct dt_model_family **family)
{
    for (int f = 0; f < FAMILIES && index >= 0; f++)
        for (const struct dt_model_preset *p = families[f]->presets; p->name; p++)
            if (index-- == 0) {
                *family = families[f];
                return p;
            }
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

bool model_kernels_available(const char *device_kind, char *text, size_t text_bytes)
{
    return families[0]->kernels_available(device_kind, text, text_bytes);
}

bool model_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    return families[0]->cpu_dtype_native(dtype, advice, advice_bytes);
}
