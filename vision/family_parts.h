/* The parts of the family's row (vision/family.h), by file, besides those of model.h and stage.h.
 * struct dt_model_family (lib/model/model.h) describes each member. */
#pragma once

#include "lib/config/schema.h"
#include "vision/model.h"

/* keys.c */
enum { VISION_SIZES = 4, VISION_FIRST_KEYS = 6, VISION_KEYS = 16 };
extern const struct dt_field vision_keys[VISION_KEYS];
extern const char *const vision_key_titles[VISION_FIRST_KEYS];
extern const char *const vision_shape_keys[];
extern const struct dt_schema_section vision_sections[];

/* sizes.c: sums over the layers */
void vision_facts(const struct dt_model *model, struct dt_model_facts *out);
double vision_largest_tensor(const struct dt_model *model, double samples, const char **keys);
bool vision_gradients_cancel(const struct dt_model *model, int64_t samples);
void vision_layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out);

/* data.c: files of images with their classes. inputs: uint8 [image_size, image_size, 3], padded to a
 * multiple of 4 bytes; targets: int32 [vision_labels_of_image], one class or one for each pixel. */
size_t vision_labels_of_image(const struct dt_model *model);
size_t vision_stored_bytes(const struct dt_model *model, int id_bytes);
void vision_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets);
dt_status vision_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
dt_status vision_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                             void *targets);
