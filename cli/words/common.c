/* What the frameworks' files share. */
#include "cli/words/words.h"

#include "schedules/config/families.h"

#include <string.h>

bool model_is_preset(const struct dt_model *model, const char *preset)
{
    const struct dt_model_family *family;
    const struct dt_model_preset *row = model_find_preset(preset, &family);
    if (!row || family != model->family)
        return false;
    struct dt_model other = model_of_preset(row, family);
    for (int i = 0; i < family->key_count; i++) {
        bool length = strcmp(family->keys[i].path, "model.block_size") == 0;
        if (!length && !dt_field_same(&family->keys[i], dt_model_own(model), dt_model_own(&other)))
            return false;
    }
    return true;
}

bool begins_with_one(const char *path, const char *beginnings)
{
    for (size_t bytes; *beginnings; beginnings += bytes + (beginnings[bytes] == ' ')) {
        bytes = strcspn(beginnings, " ");
        if (strncmp(path, beginnings, bytes) == 0)
            return true;
    }
    return false;
}
