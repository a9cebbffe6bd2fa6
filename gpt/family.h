/* GPT as a family of models: all that schedules can ask of it. */
#ifndef GPT_FAMILY_H
#define GPT_FAMILY_H

#include "lib/model/model.h"

extern const struct dt_model_family gpt_family;

#endif
