/* Models that the config.json of a Hugging Face model describes: model.from. */
#ifndef SCHEDULES_CONFIG_MODEL_FROM_H
#define SCHEDULES_CONFIG_MODEL_FROM_H

#include "lib/model/model.h"

/* Whose defaults they are. */
#define HUGGING_FACE_ORIGIN "transformers 4.57"

/* Translate the config, which becomes `out`'s, whatever comes of it; its remarks say what the family cannot be. *family gets the family that
 * has models of its type. Errors: DT_ERR_INVALID, where no family has; `where` begins the text. */
dt_status model_translate(struct cJSON *config, const char *where, struct dt_translation *out, const struct dt_model_family **family);

/* Read the file into `model`, which becomes one of that family, with what the file does not say as it is; given [the family's key_count]
 * gets which keys the file says. A relative path is looked for in `directory` first, as dt_find_data_file does. Errors: DT_ERR_IO,
 * DT_ERR_INVALID with the field that this family cannot be. */
dt_status model_read_from(const char *file, const char *directory, const char *where, struct dt_model *model,
                          bool given[DT_MODEL_KEYS_MAX]);

/* Whether the file describes this model: all keys that a preset says, from which parameters and what is computed of them follow. *dialect gets
 * the words of its type. Errors: DT_ERR_IO; DT_ERR_INVALID with the key that is another one, or where files of the type are not read. */
dt_status model_check_from(const char *file, const struct dt_model *model, const struct dt_model_dialect **dialect);

/* Those keys, as JSON. Owner: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status model_shape_write(const struct dt_model *model, char **out_text);
/* Whether those of the text, which may lack some, are this model's. Errors: DT_ERR_INVALID, which begins with `label`. */
dt_status model_shape_check(const char *text, const char *label, const struct dt_model *model);

/* The reverse: *config gets a config of the first type that is read as this model again, and *dialect its words. Owner: the caller,
 * dt_json_destroy. Errors: DT_ERR_INVALID where no type is. */
dt_status model_to_hugging_face(const struct dt_model *model, struct cJSON **config, const struct dt_model_dialect **dialect);

#endif
