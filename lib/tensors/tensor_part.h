/* A part of a tensor: runs of its elements, in row-major order, of equal length and at equal
 * distances; the part may have only a range of these elements. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element k of the part is element first + k / run * stride + k % run of the tensor, for k in
 * [from, until). */
struct dt_tensor_part {
    uint64_t first, run, stride;
    uint64_t from, until;
};

/* The tensor's element at k; *length: how many elements of the part are contiguous from there,
 * including this one. */
uint64_t dt_tensor_part_at(const struct dt_tensor_part *part, uint64_t k, uint64_t *length);
/* Is the tensor's element in the part? Returns its k, and in *length how many elements follow
 * contiguously. */
bool dt_tensor_part_find(const struct dt_tensor_part *part, uint64_t element, uint64_t *k, uint64_t *length);

/* "name[0-4096]", or with strides "name[64+32/128:0-4096]": the part as a tensor's name. The second
 * function reads such a name; false: it has no part. */
void dt_tensor_part_name(const char *name, const struct dt_tensor_part *part, char *out, size_t out_bytes);
bool dt_tensor_part_read(const char *text, char *name, size_t name_bytes, struct dt_tensor_part *out);
