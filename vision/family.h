/* Convolutional networks as one family of models: everything that schedules may ask of them. */
#ifndef VISION_FAMILY_H
#define VISION_FAMILY_H

#include "lib/model/model.h"

extern const struct dt_model_family vision_family;

#endif
