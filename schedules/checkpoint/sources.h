/* Where the elements of a model's tensors are in files: parts that ranks have saved, or tensors of
 * another library's files. */
#pragma once

#include "lib/model/model.h"
#include "lib/tensors/safetensors.h"
#include "lib/tensors/tensor_part.h"

/* A part of a tensor in a file. */
struct source {
    char name[DT_TENSOR_NAME]; /* of the tensor, in dtbench's names */
    struct dt_tensor_part part;
    enum dt_dtype dtype;
    const struct dt_mapped_file *file;
    const char *bytes; /* the part's elements, in the file */
    /* A whole tensor that is stored transposed: `columns` of dtbench's columns, whose elements are
     * step_elems apart. 0: not transposed. */
    uint64_t columns, step_elems;
};

struct sources {
    struct dt_tensor_file *files; /* [file_count] */
    int file_count;
    struct source *all; /* [count] sorted by name */
    int count;
    /* Elements that no file has: false: an error; true: zero, as in the padding rows of a
     * vocabulary. */
    bool may_lack_rows;
};

/* Open the files that the index names. Close the sources also after a failure. Errors: DT_ERR_IO,
 * DT_ERR_INVALID with the file and what is wrong in it, DT_ERR_HOST_MEMORY. */
struct checkpoint_index;
dt_status sources_open_checkpoint(struct sources *sources, const char *path, const struct checkpoint_index *index);
void sources_close(struct sources *sources); /* takes zeroed ones */

/* Sort the sources, once all are listed. */
void sources_sort(struct sources *sources);

/* All parts of the tensor with that name; NULL and 0: no file has it. */
const struct source *sources_find(const struct sources *sources, const char *name, int *count);

/* Read elements [k, k + count) of the tensor `name`, converted to `dtype`, into `to`. found
 * [found_count]: the result of sources_find. Errors: DT_ERR_INVALID if no file has an element. */
struct wanted {
    const char *name;
    enum dt_dtype dtype;
    const struct dt_tensor_part *part;
};
dt_status sources_collect(const struct sources *sources, const struct wanted *wanted, const struct source *found, int found_count,
                          uint64_t k, uint64_t count, char *to);
