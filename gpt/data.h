/* Token ids of a file as samples: sample i is the T ids from i T on; its targets are the ids one position later, the last of which the next
 * sample begins with. */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include "gpt/model.h"

size_t gpt_stored_bytes(const struct dt_model *model, int id_bytes);
void gpt_sample_bytes(const struct dt_model *model, size_t *inputs, size_t *targets);
dt_status gpt_sample_count(const struct dt_model *model, const struct dt_data_set *set, uint64_t *out);
/* inputs, targets [T] int32. Errors: DT_ERR_IO, of an id that the vocabulary does not have. */
dt_status gpt_read_sample(const struct dt_model *model, const struct dt_data_set *set, uint64_t sample, uint64_t position, void *inputs,
                          void *targets);

#endif
