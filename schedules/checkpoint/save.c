#include "lib/base/machine.h"
#include "schedules/checkpoint/internal.h"
#include "schedules/config/model_from.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 8 << 20 };

/* A file that is being written. */
struct writer {
    struct dt_stream *stream; /* for copies of what is on a device; NULL: all is in host memory */
    char name[PATH_MAX];
    int file;
    char *chunk; /* [CHUNK_BYTES]; NULL without a stream */
    uint64_t bytes, begun_bytes;
};

static dt_status fail(const struct writer *w)
{
    return dt_fail(DT_ERR_IO, "cannot write %s: %s", w->name, strerror(errno));
}

/* Have the system start writing what it has received: the disk then works while the rest is copied,
 * and fsync has little to do. This is a hint; failure is ignored. */
static void begin_writeback(struct writer *w)
{
    if (w->bytes - w->begun_bytes < CHUNK_BYTES)
        return;
    sync_file_range(w->file, (off_t)w->begun_bytes, (off_t)(w->bytes - w->begun_bytes), SYNC_FILE_RANGE_WRITE);
    w->begun_bytes = w->bytes;
}

static dt_status write_bytes(struct writer *w, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(w->file, from, bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(w);
        from += written;
        bytes -= (size_t)written;
        w->bytes += (uint64_t)written;
        begin_writeback(w);
    }
    return DT_OK;
}

static dt_status write_piece(struct writer *w, const struct piece *piece)
{
    size_t bytes = piece_bytes(piece);
    if (!w->stream)
        return write_bytes(w, piece->data, bytes);
    for (size_t done = 0, step; done < bytes; done += step) {
        step = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        DT_TRY(dt_copy_to_host(w->stream, w->chunk, (const char *)piece->data + done, step));
        DT_TRY(dt_stream_synchronize(w->stream));
        DT_TRY(write_bytes(w, w->chunk, step));
    }
    return DT_OK;
}

/* ---- what a file has ---- */

static bool is_own(const struct piece *piece)
{
    return piece->own;
}

/* What this rank saves, in the order of its file. */
static dt_status find_own(const struct checkpoint_rank *rank, struct pieces *out)
{
    dt_status status = pieces_find(rank, out);
    pieces_keep(out, is_own);
    return status;
}

/* A tensor that is stored whole keeps its shape, so that other programs can read it. */
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
    DT_FREED char *header = NULL;
    size_t bytes;
    DT_FREED struct dt_tensor *entries = calloc((size_t)pieces->count + 1, sizeof *entries);
    DT_TRY(dt_allocated(entries, "no host memory for the header of %d tensors", pieces->count));
    for (int i = 0; i < pieces->count; i++)
        entries[i] = entry_of(&pieces->all[i]);
    DT_TRY(dt_tensor_header(entries, pieces->count, &header, &bytes));
    return write_bytes(w, header, bytes);
}

static dt_status write_all(struct writer *w, const struct pieces *pieces)
{
    DT_TRY(write_header(w, pieces));
    for (int i = 0; i < pieces->count; i++)
        DT_TRY(write_piece(w, &pieces->all[i]));
    return fsync(w->file) == 0 ? DT_OK : fail(w);
}

/* A save of this rank: where to, and what. */
struct job {
    char path[512], folder[64];
    int steps, rank, size;
    struct pieces pieces;
    struct dt_stream *stream; /* as of struct writer */
};

/* Write the rank's file. It gets its name only when it is on the disk: a file with its name is
 * complete. */
