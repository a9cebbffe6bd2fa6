/* Where in files the elements of a model's tensors are: parts that ranks have saved, or tensors of another library's files. */
#ifndef SCHEDULES_CHECKPOINT_SOURCES_H
#define SCHEDULES_CHECKPOINT_SOURCES_H

#include "lib/model/model.h"
#include "lib/tensors/safetensors.h"
#include "lib/tensors/tensor_part.h"

/* A part of a tensor in a file. */
struct source {
    char name[DT_TENSOR_NAME]; /* of the tensor, by our names */
    struct dt_tensor_part part;
    enum dt_dtype dtype;
    const struct dt_mapped_file *file;
    const char *bytes; /* the part's elements, in the file */
    /* A whole tensor that is stored transposed: `columns` of ours, of which each element is `step_elems` after the one before. 0: it is not. */
    uint64_t columns, step_elems;
};

struct sources {
    struct dt_tensor_file *files; /* [file_count] */
    int file_count;
    struct source *all; /* [count] sorted by name */
    int count;
    /* What is in none of the files: false: cannot be; true: is zero, as the rows of a padded vocabulary. */
    bool may_lack_rows;
};

/* The files that the index names. Close them also after a failure. Errors: DT_ERR_IO, DT_ERR_INVALID with what is wrong with which file,
 * DT_ERR_HOST_MEMORY. */
struct checkpoint_index;
dt_status sources_open_checkpoint(struct sources *sources, const char *path, const struct checkpoint_index *index);
void sources_close(struct sources *sources); /* takes zeroed ones */

/* Sort them, once all are listed. */
void sources_sort(struct sources *sources);

/* All parts of the tensor of that name; NULL and 0: no file has it. */
const struct source *sources_find(const struct sources *sources, const char *name, int *count);

/* Elements [k, k + count) of a part of the tensor `name`, as `dtype`, to `to`. found [found_count]: what sources_find has.
 * Errors: DT_ERR_INVALID where no file has one. */
struct wanted {
    const char *name;
    enum dt_dtype dtype;
    const struct dt_tensor_part *part;
};
dt_status sources_collect(const struct sources *sources, const struct wanted *wanted, const struct source *found, int found_count,
                          uint64_t k, uint64_t count, char *to);

#endif
