/* A model's parameters as a Hugging Face folder. */
#include "lib/base/output_file.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "schedules/checkpoint/hugging_face.h"
#include "schedules/checkpoint/internal.h"
#include "schedules/config/model_from.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct writing {
    const struct experiment *experiment;
    const char *folder;
    const struct dt_model_dialect *dialect;
    struct sources sources;
    struct dt_foreign_tensor *ours; /* [count] */
    int count;
    struct dt_tensor *theirs; /* [tensor_count] each once, in the sequence of ours */
    int *file;                /* [tensor_count] the file that each tensor is in, from 0 */
    int tensor_count, file_count;
    struct cJSON *map; /* of the index */
};

/* ---- what goes where ---- */

static dt_status list_ours(struct writing *w)
{
    const struct dt_model *model = &w->experiment->model;
    struct dt_foreign_tensor tensor;
    while (model->family->foreign_tensor(model, w->dialect, w->count, &tensor))
        w->count++;
    w->ours = calloc((size_t)w->count + 1, sizeof *w->ours);
    w->theirs = calloc((size_t)w->count + 1, sizeof *w->theirs);
    w->file = calloc((size_t)w->count + 1, sizeof *w->file);
    w->map = dt_json_object("");
    DT_TRY(dt_allocated(w->ours && w->theirs && w->file ? w->map : NULL, "no host memory for %d tensors", w->count));
    for (int i = 0; i < w->count; i++)
        model->family->foreign_tensor(model, w->dialect, i, &w->ours[i]);
    return DT_OK;
}

static int place_of(const struct writing *w, const char *theirs)
{
    int i = 0;
    while (i < w->tensor_count && strcmp(w->theirs[i].name, theirs) != 0)
        i++;
    return i;
}

/* A new file begins with the tensor that would make the last one too long. */
static void list_theirs(struct writing *w, uint64_t most_bytes, uint64_t *all_bytes)
{
    uint64_t in_file = 0;
    w->file_count = 1;
    for (const struct dt_foreign_tensor *t = w->ours; t < w->ours + w->count; t++) {
        int place = place_of(w, t->theirs);
        if (place < w->tensor_count)
            continue;
        struct dt_tensor *tensor = &w->theirs[w->tensor_count++];
        *tensor = (struct dt_tensor){.dtype = w->experiment->model.dtype, .dimensions = t->columns > 1 ? 2 : 1};
        tensor->shape[t->transposed] = t->their_rows;
        tensor->shape[!t->transposed] = t->columns;
        snprintf(tensor->name, sizeof tensor->name, "%s", t->theirs);
        uint64_t bytes = dt_tensor_elems(tensor) * dt_dtype_bytes(tensor->dtype);
        if (in_file > 0 && in_file + bytes > most_bytes) {
            w->file_count++;
            in_file = 0;
        }
        in_file += bytes;
        *all_bytes += bytes;
        w->file[place] = w->file_count - 1;
    }
}

static void name_file(const struct writing *w, int file, char out[64])
{
    if (w->file_count == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", file + 1, w->file_count);
}

/* ---- elements ---- */

/* Collect the elements of their tensor's rows from one of our tensors. made: the buffer that is
 * filled, [rows, columns]. */
static dt_status collect(const struct writing *w, const struct dt_foreign_tensor *t, char *made, char *theirs)
{
    char master[DT_TENSOR_NAME];
    int count;
    size_t bytes = dt_dtype_bytes(w->experiment->model.dtype), elems = t->rows * t->columns;
    struct dt_tensor_part whole = {.run = elems, .stride = elems, .until = elems};
    snprintf(master, sizeof master, MASTER_PREFIX "%s", t->ours);
    const struct source *found = sources_find(&w->sources, master, &count);
    if (!found)
        found = sources_find(&w->sources, t->ours, &count);
    if (!found)
        return dt_fail(DT_ERR_INVALID, "no file has the tensor %s", t->ours);
    const struct wanted wanted = {t->ours, w->experiment->model.dtype, &whole};
    if (!t->transposed)
        return sources_collect(&w->sources, &wanted, found, count, 0, elems, theirs + t->first * t->columns * bytes);
    DT_TRY(sources_collect(&w->sources, &wanted, found, count, 0, elems, made));
    for (size_t row = 0; row < t->rows; row++)
        for (size_t column = 0; column < t->columns; column++)
            memcpy(theirs + (column * t->their_rows + t->first + row) * bytes, made + (row * t->columns + column) * bytes, bytes);
    return DT_OK;
}

static dt_status write_tensor(const struct writing *w, const struct dt_tensor *tensor, FILE *to)
{
    DT_FREED char *theirs = malloc(tensor->bytes), *made = malloc(tensor->bytes);
    DT_TRY(dt_allocated(theirs && made ? theirs : NULL, "no host memory for the tensor %s", tensor->name));
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->ours[i].theirs, tensor->name) == 0)
            DT_TRY(collect(w, &w->ours[i], made, theirs));
    fwrite(theirs, 1, tensor->bytes, to);
    return DT_OK;
}