static dt_status write_file(const struct job *job, uint64_t *bytes)
{
    struct writer w = {.stream = job->stream, .chunk = job->stream ? malloc(CHUNK_BYTES) : NULL};
    char made[PATH_MAX], named[PATH_MAX];
    checkpoint_file_name(job->path, job->folder, job->rank, named, sizeof named);
    snprintf(w.name, sizeof w.name, "%.4000s~", named);
    snprintf(made, sizeof made, "%s/%s", job->path, job->folder);
    dt_status status = job->stream ? dt_allocated(w.chunk, "no host memory for writing a checkpoint") : DT_OK;
    if (status == DT_OK && mkdir(made, 0777) < 0 && errno != EEXIST)
        status = fail(&w);
    w.file = status == DT_OK ? open(w.name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    DT_THEN(status, w.file >= 0 ? write_all(&w, &job->pieces) : fail(&w));
    if (w.file >= 0 && close(w.file) < 0 && status == DT_OK)
        status = fail(&w);
    if (status == DT_OK && rename(w.name, named) < 0)
        status = fail(&w);
    DT_THEN(status, checkpoint_sync_folder(made));
    free(w.chunk);
    *bytes = w.bytes;
    return status;
}

/* ---- all ranks ---- */

/* Choose a folder other than that of the current checkpoint, which may be of the same step. */
static void name_folder(const char *path, int steps, char *out, size_t out_bytes)
{
    struct checkpoint_index before = {0};
    snprintf(out, out_bytes, "step-%d", steps);
    if (checkpoint_index_read(path, &before) == DT_OK && strcmp(before.folder, out) == 0)
        snprintf(out, out_bytes, "step-%d-again", steps);
    free(before.bytes);
}

/* Fill the index of this rank's run. Owner of out->bytes: the caller, free, also after a
 * failure. */
static dt_status describe(const struct checkpoint_rank *rank, struct checkpoint_index *out)
{
    DT_FREED char *shape = NULL;
    *out = (struct checkpoint_index){.count = dt_comm_size(rank->world)};
    snprintf(out->optimizer, sizeof out->optimizer, "%s", experiment_is_adam(rank->experiment) ? "adam" : "sgd");
    checkpoint_model_text(&rank->experiment->model, out->model, sizeof out->model);
    DT_TRY(model_shape_write(&rank->experiment->model, &shape));
    snprintf(out->shape, sizeof out->shape, "%s", shape);
    out->bytes = calloc((size_t)out->count, sizeof *out->bytes);
    return dt_allocated(out->bytes, "no host memory for %d ranks", out->count);
}

/* Add the state of the gradients' norm at this step. */
static void add_norm(const struct checkpoint_rank *rank, struct checkpoint_index *index)
{
    if (!rank->norm)
        return;
    index->loss_scale = (double)rank->norm->loss_scale;
    index->good_steps = rank->norm->good;
    index->skipped_steps = rank->norm->skipped;
}

/* Rank 0 writes the index, after all files are complete. */
static dt_status finish(const struct job *job, struct checkpoint_index *index)
{
    index->steps = job->steps;
    snprintf(index->folder, sizeof index->folder, "%s", job->folder);
    DT_TRY(checkpoint_sync_folder(job->path));
    DT_TRY(checkpoint_index_write(job->path, index));
    checkpoint_folder_clean(job->path, job->folder);
    return DT_OK;
}

/* Rank 0 sends the folder's name to the others. */
static dt_status agree_on_folder(const struct checkpoint_rank *rank, const char *path, int steps, char folder[64])
{
    int size = dt_comm_size(rank->world);
    DT_FREED char(*all)[64] = calloc((size_t)size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", size));
    memset(folder, 0, 64);
    if (dt_comm_rank(rank->world) == 0)
        name_folder(path, steps, folder, 64);
    DT_TRY(dt_host_all_gather(rank->world, folder, 64, all));
    memcpy(folder, all[0], 64);
    return DT_OK;
}

static dt_status begin(const struct checkpoint_folder *f, const struct checkpoint_rank *rank, int steps, struct job *job)
{
    *job = (struct job){.steps = steps,
                        .rank = dt_comm_rank(rank->world),
                        .size = dt_comm_size(rank->world),
                        .stream = pieces_are_on_host(rank) ? NULL : rank->stream};
    snprintf(job->path, sizeof job->path, "%s", f->path);
    return agree_on_folder(rank, f->path, steps, job->folder);
}

/* After a failure, remove what the ranks have written: it would fill the disk until the next run.
 * All ranks wait for that: a launcher ends the others when one has ended. */
static dt_status end(struct dt_comm *world, const char *path, dt_status status)
{
    struct checkpoint_index kept = {0};
    status = checkpoint_agree(world, status, DT_ERR_IO);
    if (status == DT_OK || status == DT_ERR_COMM)
        return status;
    char why[1024];
    snprintf(why, sizeof why, "%s", dt_error_message());
    if (dt_comm_rank(world) == 0 && (!checkpoint_exists(path) || checkpoint_index_read(path, &kept) == DT_OK))
        checkpoint_folder_clean(path, kept.folder);
    free(kept.bytes);
    checkpoint_agree(world, DT_OK, DT_ERR_IO);
    return dt_fail(status, "%s", why);
}

static dt_status save(const struct checkpoint_rank *rank, struct job *job, struct checkpoint_index *index, uint64_t *bytes)
{
    dt_status status = find_own(rank, &job->pieces);
    DT_THEN(status, write_file(job, bytes));
    pieces_finish(&job->pieces);
    DT_TRY(end(rank->world, job->path, status));
    double mine = (double)*bytes;
    status = dt_host_gather(rank->world, &mine, sizeof mine, index->bytes);
    if (status == DT_OK && job->rank == 0)
        status = finish(job, index);
    return end(rank->world, job->path, status);
}

dt_status checkpoint_save(const struct checkpoint_folder *f, const struct checkpoint_rank *rank, int steps, uint64_t *bytes)
{
    struct job job;
    struct checkpoint_index index;
    *bytes = 0;
    DT_TRY(begin(f, rank, steps, &job));
    dt_status status = describe(rank, &index);
    add_norm(rank, &index);
    DT_THEN(status, save(rank, &job, &index, bytes));
    free(index.bytes);
    return status;
}

/* ---- saving while the next steps run ---- */

struct checkpoint_copy {
    struct dt_buffer bytes;    /* of all pieces, one after the other */
    struct dt_stream *copying; /* this and the event: NULL on a simulated device */
    struct dt_event *copied;
    enum { NOTHING, QUEUED, BESIDE_A_STEP, WRITTEN } copies; /* state of the copies; a thread writes them after a step */
    struct job job;                                          /* of the save that is being written; its pieces are in `bytes` */
    struct checkpoint_index index;
    uint64_t file_bytes;
    bool threaded; /* a thread runs, and must be joined */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool written, given_up; /* this rank's file is written; the other ranks' files will not come */
    dt_status status;       /* of this rank's file, and then of the index */
    char error[1024];
};

static void note(struct checkpoint_copy *c, dt_status status)
{
    pthread_mutex_lock(&c->mutex);
    c->written = true;
    c->status = status;
    if (status < 0)
        snprintf(c->error, sizeof c->error, "%s", dt_error_message());
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static bool has_given_up(struct checkpoint_copy *c)
{
    pthread_mutex_lock(&c->mutex);
    bool given_up = c->given_up;
    pthread_mutex_unlock(&c->mutex);
    return given_up;
}

/* Runs in rank 0's thread, which cannot use communicators: it waits for the files' names, since a
 * file with its name is complete. */
static bool wait_for_files(struct checkpoint_copy *c)
{
    char name[PATH_MAX];
    struct stat facts;
    const struct timespec a_moment = {.tv_nsec = 5000000};
    for (int rank = 0; rank < c->job.size; rank++) {
        checkpoint_file_name(c->job.path, c->job.folder, rank, name, sizeof name);
        while (stat(name, &facts) < 0) {
            if (has_given_up(c))
                return false;
            nanosleep(&a_moment, NULL);
        }
        c->index.bytes[rank] = (double)facts.st_size;
    }
    return true;
}

static void *write_beside(void *argument)
{
    struct checkpoint_copy *c = argument;
    dt_status status = write_file(&c->job, &c->file_bytes);
    note(c, status);
    if (status == DT_OK && c->job.rank == 0 && wait_for_files(c))
        note(c, finish(&c->job, &c->index));
    return NULL;
}

/* Touch the memory once, so that the first save does not wait for its pages. */
static dt_status allocate(struct checkpoint_copy *c, const struct checkpoint_rank *rank, size_t bytes)
{
    DT_TRY(dt_alloc_host(rank->stream, DT_WORKSPACE, bytes, &c->bytes));
    if (dt_device_kind_of(dt_stream_device(rank->stream))->simulated)
        return DT_OK;
    DT_TRY(dt_stream_create(dt_stream_device(rank->stream), "checkpoint", &c->copying));
    DT_TRY(dt_event_create(dt_stream_device(rank->stream), &c->copied));
    if (bytes == 0) /* other ranks save the same */
        return DT_OK;
    DT_TRY(dt_stream_synchronize(rank->stream)); /* for the host's reads, too */
    memset(c->bytes.data, 0, bytes);
    return DT_OK;
}

dt_status checkpoint_copy_create(const struct checkpoint_rank *rank, struct checkpoint_copy **out)
{
    struct checkpoint_copy *c = *out = calloc(1, sizeof *c);
    DT_TRY(dt_allocated(c, "no host memory for a copy of a checkpoint"));
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    DT_TRY(describe(rank, &c->index));
    DT_TRY(find_own(rank, &c->job.pieces));
    size_t bytes = 0;
    for (int i = 0; i < c->job.pieces.count; i++)
        bytes += piece_bytes(&c->job.pieces.all[i]);
    return allocate(c, rank, bytes);
}

static void join(struct checkpoint_copy *c)
{
    if (c->threaded)
        pthread_join(c->thread, NULL);
    c->threaded = false;
}

void checkpoint_copy_destroy(struct checkpoint_copy *c, struct dt_stream *stream)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->given_up = true;
    pthread_mutex_unlock(&c->mutex);
    join(c);
    dt_event_destroy(c->copied);
    dt_stream_destroy(c->copying);
    dt_free(stream, &c->bytes);
    pieces_finish(&c->job.pieces);
    free(c->index.bytes);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

/* Copy what the rank holds now; the job's pieces then point into the copy. */
static dt_status take_copy(const struct checkpoint_rank *rank, struct checkpoint_copy *c, struct job *job)
{
    char *to = c->bytes.data;
    DT_TRY(find_own(rank, &job->pieces));
    job->stream = NULL; /* the copy is in host memory */
    for (struct piece *p = job->pieces.all; p < job->pieces.all + job->pieces.count; p++) {
        if (rank->experiment->parameter_offload)
            memcpy(to, p->data, piece_bytes(p));
        else
            DT_TRY(dt_copy_to_host(p->state ? rank->stream : c->copying, to, p->data, piece_bytes(p)));
        p->data = to;
        to += piece_bytes(p);
    }
    DT_TRY(dt_stream_follow(c->copying, rank->stream));
    return dt_event_record(c->copied, c->copying);
}

/* Errors of this function are reported by the wait. */
static void start(struct checkpoint_copy *c)
{
    dt_status status = dt_stream_synchronize(c->copying);
    c->copies = WRITTEN;
    c->written = c->given_up = false;
    c->status = DT_OK;
    c->threaded = status == DT_OK && dt_thread_start(&c->thread, write_beside, c) == 0;
    if (!c->threaded)
        note(c, status < 0 ? status : dt_fail(DT_ERR_HOST_MEMORY, "no thread can be started to write a checkpoint"));
}

const struct dt_event *checkpoint_copied(const struct checkpoint_copy *copy)
{
    return copy->copied;
}

void checkpoint_copy_begin_step(struct checkpoint_copy *c)
{
    if (c->copies == BESIDE_A_STEP)
        start(c);
    if (c->copies == QUEUED)
        c->copies = BESIDE_A_STEP;
}

dt_status checkpoint_save_beside(const struct checkpoint_folder *f, const struct checkpoint_rank *rank, struct checkpoint_copy *c,
                                 int steps, uint64_t *bytes)
{
    struct job job;
    DT_TRY(begin(f, rank, steps, &job));
    dt_status status = take_copy(rank, c, &job);
    pieces_finish(&c->job.pieces);
    c->job = job;
    add_norm(rank, &c->index);
    c->copies = QUEUED;
    *bytes = c->bytes.bytes;
    return checkpoint_agree(rank->world, status, DT_ERR_IO);
}

dt_status checkpoint_copy_wait(struct checkpoint_copy *c, struct dt_comm *world)
{
    if (c->copies == QUEUED || c->copies == BESIDE_A_STEP)
        start(c);
    if (c->copies == NOTHING)
        return DT_OK;
    c->copies = NOTHING;
    pthread_mutex_lock(&c->mutex);
    while (!c->written)
        pthread_cond_wait(&c->changed, &c->mutex);
    dt_status status = c->status < 0 ? dt_fail(c->status, "%s", c->error) : DT_OK;
    pthread_mutex_unlock(&c->mutex);
    status = end(world, c->job.path, status);
    pthread_mutex_lock(&c->mutex);
    c->given_up = status < 0;
    pthread_mutex_unlock(&c->mutex);
    join(c);
    DT_TRY(status);
    status = c->status < 0 ? dt_fail(c->status, "%s", c->error) : DT_OK;
    return end(world, c->job.path, status);
}
