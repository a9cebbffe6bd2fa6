/* Hugging Face folders as sources. */
#pragma once

#include "schedules/checkpoint/internal.h"
#include "schedules/checkpoint/sources.h"

/* Whether the folder is a Hugging Face folder, and not a checkpoint. */
bool is_hugging_face_folder(const char *path);

/* Open whichever the folder has: a checkpoint; or a Hugging Face model: config.json of this model,
 * and model.safetensors or the files that model.safetensors.index.json names. *index is zeroed for
 * the latter. Owner of index->bytes: the caller, free, who closes the sources, too; also after a
 * failure. Errors: as sources_open_checkpoint. */
dt_status sources_open(struct sources *sources, const char *path, const struct dt_model *model, struct checkpoint_index *index);
