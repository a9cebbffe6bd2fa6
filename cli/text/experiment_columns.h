/* In what the experiments of a run differ: columns of a table, and a label for each. */
#ifndef CLI_TEXT_EXPERIMENT_COLUMNS_H
#define CLI_TEXT_EXPERIMENT_COLUMNS_H

#include "lib/config/config.h"
#include "schedules/config/experiment_list.h"

enum { COLUMNS_MAX = 12, VALUE_BYTES = 96, LABEL_BYTES = 192 };

struct experiment_columns {
    const struct dt_field *fields[COLUMNS_MAX]; /* name, paradigm, world_size and batch_size are not among them */
    int count;
    bool names_differ, worlds_differ, batches_differ, models_differ;
};

void experiment_columns_find(const struct experiment *experiments, int count, struct experiment_columns *out);
void experiment_columns_of(const struct experiment_list *experiments, struct experiment_columns *out);
/* Does the default of the key at `path` follow from the one at `from`: loss_scaling from model.dtype? */
bool experiment_field_follows(const char *path, const char *from);
/* The short name of a field: "dtype" for model.dtype. */
const char *experiment_column_title(const struct dt_field *field);
void experiment_value(const struct experiment *experiment, const struct dt_field *field, char text[VALUE_BYTES]);
/* The same for a table: "-" where the value makes no difference to the experiment. */
void experiment_cell(const struct experiment *experiment, const struct dt_field *field, char text[VALUE_BYTES]);

/* "ddp, batch 8, dtype fp32, parameter_offload": what tells it from the others. LABEL_BYTES suffice for all but the strangest sweeps. */
void experiment_label(const struct experiment *experiment, const struct experiment_columns *columns, char *text, size_t text_bytes);

#endif
