#include "lib/model/model.h"

#include <string.h>

const struct dt_model_preset *dt_model_find_preset(const struct dt_model_family *family, const char *name)
{
    for (const struct dt_model_preset *p = family->presets; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}
