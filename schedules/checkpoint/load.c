#include "schedules/checkpoint/parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 8 << 20 };

/* A part of a tensor in a file. */
struct source {
    char name[DT_TENSOR_NAME]; /* of the tensor */
    struct dt_tensor_part part;
    enum dt_dtype dtype;
    const char *bytes; /* the part's elements */
};

struct sources {
    struct dt_tensor_file *files; /* [file_count] */
    int file_count;
    struct source *all; /* [count] sorted by name */
    int count;
};

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct source *)left)->name, ((const struct source *)right)->name);
}

static void sources_close(struct sources *s)
{
    for (int i = 0; i < s->file_count; i++)
        dt_tensor_file_close(&s->files[i]);
    free(s->files);
    free(s->all);
    *s = (struct sources){0};
}

static struct source source_of(const struct dt_tensor_file *file, const struct dt_tensor *tensor)
{
    struct source source = {.dtype = tensor->dtype, .bytes = dt_tensor_bytes(file, tensor)};
    uint64_t elems = dt_tensor_elems(tensor);
    if (dt_tensor_part_read(tensor->name, source.name, sizeof source.name, &source.part))
        return source;
    memcpy(source.name, tensor->name, sizeof source.name);
    source.part = (struct dt_tensor_part){.run = elems, .stride = elems, .until = elems};
    return source;
}

/* A part that is longer than its tensor is nobody's. */
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
    qsort(s->all, (size_t)s->count, sizeof *s->all, compare_names);
    return DT_OK;
}

static dt_status open_files(struct sources *s, const char *path, const struct checkpoint_index *index)
{
    char name[PATH_MAX];
    s->files = calloc((size_t)index->count + 1, sizeof *s->files);
    DT_TRY(dt_allocated(s->files, "no host memory for %d files", index->count));
    for (int i = 0; i < index->count; i++) {
        checkpoint_file_name(path, index->folder, i, name, sizeof name);
        DT_TRY(dt_tensor_file_open(name, &s->files[s->file_count]));
        double bytes = (double)s->files[s->file_count++].file.size_bytes;
        if (bytes != index->bytes[i])
            return dt_fail(DT_ERR_INVALID, "%s: %.0f bytes, and the index says %.0f: the file is cut off, or another one", name, bytes,
                           index->bytes[i]);
    }
    return list_sources(s, path);
}

/* ---- elements ---- */

/* All parts of the tensor of that name. */
static const struct source *find(const struct sources *s, const char *name, int *count)
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

