#include "lib/base/machine.h"
#include "schedules/checkpoint/hugging_face.h"
#include "schedules/checkpoint/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* THREADS: per rank. Storage is faster with several requests at once, and the first touch of a page
 * takes as long as reading it, since the system clears the page. */
enum { CHUNK_BYTES = 8 << 20, THREADS = 4 };

/* Elements [k, k + count) of a piece. */
struct chunk {
    const struct piece *piece;
    uint64_t k, count;
};

/* A chunk on its way to a device. Only the rank's own thread talks to the device. */
struct parcel {
    struct chunk chunk; /* count 0: none */
    char *host;         /* [CHUNK_BYTES] */
};

/* What the threads load, one chunk at a time. */
struct loading {
    const struct checkpoint_rank *rank;
    const struct sources *sources;
    struct pieces pieces;
    pthread_mutex_t mutex;
    int piece;       /* the piece of the next chunk */
    uint64_t k;      /* that chunk's first element, counted from the piece's first */
    dt_status first; /* the first failure, and its text, which belongs to the thread that failed */
    char error[1024];
    struct parcel parcels[THREADS];
    int parcels_taken;
};

/* False: no chunk is left, or something has failed. */
static bool take_chunk(struct loading *l, struct chunk *out)
{
    pthread_mutex_lock(&l->mutex);
    bool taken = l->first == DT_OK && l->piece < l->pieces.count;
    if (taken) {
        const struct piece *piece = &l->pieces.all[l->piece];
        uint64_t all = piece->part.until - piece->part.from, most = CHUNK_BYTES / dt_dtype_bytes(piece->dtype);
        *out = (struct chunk){piece, piece->part.from + l->k, all - l->k < most ? all - l->k : most};
        l->k = l->k + out->count < all ? l->k + out->count : 0;
        l->piece += l->k == 0;
    }
    pthread_mutex_unlock(&l->mutex);
    return taken;
}

/* A master copy that the checkpoint lacks is made from the parameter itself. */
static const struct source *find_of_piece(const struct sources *s, const struct piece *piece, int *count)
{
    const struct source *own = sources_find(s, piece->name, count);
    return *count == 0 && piece->kind == DP_MASTER ? sources_find(s, piece_tensor(piece), count) : own;
}

static char *place_of(const struct chunk *c)
{
    return (char *)c->piece->data + (c->k - c->piece->part.from) * dt_dtype_bytes(c->piece->dtype);
}

static void load_chunk(struct loading *l, const struct chunk *c, char *to)
{
    int count;
    const struct piece *piece = c->piece;
    const struct wanted wanted = {piece->name, piece->dtype, &piece->part};
    const struct source *found = find_of_piece(l->sources, piece, &count);
    dt_status status = count == 0 ? dt_fail(DT_ERR_INVALID, "no file has the tensor %s", piece->name)
                                  : sources_collect(l->sources, &wanted, found, count, c->k, c->count, to);
    pthread_mutex_lock(&l->mutex);
    if (status < 0 && l->first == DT_OK) {
        l->first = status;
        snprintf(l->error, sizeof l->error, "%s", dt_error_message());
    }
    pthread_mutex_unlock(&l->mutex);
}

static void *load_chunks(void *context)
{
    struct loading *l = context;
    struct chunk chunk;
    while (take_chunk(l, &chunk))
        load_chunk(l, &chunk, place_of(&chunk));
    return NULL;
}

static void *load_parcel(void *context)
{
    struct loading *l = context;
    pthread_mutex_lock(&l->mutex);
    struct parcel *parcel = &l->parcels[l->parcels_taken++];
    pthread_mutex_unlock(&l->mutex);
    if (take_chunk(l, &parcel->chunk))
        load_chunk(l, &parcel->chunk, parcel->host);
    return NULL;
}

/* Load one chunk per thread, then copy them to the device. False: no chunk is left, or something
 * has failed. */
static bool load_parcels(struct loading *l, dt_status *status)
{
    struct dt_stream *stream = l->rank->stream;
    bool any = false;
    l->parcels_taken = 0;
    for (int i = 0; i < THREADS; i++)
        l->parcels[i].chunk.count = 0;
    dt_threads_run(THREADS, load_parcel, l);
    for (int i = 0; i < THREADS && *status == DT_OK && l->first == DT_OK; i++) {
        const struct chunk *c = &l->parcels[i].chunk;
        any = any || c->count > 0;
        if (c->count > 0)
            *status = dt_copy_from_host(stream, place_of(c), l->parcels[i].host, c->count * dt_dtype_bytes(c->piece->dtype));
    }
    if (*status == DT_OK)
        *status = dt_stream_synchronize(stream);
    return any && *status == DT_OK;
}

static dt_status load_to_device(struct loading *l)
{
    dt_status status = DT_OK;
    for (int i = 0; i < THREADS && status == DT_OK; i++) {
        l->parcels[i].host = malloc(CHUNK_BYTES);
        status = dt_allocated(l->parcels[i].host, "no host memory for reading a checkpoint");
    }
    while (status == DT_OK && load_parcels(l, &status))
        continue;
    for (int i = 0; i < THREADS; i++)
        free(l->parcels[i].host);
    return status;
}

static bool is_parameter(const struct piece *piece)
{
    return piece->kind == DP_PARAMETERS || piece->kind == DP_MASTER;
}

/* Hugging Face files have parameters only: moments keep their initial values, and the optimizer's
 * master copies are made from the parameters. */
static dt_status load_pieces(const struct checkpoint_rank *rank, const struct sources *s, bool parameters_alone)
{
    struct loading l = {.rank = rank, .sources = s};
    dt_status status = pieces_find(rank, &l.pieces);
    if (parameters_alone)
        pieces_keep(&l.pieces, is_parameter);
    if (status == DT_OK) {
        pthread_mutex_init(&l.mutex, NULL);
        if (pieces_are_on_host(rank))
            dt_threads_run(THREADS, load_chunks, &l);
        else
            status = load_to_device(&l);
        pthread_mutex_destroy(&l.mutex);
        status = status < 0 ? status : l.first < 0 ? dt_fail(l.first, "%s", l.error) : DT_OK;
    }
    pieces_finish(&l.pieces);
    return status;
}

/* ---- a checkpoint ---- */

/* Only runs with dynamic loss scaling take over the loss scale. */
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

static dt_status load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    struct sources sources;
    struct checkpoint_index index;
    const struct experiment *e = rank->experiment;
    dt_status status = sources_open(&sources, path, &e->model, &index);
    if (status == DT_OK && index.count > 0 && experiment_is_adam(e) && strcmp(index.optimizer, "adam") != 0)
        status = dt_fail(DT_ERR_INVALID, "the checkpoint has no state of adam: it is one of %s", index.optimizer);
    DT_THEN(status, load_pieces(rank, &sources, index.count == 0));
    if (status == DT_OK)
        take_norm(rank, &index);
    *steps = index.steps;
    sources_close(&sources);
    free(index.bytes);
    return status;
}

dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    dt_status status = load(path, rank, steps);
    if (status < 0)
        status = dt_fail(DT_ERR_INVALID, "checkpoint.from: %s: %s", path, dt_error_message());
    return checkpoint_agree(rank->world, status, DT_ERR_INVALID);
}
