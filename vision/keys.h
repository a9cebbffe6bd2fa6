/* The keys of a convolutional network in a config (see dt_model_family.keys). */
#pragma once

#include "lib/config/schema.h"

enum { VISION_SIZES = 4, VISION_FIRST_KEYS = 6, VISION_KEYS = 16 };

extern const struct dt_field vision_keys[VISION_KEYS];
extern const char *const vision_key_titles[VISION_FIRST_KEYS];
extern const char *const vision_shape_keys[];
extern const struct dt_schema_section vision_sections[];
