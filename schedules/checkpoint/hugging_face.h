/* Hugging Face folders as sources. */
#ifndef SCHEDULES_CHECKPOINT_HUGGING_FACE_H
#define SCHEDULES_CHECKPOINT_HUGGING_FACE_H

#include "schedules/checkpoint/parts.h"
#include "schedules/checkpoint/sources.h"

/* Whether the folder is one, and no checkpoint. */
bool is_hugging_face_folder(const char *path);

/* config.json of this model, and model.safetensors or the files that model.safetensors.index.json names. Close them also after a failure.
 * Errors: as sources_open_checkpoint. */
dt_status sources_open_hugging_face(struct sources *sources, const char *path, const struct dt_model *model);

/* Whichever the folder has; *index is zeroed where that is no checkpoint. Owner: the caller, free(index->bytes), also after a failure. */
dt_status sources_open(struct sources *sources, const char *path, const struct dt_model *model, struct checkpoint_index *index);

#endif
