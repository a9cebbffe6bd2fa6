/* What the row of the family (gpt/family.h) names, by file; struct dt_model_family (lib/model/model.h) says what each member is. */
#ifndef GPT_FAMILY_PARTS_H
#define GPT_FAMILY_PARTS_H

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

/* data.c: token ids of a file as samples. Sample i is the T ids from i T on; its targets are the ids one position later, the last of which the
 * next sample begins with. inputs, targets [T] int32. Errors: DT_ERR_IO, of an id that the vocabulary does not have. */
size_t gpt_stored_bytes(const struct dt_model *model, int id_bytes);
void gpt_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets);
dt_status gpt_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
dt_status gpt_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                          void *targets);

/* partition.c: which layers the stages of a pipeline get. first_layer [stages + 1] gets the layer with which each stage begins. Stages are runs
 * of whole pieces (lib/model/split.h): embedding, each block, final norm, head. A piece costs the floating-point operations of its matrix
 * products; the embedding has none, the head those of its logits. It depends on the model alone, so that every device and every rank finds
 * the same. Errors: DT_ERR_INVALID where there are more stages than pieces. */
dt_status gpt_partition(const struct dt_model *model, enum dt_split_rule rule, int stages, int *first_layer);
/* How large these layers are, and what they are called. */
void gpt_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);

#endif
