/* Convolutional networks as a family of models: all that schedules can ask of it. */
#pragma once

#include "lib/model/model.h"

extern const struct dt_model_family vision_family;
