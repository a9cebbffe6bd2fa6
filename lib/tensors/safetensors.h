/* Files of tensors in the format safetensors, which other tools can open: eight bytes with the
 * length of a header, the header, which is a JSON object with type, shape and place of each tensor,
 * and the tensors' bytes, one after the other, in little-endian order.
 *
 * Source  The format's description in the README of github.com/huggingface/safetensors. */
#pragma once

#include "lib/base/dtype.h"
#include "lib/data/mapped_file.h"

#include <stdint.h>

enum { DT_TENSOR_NAME = 160, DT_TENSOR_DIMENSIONS = 4 };

struct dt_tensor {
    char name[DT_TENSOR_NAME];
    enum dt_dtype dtype;
    int dimensions;
    uint64_t shape[DT_TENSOR_DIMENSIONS];
    uint64_t first_byte, bytes; /* in the file */
};

struct dt_tensor_file {
    struct dt_mapped_file file;
    struct dt_tensor *tensors; /* [count] sorted by name */
    int count;
};

/* Open and check a file: each tensor must lie within the file, and have the length of its type and
 * shape. Tensors of unsupported types, or of more dimensions, are left out. Errors: DT_ERR_IO,
 * DT_ERR_INVALID with path and reason, DT_ERR_HOST_MEMORY. */
dt_status dt_tensor_file_open(const char *path, struct dt_tensor_file *out);
void dt_tensor_file_close(struct dt_tensor_file *file); /* takes a zeroed one */

/* NULL: the file has no tensor of that name. */
const struct dt_tensor *dt_tensor_find(const struct dt_tensor_file *file, const char *name);
static inline const void *dt_tensor_bytes(const struct dt_tensor_file *file, const struct dt_tensor *tensor)
{
    return (const char *)file->file.bytes + tensor->first_byte;
}

/* The beginning of a file with these tensors [count], one after the other in this order: sets bytes
 * and first_byte of each. *bytes: length of the beginning, which the tensors follow. Owner of *out:
 * the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_tensor_header(struct dt_tensor *tensors, int count, char **out, size_t *bytes);

/* Elements of a tensor. */
uint64_t dt_tensor_elems(const struct dt_tensor *tensor);
