/* GPT as one family of models: everything that schedules may ask of it. */
#ifndef GPT_FAMILY_H
#define GPT_FAMILY_H

#include "lib/model/model.h"

extern const struct dt_model_family gpt_family;

#endif
