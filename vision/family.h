/* Convolutional networks as a family of models: all that schedules can ask of it. */
#ifndef VISION_FAMILY_H
#define VISION_FAMILY_H

#include "lib/model/model.h"

extern const struct dt_model_family vision_family;

#endif
