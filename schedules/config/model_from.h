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

#endif
