#include "lib/tensors/safetensors.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ALIGNED = 8 };

static const char *const dtypes[] = {[DT_FP32] = "F32", [DT_FP16] = "F16", [DT_BF16] = "BF16"};

uint64_t dt_tensor_elems(const struct dt_tensor *t)
{
    uint64_t elems = 1;
    for (int i = 0; i < t->dimensions; i++)
        elems *= t->shape[i];
    return elems;
}

/* ---- reading ---- */

/* Is the entry a tensor of a supported type and shape? */
static bool read_shape(const cJSON *entry, struct dt_tensor *out)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(entry, "dtype"), *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    int dtype = 0;
    while (dtype < DT_DTYPE_COUNT && !(cJSON_IsString(type) && strcmp(type->valuestring, dtypes[dtype]) == 0))
        dtype++;
    if (dtype == DT_DTYPE_COUNT || !cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > DT_TENSOR_DIMENSIONS)
        return false;
    out->dtype = (enum dt_dtype)dtype;
    for (const cJSON *size = shape->child; size; size = size->next) {
        if (!cJSON_IsNumber(size) || !(size->valuedouble >= 0 && size->valuedouble < 0x1p48))
            return false;
        out->shape[out->dimensions++] = (uint64_t)size->valuedouble;
    }
    return true;
}

/* Computed in doubles: the product of sizes in an untrusted file may be arbitrarily large. */
static bool read_place(const cJSON *entry, double first, double end, struct dt_tensor *out)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *until = cJSON_GetArrayItem(offsets, 1);
    double bytes = (double)dt_dtype_bytes(out->dtype);
    for (int i = 0; i < out->dimensions; i++)
        bytes *= (double)out->shape[i];
    if (!cJSON_IsNumber(begin) || !cJSON_IsNumber(until) || !(begin->valuedouble >= 0) || !(first + until->valuedouble <= end) ||
        until->valuedouble - begin->valuedouble != bytes)
        return false;
    out->first_byte = (uint64_t)(first + begin->valuedouble);
    out->bytes = (uint64_t)bytes;
    return true;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct dt_tensor *)left)->name, ((const struct dt_tensor *)right)->name);
}

static dt_status read_entries(const cJSON *header, const char *path, double first, struct dt_tensor_file *out)
{
    for (const cJSON *entry = header->child; entry; entry = entry->next) {
        struct dt_tensor *tensor = &out->tensors[out->count];
        *tensor = (struct dt_tensor){0};
        if (strcmp(entry->string, "__metadata__") == 0 || strlen(entry->string) >= sizeof tensor->name || !read_shape(entry, tensor))
            continue;
        memcpy(tensor->name, entry->string, strlen(entry->string));
        if (!read_place(entry, first, (double)out->file.size_bytes, tensor))
            return dt_fail(DT_ERR_INVALID, "%s: the tensor %s is not where the header says: the file is cut off, or damaged", path,
                           tensor->name);
        out->count++;
    }
    qsort(out->tensors, (size_t)out->count, sizeof *out->tensors, compare_names);
    return DT_OK;
}

static dt_status read_header(const char *path, struct dt_tensor_file *out)
{
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES && out->file.size_bytes >= LENGTH_BYTES; i++)
        length |= (uint64_t)((const unsigned char *)out->file.bytes)[i] << 8 * i;
    if (out->file.size_bytes < LENGTH_BYTES || length > out->file.size_bytes - LENGTH_BYTES)
        return dt_fail(DT_ERR_INVALID, "%s: no header of safetensors: the file is cut off, or another one", path);
    cJSON *header = cJSON_ParseWithLength((const char *)out->file.bytes + LENGTH_BYTES, length);
    if (!cJSON_IsObject(header)) {
        cJSON_Delete(header);
        return dt_fail(DT_ERR_INVALID, "%s: its header is no JSON object: the file is damaged, or another one", path);
    }
    out->tensors = calloc((size_t)cJSON_GetArraySize(header) + 1, sizeof *out->tensors);
    dt_status status = dt_allocated(out->tensors, "no host memory for the tensors of %s", path);
    DT_THEN(status, read_entries(header, path, (double)(LENGTH_BYTES + length), out));
    cJSON_Delete(header);
    return status;
}

dt_status dt_tensor_file_open(const char *path, struct dt_tensor_file *out)
{
    *out = (struct dt_tensor_file){0};
    DT_TRY(dt_mapped_file_open(path, &out->file));
    dt_status status = read_header(path, out);
    if (status < 0)
        dt_tensor_file_close(out);
    return status;
}

void dt_tensor_file_close(struct dt_tensor_file *file)
{
    free(file->tensors);
    dt_mapped_file_close(&file->file);
    *file = (struct dt_tensor_file){0};
}

const struct dt_tensor *dt_tensor_find(const struct dt_tensor_file *file, const char *name)
{
    struct dt_tensor key;
    if (strlen(name) >= sizeof key.name || file->count == 0)
        return NULL;
    memcpy(key.name, name, strlen(name) + 1);
    return bsearch(&key, file->tensors, (size_t)file->count, sizeof *file->tensors, compare_names);
}

/* ---- writing ---- */

static void write_entries(FILE *to, struct dt_tensor *tensors, int count)
{
    uint64_t at = 0;
    fprintf(to, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (struct dt_tensor *t = tensors; t < tensors + count; t++) {
        t->bytes = dt_tensor_elems(t) * dt_dtype_bytes(t->dtype);
        t->first_byte = at;
        fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, dtypes[t->dtype]);
        for (int i = 0; i < t->dimensions; i++)
            fprintf(to, "%s%" PRIu64, i ? "," : "", t->shape[i]);
        fprintf(to, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
        at += t->bytes;
    }
    fprintf(to, "}");
}

dt_status dt_tensor_header(struct dt_tensor *tensors, int count, char **out, size_t *bytes)
{
    char length[LENGTH_BYTES] = {0};
    FILE *to = open_memstream(out, bytes);
    DT_TRY(dt_allocated(to, "no host memory for the header of %d tensors", count));
    fwrite(length, 1, sizeof length, to);
    write_entries(to, tensors, count);
    for (long at = ftell(to); at % ALIGNED; at++)
        fputc(' ', to);
    bool whole = !ferror(to);
    if (fclose(to) != 0 || !whole) {
        free(*out);
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the header of %d tensors", count);
    }
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        (*out)[i] = (char)((*bytes - LENGTH_BYTES) >> 8 * i);
    for (int i = 0; i < count; i++)
        tensors[i].first_byte += *bytes;
    return DT_OK;
}
