/* Hugging Face folders as sources: config.json says which model the folder has; the model's type
 * says where each tensor is. */
#include "schedules/checkpoint/hugging_face.h"

#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "schedules/config/model_from.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char CONFIG[] = "config.json", ALONE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json";

static void path_of(const char *folder, const char *file, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", folder, file);
}

static bool has(const char *folder, const char *file)
{
    char path[PATH_MAX];
    path_of(folder, file, path);
    return access(path, F_OK) == 0;
}

bool is_hugging_face_folder(const char *path)
{
    return has(path, CONFIG) && !checkpoint_exists(path);
}

/* ---- files ---- */

static dt_status add_file(struct sources *s, const char *folder, const char *file)
{
    char path[PATH_MAX];
    DT_TRY(dt_allocated(DT_ONE_MORE(s->files, s->file_count), "no host memory for %d files", s->file_count + 1));
    path_of(folder, file, path);
    DT_TRY(dt_tensor_file_open(path, &s->files[s->file_count]));
    s->file_count++;
    return DT_OK;
}

/* The index's weight_map names the file of each tensor. */
static dt_status add_files_of(struct sources *s, const char *folder, const char *index, const cJSON *map)
{
    for (const cJSON *entry = cJSON_IsObject(map) ? map->child : NULL; entry; entry = entry->next) {
        const char *file = cJSON_GetStringValue(entry);
        const cJSON *before = map->child;
        if (!file || strchr(file, '/'))
            return dt_fail(DT_ERR_INVALID, "%s: weight_map.%.100s: not the name of a file in the folder", index, entry->string);
        while (before != entry && strcmp(before->valuestring, file) != 0)
            before = before->next;
        if (before == entry)
            DT_TRY(add_file(s, folder, file));
    }
    return s->file_count > 0 ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: weight_map names no file", index);
}

static dt_status open_files(struct sources *s, const char *folder)
{
    char path[PATH_MAX];
    DT_DESTROYED(dt_json_destroy) struct cJSON *index = NULL;
    if (!has(folder, INDEX))
        return has(folder, ALONE) ? add_file(s, folder, ALONE)
                                  : dt_fail(DT_ERR_INVALID, "neither %s nor %s is there; other formats are not read", ALONE, INDEX);
    path_of(folder, INDEX, path);
    DT_TRY(dt_json_read(path, path, &index));
    return add_files_of(s, folder, path, dt_json_at(index, "weight_map"));
}

/* ---- tensors ---- */

/* Find the tensor by its name, with or without the prefix that all names of this type share. */
static const struct dt_tensor *find(const struct sources *s, const char *name, const char *base, const struct dt_tensor_file **file)
{
    size_t begin = strncmp(name, base, strlen(base)) == 0 ? strlen(base) : 0;
    for (*file = s->files; *file < s->files + s->file_count; ++*file) {
        const struct dt_tensor *tensor = dt_tensor_find(*file, name);
        tensor = tensor ? tensor : dt_tensor_find(*file, name + begin);
        if (tensor)
            return tensor;
    }
    return NULL;
}

static bool rows_fit(const struct dt_foreign_tensor *t, uint64_t rows)
{
    return t->may_have == DT_ROWS_ANY || rows == t->their_rows || (t->may_have == DT_ROWS_AT_LEAST && rows > t->their_rows);
}

/* The tensor's rows in the file. DT_ERR_INVALID: its shape is not the model's. */
static dt_status find_rows(const struct dt_foreign_tensor *t, const struct dt_tensor *tensor, uint64_t *out)
{
    uint64_t shape[2] = {tensor->shape[0], tensor->dimensions > 1 ? tensor->shape[1] : 1};
    *out = shape[t->transposed];
    if (tensor->dimensions <= 2 && shape[!t->transposed] == t->columns && rows_fit(t, *out))
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "%s: %" PRIu64 " x %" PRIu64 " elements, and this model has %zu x %zu there", tensor->name, shape[0],
                   shape[1], t->transposed ? t->columns : t->their_rows, t->transposed ? t->their_rows : t->columns);
}

static dt_status add_tensor(struct sources *s, const struct dt_foreign_tensor *t, const char *base)
{
    const struct dt_tensor_file *file;
    const struct dt_tensor *tensor = find(s, t->theirs, base, &file);
    uint64_t rows;
    if (!tensor)
        return dt_fail(DT_ERR_INVALID, "no file has the tensor %s in fp32, fp16 or bf16", t->theirs);
    DT_TRY(find_rows(t, tensor, &rows));
    uint64_t elems = (t->may_have == DT_ROWS_SAME ? t->rows : rows) * t->columns;
    struct source *source = &s->all[s->count++];
    *source = (struct source){.part = {.run = elems, .stride = elems, .until = elems},
                              .dtype = tensor->dtype,
                              .file = &file->file,
                              .bytes = (const char *)dt_tensor_bytes(file, tensor) +
                                       t->first * (t->transposed ? 1 : t->columns) * dt_dtype_bytes(tensor->dtype),
                              .columns = t->columns,
                              .step_elems = t->transposed ? rows : 0};
    snprintf(source->name, sizeof source->name, "%s", t->ours);
    return DT_OK;
}

static dt_status open_model(struct sources *s, const char *path, const struct dt_model *model)
{
    char config[PATH_MAX];
    const struct dt_model_dialect *dialect;
    struct dt_foreign_tensor tensor;
    int count = 0;
    *s = (struct sources){.may_lack_rows = true};
    path_of(path, CONFIG, config);
    DT_TRY(model_check_from(config, model, &dialect));
    DT_TRY(open_files(s, path));
    while (model->family->foreign_tensor(model, dialect, count, &tensor))
        count++;
    s->all = calloc((size_t)count + 1, sizeof *s->all);
    DT_TRY(dt_allocated(s->all, "no host memory for %d tensors", count));
    while (model->family->foreign_tensor(model, dialect, s->count, &tensor))
        DT_TRY(add_tensor(s, &tensor, dialect->base));
    sources_sort(s);
    return DT_OK;
}

/* ---- whichever it is ---- */

static dt_status check_model(const struct checkpoint_index *index, const struct dt_model *model)
{
    char text[sizeof index->model];
    checkpoint_model_text(model, text, sizeof text);
    if (strcmp(text, index->model) != 0)
        return dt_fail(DT_ERR_INVALID, "the checkpoint is of another model: %s; this one is %s", index->model, text);
    return *index->shape ? model_shape_check(index->shape, "the checkpoint is of another model", model) : DT_OK;
}

dt_status sources_open(struct sources *s, const char *path, const struct dt_model *model, struct checkpoint_index *index)
{
    *s = (struct sources){0};
    *index = (struct checkpoint_index){0};
    if (is_hugging_face_folder(path))
        return open_model(s, path, model);
    DT_TRY(checkpoint_index_read(path, index));
    DT_TRY(check_model(index, model));
    return sources_open_checkpoint(s, path, index);
}
