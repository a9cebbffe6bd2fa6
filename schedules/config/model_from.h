/* Models that the config.json of a Hugging Face model describes: model.from. */
#pragma once

#include "lib/model/model.h"

/* The library whose defaults are used. */
#define HUGGING_FACE_ORIGIN "transformers 4.57"

/* Translate the config. `out` owns the config, also after a failure. The remarks of `out` say what
 * the family does not support. *family gets the family that has models of this type. Errors:
 * DT_ERR_INVALID if no family has; `where` begins the text. */
dt_status model_translate(struct cJSON *config, const char *where, struct dt_translation *out, const struct dt_model_family **family);

/* Read the file into `model`, which becomes a model of that family. Keys that the file does not set
 * stay as they are; given [the family's key_count] marks those that it sets. A relative path is
 * looked for in `directory` first, as dt_find_data_file does. Errors: DT_ERR_IO, DT_ERR_INVALID
 * with the field that this family does not support. */
dt_status model_read_from(const char *file, const char *directory, const char *where, struct dt_model *model,
                          bool given[DT_MODEL_KEYS_MAX]);

/* Check that the file describes this model: compare all keys that a preset sets, from which the
 * parameters and the computation follow. *dialect gets the words of its type. Errors: DT_ERR_IO;
 * DT_ERR_INVALID with the key that differs, or if files of this type are not read. */
dt_status model_check_from(const char *file, const struct dt_model *model, const struct dt_model_dialect **dialect);

/* Write those keys as JSON. Owner: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status model_shape_write(const struct dt_model *model, char **out_text);
/* Check that the keys in `text`, which may lack some, are this model's. Errors: DT_ERR_INVALID,
 * whose text begins with `label`. */
dt_status model_shape_check(const char *text, const char *label, const struct dt_model *model);

/* The reverse: *config gets a config of the first type from which this model can be read again, and
 * *dialect its words. Owner: the caller, dt_json_destroy. Errors: DT_ERR_INVALID if no type
 * fits. */
dt_status model_to_hugging_face(const struct dt_model *model, struct cJSON **config, const struct dt_model_dialect **dialect);
