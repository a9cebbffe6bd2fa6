#include "schedules/checkpoint/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 8 << 20 };

/* A file that is being written. */
struct writer {
    const struct checkpoint_rank *rank;
    char name[PATH_MAX];
    int file;
    char *chunk; /* [CHUNK_BYTES] */
    uint64_t bytes;
};

static dt_status fail(const struct writer *w)
{
    return dt_fail(DT_ERR_IO, "cannot write %s: %s", w->name, strerror(errno));
}

static dt_status write_bytes(struct writer *w, const char *from, size_t bytes)
{
    w->bytes += bytes;
    while (bytes > 0) {
        ssize_t written = write(w->file, from, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(w);
        from += written;
        bytes -= (size_t)written;
    }
    return DT_OK;
}

static dt_status write_piece(struct writer *w, const struct piece *piece)
{
    size_t bytes = (piece->part.until - piece->part.from) * dt_dtype_bytes(piece->dtype);
    if (pieces_are_on_host(w->rank))
        return write_bytes(w, piece->data, bytes);
    for (size_t done = 0, step; done < bytes; done += step) {
        step = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        DT_TRY(dt_copy_to_host(w->rank->stream, w->chunk, (const char *)piece->data + done, step));
        DT_TRY(dt_stream_synchronize(w->rank->stream));
        DT_TRY(write_bytes(w, w->chunk, step));
    }
    return DT_OK;
}

/* ---- what a file has ---- */

/* Wide elements first: then all of them lie at multiples of their size. */
static int compare(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    int sizes = (int)dt_dtype_bytes(b->dtype) - (int)dt_dtype_bytes(a->dtype);
    return sizes                      ? sizes
           : strcmp(a->name, b->name) ? strcmp(a->name, b->name)
                                      : (a->part.from > b->part.from) - (a->part.from < b->part.from);
}

static void keep_own(struct pieces *pieces)
{
    int kept = 0;
    for (int i = 0; i < pieces->count; i++)
        if (pieces->all[i].own)
            pieces->all[kept++] = pieces->all[i];
    pieces->count = kept;
    if (kept > 0)
        qsort(pieces->all, (size_t)kept, sizeof *pieces->all, compare);
}

/* A whole tensor has its shape, so that others' tools find it as they know it. */
static struct dt_tensor entry_of(const struct piece *piece)
{
    uint64_t count = piece->part.until - piece->part.from;
    struct dt_tensor entry = {.dtype = piece->dtype, .dimensions = 1, .shape = {count}};
    if (count < piece->rows * piece->columns) {
        dt_tensor_part_name(piece->name, &piece->part, entry.name, sizeof entry.name);
        return entry;
    }
    snprintf(entry.name, sizeof entry.name, "%s", piece->name);
    if (piece->columns > 1) {
        entry.dimensions = 2;
        entry.shape[0] = piece->rows;
        entry.shape[1] = piece->columns;
    }
    return entry;
}

static dt_status write_header(struct writer *w, const struct pieces *pieces)
{
    char *header;
    size_t bytes;
    struct dt_tensor *entries = calloc((size_t)pieces->count + 1, sizeof *entries);
    DT_TRY(dt_allocated(entries, "no host memory for the header of %d tensors", pieces->count));
    for (int i = 0; i < pieces->count; i++)
        entries[i] = entry_of(&pieces->all[i]);
    dt_status status = dt_tensor_header(entries, pieces->count, &header, &bytes);
    free(entries);
    DT_TRY(status);
    status = write_bytes(w, header, bytes);
    free(header);
    return status;
}

static dt_status write_all(struct writer *w, const struct pieces *pieces)
{
    DT_TRY(write_header(w, pieces));
    for (int i = 0; i < pieces->count; i++)
        DT_TRY(write_piece(w, &pieces->all[i]));
    return fsync(w->file) == 0 ? DT_OK : fail(w);
}

/* This rank's file, on the disk with its name. */
static dt_status write_file(const struct checkpoint_rank *rank, const char *path, const char *folder, uint64_t *bytes)
{
    struct pieces pieces;
    struct writer w = {.rank = rank, .chunk = malloc(CHUNK_BYTES)};
    char made[PATH_MAX];
    checkpoint_file_name(path, folder, dt_comm_rank(rank->world), w.name, sizeof w.name);
    snprintf(made, sizeof made, "%s/%s", path, folder);
    dt_status status = pieces_find(rank, &pieces);
    if (status == DT_OK)
        status = dt_allocated(w.chunk, "no host memory for writing a checkpoint");
    keep_own(&pieces);
    if (status == DT_OK && mkdir(made, 0777) < 0 && errno != EEXIST)
        status = fail(&w);
    w.file = status == DT_OK ? open(w.name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (status == DT_OK)
        status = w.file >= 0 ? write_all(&w, &pieces) : fail(&w);
    if (w.file >= 0 && close(w.file) < 0 && status == DT_OK)
        status = fail(&w);
    if (status == DT_OK)
        status = checkpoint_sync_folder(made);
    free(w.chunk);
    pieces_finish(&pieces);
    *bytes = w.bytes;
    return status;
}

/* ---- all ranks ---- */

/* Another one than that of the checkpoint that counts, which may be of the same step. */
static void name_folder(const char *path, int steps, char *out, size_t out_bytes)
{
    struct checkpoint_index before = {0};
    snprintf(out, out_bytes, "step-%d", steps);
    if (checkpoint_index_read(path, &before) == DT_OK && strcmp(before.folder, out) == 0)
        snprintf(out, out_bytes, "step-%d-again", steps);
    free(before.bytes);
}

/* Rank 0: the index, after all files. */
static dt_status finish(const struct checkpoint_rank *rank, const char *path, const char *folder, int steps, double *bytes)
{
    struct checkpoint_index index = {.steps = steps, .count = dt_comm_size(rank->world), .bytes = bytes};
    snprintf(index.folder, sizeof index.folder, "%s", folder);
    snprintf(index.optimizer, sizeof index.optimizer, "%s", experiment_is_adam(rank->experiment) ? "adam" : "sgd");
    if (rank->norm) {
        index.loss_scale = (double)rank->norm->loss_scale;
        index.good_steps = rank->norm->good;
        index.skipped_steps = rank->norm->skipped;
    }
    checkpoint_model_text(&rank->experiment->model, index.model, sizeof index.model);
    DT_TRY(checkpoint_sync_folder(path));
    DT_TRY(checkpoint_index_write(path, &index));
    checkpoint_folder_clean(path, folder);
    return DT_OK;
}

/* What rank 0 has named reaches the others. */
static dt_status agree_on_folder(const struct checkpoint_rank *rank, const char *path, int steps, char folder[64])
{
    int size = dt_comm_size(rank->world);
    char(*all)[64] = calloc((size_t)size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", size));
    memset(folder, 0, 64);
    if (dt_comm_rank(rank->world) == 0)
        name_folder(path, steps, folder, 64);
    dt_status status = dt_host_all_gather(rank->world, folder, 64, all);
    memcpy(folder, all[0], 64);
    free(all);
    return status;
}

dt_status checkpoint_save(const struct checkpoint_folder *f, const struct checkpoint_rank *rank, int steps, uint64_t *bytes)
{
    char folder[64];
    int size = dt_comm_size(rank->world);
    DT_TRY(agree_on_folder(rank, f->path, steps, folder));
    dt_status status = write_file(rank, f->path, folder, bytes);
    DT_TRY(checkpoint_agree(rank->world, status, DT_ERR_IO, "saving a checkpoint"));
    double mine = (double)*bytes, *all = calloc((size_t)size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", size));
    status = dt_host_gather(rank->world, &mine, sizeof mine, all);
    if (status == DT_OK && dt_comm_rank(rank->world) == 0)
        status = finish(rank, f->path, folder, steps, all);
    free(all);
    return checkpoint_agree(rank->world, status, DT_ERR_IO, "saving a checkpoint");
}
