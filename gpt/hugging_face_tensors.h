/* Tensors of decoders in files of Hugging Face models. */
#pragma once

#include "lib/model/model.h"

/* By model_type; and their place among the whole model's tensors
 * (dt_model_family.foreign_tensor). */
extern const struct dt_tensor_word gpt2_tensors[], llama_tensors[], mpt_tensors[];
bool gpt_foreign_tensor(const struct dt_model *model, const struct dt_model_dialect *dialect, int index, struct dt_foreign_tensor *out);
