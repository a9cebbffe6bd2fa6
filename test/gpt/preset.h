/* A decoder's preset by its name; NULL when there is none. */
#pragma once

#include "gpt/model.h"

#include <string.h>

static inline const struct dt_model_preset *preset_named(const char *name)
{
    const struct dt_model_preset *p = gpt_presets;
    while (p->name && strcmp(p->name, name) != 0)
        p++;
    return p->name ? p : NULL;
}
