/* The parts of the family's row (gpt/family.h), by file. struct dt_model_family (lib/model/model.h)
 * describes each member. */
#pragma once

#include "gpt/model.h"
#include "lib/config/schema.h"

/* keys.c */
enum { GPT_SIZES = 3, GPT_FIRST_KEYS = 5, GPT_KEYS = 24 };
extern const struct dt_field gpt_keys[GPT_KEYS];
extern const char *const gpt_key_titles[GPT_FIRST_KEYS];
extern const char *const gpt_shape[];
extern const struct dt_schema_section gpt_sections[];

/* hugging_face_config.c */
extern const struct dt_model_dialect gpt_hugging_face[];

/* data.c: token ids of a file as samples. Sample i is the T ids from id i T on. Its targets are the
 * ids one position later; the last target is the first id of the next sample. inputs, targets [T]
 * int32. Errors: DT_ERR_IO for an id outside the vocabulary. */
size_t gpt_stored_bytes(const struct dt_model *model, int id_bytes);
void gpt_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets);
dt_status gpt_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
dt_status gpt_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                          void *targets);

/* layout.c: the sizes of these layers. Operations are those of all matrix products of a step:
 * linear layers, head, and attention's two products over the full T x T square, as in PaLM's
 * appendix B and the usual MFU. If heads share keys and values, the products that make these are
 * smaller, but attention's own are not. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);
