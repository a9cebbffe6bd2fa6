/* The canonical JSON of one struct after another: what dt_json_print makes of dt_config_write with DT_JSON_SORTED. A sweep's experiments
 * differ in few fields, so the text of the others is kept, and that of a field which has changed is put in its place. */
#ifndef LIB_CONFIG_CANONICAL_H
#define LIB_CONFIG_CANONICAL_H

#include "lib/config/config.h"

struct dt_canonical;

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_canonical_create(const struct dt_table *table, struct dt_canonical **out);
void dt_canonical_destroy(struct dt_canonical *canonical); /* takes NULL */

/* changed[i]: field i may be another one than the last time; at first all are. wanted[i]: the text has it. *out is the canonical's until the
 * next call; its first *out_same bytes are those of the last text. Errors: DT_ERR_HOST_MEMORY; all fields count as changed then. */
dt_status dt_canonical_write(struct dt_canonical *canonical, const void *source, const bool *changed, const bool *wanted, const char **out,
                             size_t *out_bytes, size_t *out_same);

#endif
