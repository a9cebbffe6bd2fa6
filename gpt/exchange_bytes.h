/* How many bytes a tensor group exchanges: the entry of the same name in `struct dt_model_family` (lib/model/model.h). */
#ifndef GPT_EXCHANGE_BYTES_H
#define GPT_EXCHANGE_BYTES_H

#include "lib/model/model.h"

void gpt_exchanged_bytes(const struct dt_stage *stage, int g, struct dt_pass pass, size_t samples, struct dt_exchanged *out);

#endif
