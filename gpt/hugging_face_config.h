/* Hugging Face configs that describe decoders (dt_model_family.hugging_face). */
#ifndef GPT_HUGGING_FACE_CONFIG_H
#define GPT_HUGGING_FACE_CONFIG_H

#include "lib/model/model.h"

extern const struct dt_model_dialect gpt_hugging_face[];

#endif
