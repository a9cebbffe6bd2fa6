/* A model of these sizes, for kernels, layers and stages: it names no family. */
#ifndef TEST_VISION_MODEL_OF_H
#define TEST_VISION_MODEL_OF_H

#include "vision/model.h"

#include <string.h>

static inline struct dt_model vision_model_of(enum dt_dtype dtype, const struct vision_model *vision)
{
    struct dt_model model = {.dtype = dtype};
    memcpy(model.own, vision, sizeof *vision);
    return model;
}

#endif