/* Elements of one type as another's. */
static void convert(enum dt_dtype from_dtype, const char *from, enum dt_dtype dtype, char *to, size_t count)
{
    size_t from_bytes = dt_dtype_bytes(from_dtype), bytes = dt_dtype_bytes(dtype);
    if (from_dtype == dtype) {
        memcpy(to, from, count * bytes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float wide = element(from_dtype, from + i * from_bytes);
        uint16_t bits = dtype == DT_FP16 ? dt_fp32_to_fp16(wide) : dt_fp32_to_bf16(wide);
        memcpy(to + i * bytes, dtype == DT_FP32 ? (const void *)&wide : &bits, bytes);
    }
}

/* Elements [k, k + count) of the piece to `to`. sources [source_count] have its tensor's parts. */
static dt_status collect(const struct piece *piece, const struct source *sources, int source_count, uint64_t k, uint64_t count, char *to)
{
    size_t bytes = dt_dtype_bytes(piece->dtype);
    int last = 0; /* the next elements are mostly where these were */
    for (uint64_t end = k + count, length, in_source, at_source; k < end; k += length, to += length * bytes) {
        uint64_t at = dt_tensor_part_at(&piece->part, k, &length);
        const struct source *found = NULL;
        for (int i = 0; i < source_count && !found; i++, last += found ? 0 : 1) {
            last %= source_count;
            found = dt_tensor_part_find(&sources[last].part, at, &at_source, &in_source) ? &sources[last] : NULL;
        }
        if (!found)
            return dt_fail(DT_ERR_INVALID, "no file has element %" PRIu64 " of %s", at, piece->name);
        length = length < in_source ? length : in_source;
        length = length < end - k ? length : end - k;
        convert(found->dtype, found->bytes + (at_source - found->part.from) * dt_dtype_bytes(found->dtype), piece->dtype, to, length);
    }
    return DT_OK;
}

/* A master copy that the checkpoint has none of is made of the parameter itself. */
static const struct source *find_of_piece(const struct sources *s, const struct piece *piece, int *count)
{
    const struct source *own = find(s, piece->name, count);
    bool master = strncmp(piece->name, MASTER_PREFIX, strlen(MASTER_PREFIX)) == 0;
    return *count == 0 && master ? find(s, piece->name + strlen(MASTER_PREFIX), count) : own;
}

static dt_status load_piece(const struct checkpoint_rank *rank, const struct sources *s, const struct piece *piece, char *chunk)
{
    int count;
    const struct source *sources = find_of_piece(s, piece, &count);
    size_t bytes = dt_dtype_bytes(piece->dtype);
    bool on_host = pieces_are_on_host(rank);
    if (count == 0)
        return dt_fail(DT_ERR_INVALID, "no file has the tensor %s", piece->name);
    for (uint64_t k = piece->part.from, step; k < piece->part.until; k += step) {
        step = piece->part.until - k < CHUNK_BYTES / bytes ? piece->part.until - k : CHUNK_BYTES / bytes;
        char *to = (char *)piece->data + (k - piece->part.from) * bytes;
        DT_TRY(collect(piece, sources, count, k, step, on_host ? to : chunk));
        if (on_host)
            continue;
        DT_TRY(dt_copy_from_host(rank->stream, to, chunk, step * bytes));
        DT_TRY(dt_stream_synchronize(rank->stream));
    }
    return DT_OK;
}

static dt_status load_pieces(const struct checkpoint_rank *rank, const struct sources *s)
{
    struct pieces pieces;
    char *chunk = malloc(CHUNK_BYTES);
    dt_status status = pieces_find(rank, &pieces);
    if (status == DT_OK)
        status = dt_allocated(chunk, "no host memory for reading a checkpoint");
    for (int i = 0; i < pieces.count && status == DT_OK; i++)
        status = load_piece(rank, s, &pieces.all[i], chunk);
    pieces_finish(&pieces);
    free(chunk);
    return status;
}

/* ---- a checkpoint ---- */

/* The loss scale is of runs that find it as they go. */
static void take_norm(const struct checkpoint_rank *rank, const struct checkpoint_index *index)
{
    if (!rank->norm || index->loss_scale <= 0)
        return;
    rank->norm->skipped = (uint32_t)index->skipped_steps;
    if (!experiment_scales_dynamically(rank->experiment))
        return;
    rank->norm->loss_scale = (float)index->loss_scale;
    rank->norm->good = (uint32_t)index->good_steps;
}

static dt_status check_index(const struct checkpoint_rank *rank, const struct checkpoint_index *index)
{
    const struct experiment *e = rank->experiment;
    char model[sizeof index->model];
    checkpoint_model_text(&e->model, model, sizeof model);
    if (strcmp(model, index->model) != 0)
        return dt_fail(DT_ERR_INVALID, "the checkpoint is of another model: %s; this one is %s", index->model, model);
    if (experiment_is_adam(e) && strcmp(index->optimizer, "adam") != 0)
        return dt_fail(DT_ERR_INVALID, "the checkpoint has no state of adam: it is one of %s", index->optimizer);
    return DT_OK;
}

static dt_status load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    struct checkpoint_index index;
    struct sources sources = {0};
    DT_TRY(checkpoint_index_read(path, &index));
    *steps = index.steps;
    dt_status status = check_index(rank, &index);
    if (status == DT_OK)
        status = open_files(&sources, path, &index);
    if (status == DT_OK)
        status = load_pieces(rank, &sources);
    if (status == DT_OK)
        take_norm(rank, &index);
    sources_close(&sources);
    free(index.bytes);
    return status;
}

dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    char why[1024];
    dt_status status = load(path, rank, steps);
    snprintf(why, sizeof why, "%s", dt_error_message());
    if (status < 0)
        status = dt_fail(DT_ERR_INVALID, "checkpoint.from: %s: %.900s", path, why);
    return checkpoint_agree(rank->world, status, DT_ERR_INVALID, "checkpoint.from");
}