/* The tensors of one file are consecutive in the list. */
static dt_status write_tensors(const struct writing *w, struct dt_tensor *first, int count, FILE *to)
{
    DT_FREED char *header = NULL;
    size_t bytes;
    DT_TRY(dt_tensor_header(first, count, &header, &bytes));
    fwrite(header, 1, bytes, to);
    for (int i = 0; i < count; i++)
        DT_TRY(write_tensor(w, &first[i], to));
    return DT_OK;
}

static dt_status write_file(struct writing *w, int file)
{
    char name[64], path[PATH_MAX];
    struct dt_output_file out;
    int first = 0, count = 0;
    while (w->file[first] < file)
        first++;
    while (first + count < w->tensor_count && w->file[first + count] == file)
        count++;
    name_file(w, file, name);
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    DT_TRY(dt_output_open(path, &out));
    dt_status status = write_tensors(w, &w->theirs[first], count, out.stream);
    dt_status closed = dt_output_close(&out, status == DT_OK);
    for (int i = first; i < first + count; i++)
        dt_json_add(&w->map, "%s: %s", w->theirs[i].name, name);
    return status < 0 ? status : closed;
}

/* ---- the folder ---- */

/* Owns the tree, also after a failure. */
static dt_status write_json(const struct writing *w, const char *name, struct cJSON *tree)
{
    char path[PATH_MAX];
    DT_FREED char *text = NULL;
    dt_status status = dt_allocated(tree, "no host memory for %s", name);
    DT_THEN(status, dt_json_print(tree, DT_JSON_INDENT, &text));
    dt_json_destroy(tree);
    DT_TRY(status);
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    return dt_output_write(path, text);
}

static dt_status write_weights(struct writing *w, uint64_t bytes)
{
    for (int i = 0; i < w->file_count; i++)
        DT_TRY(write_file(w, i));
    if (w->file_count <= 1)
        return DT_OK;
    return write_json(w, "model.safetensors.index.json",
                      dt_json_object("metadata: {total_size: %g}, weight_map: %p", (double)bytes, DT_PASSED_ON(w->map)));
}

static dt_status make_folder(const char *folder)
{
    if (is_hugging_face_folder(folder) || checkpoint_exists(folder))
        return dt_fail(DT_ERR_IO, "%s: a model is there; give another folder", folder);
    return mkdir(folder, 0777) == 0 || errno == EEXIST ? DT_OK : dt_fail(DT_ERR_IO, "%s: %s", folder, strerror(errno));
}

static const char *their_dtype(enum dt_dtype dtype)
{
    static const char *const names[] = {[DT_FP32] = "float32", [DT_FP16] = "float16", [DT_BF16] = "bfloat16"};
    return names[dtype];
}

static dt_status export(struct writing *w, const char *path, uint64_t most_bytes, struct checkpoint_exported *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *config = NULL;
    struct checkpoint_index index;
    DT_TRY(model_to_hugging_face(&w->experiment->model, &config, &w->dialect));
    dt_json_put(config, "torch_dtype", dt_json_text(their_dtype(w->experiment->model.dtype)));
    dt_status status = sources_open(&w->sources, path, &w->experiment->model, &index);
    free(index.bytes);
    DT_TRY(status);
    DT_TRY(list_ours(w));
    DT_TRY(make_folder(w->folder));
    list_theirs(w, most_bytes, &out->bytes);
    out->files = w->file_count;
    out->type = w->dialect->type;
    out->architecture = w->dialect->architecture;
    DT_TRY(write_weights(w, out->bytes));
    return write_json(w, "config.json", DT_PASSED_ON(config)); /* last: a folder without one is no model */
}

dt_status checkpoint_export(const struct experiment *e, const char *path, const char *folder, uint64_t most_bytes,
                            struct checkpoint_exported *out)
{
    struct writing w = {.experiment = e, .folder = folder};
    *out = (struct checkpoint_exported){0};
    dt_status status = export(&w, path, most_bytes, out);
    sources_close(&w.sources);
    free(w.ours);
    free(w.theirs);
    free(w.file);
    dt_json_destroy(w.map);
    return status;
}
