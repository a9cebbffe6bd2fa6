#include "schedules/checkpoint/sources.h"

#include "schedules/checkpoint/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct source *)left)->name, ((const struct source *)right)->name);
}

void sources_sort(struct sources *s)
{
    qsort(s->all, (size_t)s->count, sizeof *s->all, compare_names);
}

void sources_close(struct sources *s)
{
    for (int i = 0; i < s->file_count; i++)
        dt_tensor_file_close(&s->files[i]);
    free(s->files);
    free(s->all);
    *s = (struct sources){0};
}

static struct source source_of(const struct dt_tensor_file *file, const struct dt_tensor *tensor)
{
    struct source source = {.dtype = tensor->dtype, .file = &file->file, .bytes = dt_tensor_bytes(file, tensor)};
    uint64_t elems = dt_tensor_elems(tensor);
    if (dt_tensor_part_read(tensor->name, source.name, sizeof source.name, &source.part))
        return source;
    memcpy(source.name, tensor->name, sizeof source.name);
    source.part = (struct dt_tensor_part){.run = elems, .stride = elems, .until = elems};
    return source;
}

/* List the parts; one that is longer than its tensor is an error. */
static dt_status list_sources(struct sources *s, const char *path)
{
    int room = 1;
    for (int i = 0; i < s->file_count; i++)
        room += s->files[i].count;
    s->all = calloc((size_t)room, sizeof *s->all);
    DT_TRY(dt_allocated(s->all, "no host memory for %d tensors", room));
    for (int i = 0; i < s->file_count; i++)
        for (int k = 0; k < s->files[i].count; k++) {
            const struct dt_tensor *tensor = &s->files[i].tensors[k];
            struct source source = source_of(&s->files[i], tensor);
            if (source.part.until - source.part.from != dt_tensor_elems(tensor))
                return dt_fail(DT_ERR_INVALID, "%s: the tensor %s is damaged", path, tensor->name);
            if (source.part.until > source.part.from)
                s->all[s->count++] = source;
        }
    sources_sort(s);
    return DT_OK;
}

dt_status sources_open_checkpoint(struct sources *s, const char *path, const struct checkpoint_index *index)
{
    char name[PATH_MAX];
    s->files = calloc((size_t)index->count + 1, sizeof *s->files);
    DT_TRY(dt_allocated(s->files, "no host memory for %d files", index->count));
    for (int i = 0; i < index->count; i++) {
        checkpoint_file_name(path, index->folder, i, name, sizeof name);
        DT_TRY(dt_tensor_file_open(name, &s->files[s->file_count]));
        double bytes = (double)s->files[s->file_count++].file.size_bytes;
        if (bytes != index->bytes[i])
            return dt_fail(DT_ERR_INVALID, "%s: %.0f bytes, and the index says %.0f: the file is cut off, or it is another file", name,
                           bytes, index->bytes[i]);
    }
    return list_sources(s, path);
}

/* ---- elements ---- */

const struct source *sources_find(const struct sources *s, const char *name, int *count)
{
    struct source key;
    snprintf(key.name, sizeof key.name, "%s", name);
    const struct source *first = s->count ? bsearch(&key, s->all, (size_t)s->count, sizeof *s->all, compare_names) : NULL, *end = first;
    for (; first && first > s->all && strcmp(first[-1].name, name) == 0;)
        first--;
    for (; end && end < s->all + s->count && strcmp(end->name, name) == 0;)
        end++;
    *count = (int)(end - first);
    return first;
}

static float element(enum dt_dtype dtype, const char *from)
{
    float wide;
    uint16_t bits;
    memcpy(&wide, from, dtype == DT_FP32 ? sizeof wide : 0);
    if (dtype == DT_FP32)
        return wide;
    memcpy(&bits, from, sizeof bits);
    return dtype == DT_FP16 ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

/* Convert elements from one type to another. The source's elements are from_step_bytes apart. */
static void convert(enum dt_dtype from_dtype, const char *from, size_t from_step_bytes, enum dt_dtype dtype, char *to, size_t count)
{
    size_t bytes = dt_dtype_bytes(dtype);
    if (from_dtype == dtype && from_step_bytes == bytes) {
        memcpy(to, from, count * bytes);
        return;
    }
    for (size_t i = 0; i < count; i++, from += from_step_bytes, to += bytes) {
        if (from_dtype == dtype) {
            memcpy(to, from, bytes);
            continue;
        }
        float wide = element(from_dtype, from);
        uint16_t bits = dtype == DT_FP16 ? dt_fp32_to_fp16(wide) : dt_fp32_to_bf16(wide);
        memcpy(to, dtype == DT_FP32 ? (const void *)&wide : &bits, bytes);
    }
}

/* Copy from the source's element at_source on. *length is reduced to the elements that follow in
 * equal steps. */
static dt_status copy_elements(const struct source *s, uint64_t at_source, enum dt_dtype dtype, char *to, uint64_t *length)
{
    size_t bytes = dt_dtype_bytes(s->dtype);
    uint64_t at = at_source - s->part.from, step = 1;
    if (s->step_elems) {
        uint64_t row = at / s->columns, column = at % s->columns;
        *length = *length < s->columns - column ? *length : s->columns - column;
        step = s->step_elems;
        at = column * step + row;
    }
    if (s->dtype == dtype && step == 1 && *length * bytes >= READ_BYTES)
        return dt_mapped_file_read(s->file, s->name, (size_t)(s->bytes - (const char *)s->file->bytes) + at * bytes, *length * bytes, to);
    convert(s->dtype, s->bytes + at * bytes, step * bytes, dtype, to, *length);
    return DT_OK;
}

dt_status sources_collect(const struct sources *s, const struct wanted *wanted, const struct source *found, int found_count, uint64_t k,
                          uint64_t count, char *to)
{
    size_t bytes = dt_dtype_bytes(wanted->dtype);
    int last = 0; /* most often the source of the last elements has the next ones, too */
    for (uint64_t end = k + count, length, in_source, at_source; k < end; k += length, to += length * bytes) {
        uint64_t at = dt_tensor_part_at(wanted->part, k, &length);
        const struct source *source = NULL;
        for (int i = 0; i < found_count && !source; i++, last += source ? 0 : 1) {
            last %= found_count;
            source = dt_tensor_part_find(&found[last].part, at, &at_source, &in_source) ? &found[last] : NULL;
        }
        length = length < end - k ? length : end - k;
        if (!source && !s->may_lack_rows)
            return dt_fail(DT_ERR_INVALID, "no file has element %" PRIu64 " of %s", at, wanted->name);
        if (!source) {
            memset(to, 0, length * bytes);
            continue;
        }
        length = length < in_source ? length : in_source;
        DT_TRY(copy_elements(source, at_source, wanted->dtype, to, &length));
    }
    return DT_OK;
}
