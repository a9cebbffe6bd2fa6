#include "lib/model/model.h"

static int count_names(const char *const *names)
{
    int count = 0;
    while (names && names[count])
        count++;
    return count;
}

int dt_block_layer(const struct dt_model_family *family, int block)
{
    return count_names(family->before) + block * family->block_layers;
}

int dt_layer_count(const struct dt_model *model)
{
    return dt_block_layer(model->family, dt_model_blocks(model)) + count_names(model->family->after);
}

int dt_unit_end(const struct dt_model *model, int first, enum dt_unit unit)
{
    int begin = dt_block_layer(model->family, 0), end = dt_block_layer(model->family, dt_model_blocks(model));
    if (first >= end)
        return dt_layer_count(model);
    return first < begin || unit == DT_UNIT_LINEAR ? first + 1 : first + model->family->block_layers;
}
