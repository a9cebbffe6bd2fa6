/* The keys of a decoder in a config (see dt_model_family.keys). */
#ifndef GPT_KEYS_H
#define GPT_KEYS_H

#include "lib/config/schema.h"

enum { GPT_SIZES = 3, GPT_FIRST_KEYS = 5, GPT_KEYS = 24 };

extern const struct dt_field gpt_keys[GPT_KEYS];
extern const char *const gpt_key_titles[GPT_FIRST_KEYS];
extern const char *const gpt_shape[];
extern const struct dt_schema_section gpt_sections[];

#endif
