/* A model of these sizes, for kernels, layers and stages. */
#pragma once

#include "vision/family.h"
#include "vision/model.h"

#include <string.h>

static inline struct dt_model vision_model_of(enum dt_dtype dtype, const struct vision_model *vision)
{
    struct dt_model model = {.family = &vision_family, .dtype = dtype};
    memcpy(model.own, vision, sizeof *vision);
    return model;
}
