/* Rank 0's service for the other ranks: it combines gatherings and forwards questions. */
#include "lib/rendezvous/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Send to ranks [count] (-1: none), possibly including this process. Data that a rank does not read
 * now is buffered, so this does not block. */
static void send_to_each(struct dt_rendezvous *r, const int *ranks, int count, const struct dt_frame *frame, const void *payload)
{
    struct dt_parcel *copy = NULL;
    const uint64_t one = 1;
    bool kept = false;
    pthread_mutex_lock(&r->sending);
    for (int i = 0; i < count; i++) {
        struct dt_link *link = ranks[i] > 0 ? &r->links[ranks[i]] : NULL;
        if (link && !dt_link_post(link, frame, payload, &copy) && link->fd >= 0)
            shutdown(link->fd, SHUT_RDWR); /* the thread detects the close */
        kept |= link && link->outgoing;
    }
    dt_parcel_leave(copy);
    pthread_mutex_unlock(&r->sending);
    if (kept && write(r->wake_fd, &one, sizeof one) < 0) /* the thread checks every second anyway */
        kept = false;
    for (int i = 0; i < count; i++)
        if (ranks[i] == 0)
            dt_rendezvous_deliver(r, frame, payload);
}

static void send_to(struct dt_rendezvous *r, int rank, const struct dt_frame *frame, const void *payload)
{
    send_to_each(r, &rank, 1, frame, payload);
}

static void send_to_others(struct dt_rendezvous *r, const struct dt_frame *frame, const void *payload)
{
    for (int rank = 1; rank < r->size; rank++)
        send_to(r, rank, frame, payload);
}

static void free_gathering(struct gathering *g)
{
    free(g->ranks);
    free(g->pieces);
    free(g);
}

/* The gathering that a frame belongs to; `mutex` is held. */
static struct gathering **find(struct dt_rendezvous *r, const struct dt_frame *frame)
{
    struct gathering **link = &r->gatherings;
    while (*link && ((*link)->group != frame->group || (*link)->sequence != frame->sequence))
        link = &(*link)->next;
    return link;
}

/* May rank `from` begin another gathering? It waits for one at a time, but a few that timed out may
 * remain. `mutex` is held. */
static bool may_begin(const struct dt_rendezvous *r, int from)
{
    enum { OPEN_GATHERINGS = 64 };
    int open = 0;
    for (const struct gathering *g = r->gatherings; g; g = g->next)
        open += g->begun_by == from;
    return open < OPEN_GATHERINGS;
}

static struct gathering *begin(int from, const struct dt_frame *frame)
{
    struct gathering *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->group = frame->group;
    g->sequence = frame->sequence;
    g->begun_by = from;
    g->count = (int)frame->count;
    g->bytes = frame->bytes;
    g->type = (enum dt_frame_type)frame->type;
    g->ranks = malloc(frame->count * sizeof *g->ranks);
    g->pieces = malloc(frame->count * frame->bytes + 1);
    if (!g->ranks || !g->pieces) {
        free_gathering(g);
        return NULL;
    }
    for (int i = 0; i < g->count; i++)
        g->ranks[i] = -1;
    return g;
}

/* Store a piece; returns the gathering if it is complete now. */
static struct gathering *add_piece(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload)
{
    struct gathering *complete = NULL;
    pthread_mutex_lock(&r->mutex);
    struct gathering **link = find(r, frame), *g = *link;
    if (!g && may_begin(r, from))
        g = *link = begin(from, frame);
    else if (!g)
        r->links[from].fault = DT_FRAME_TOO_MANY;                               /* the thread that reads this link closes it */
    if (g && frame->index < (uint32_t)g->count && g->ranks[frame->index] < 0) { /* the gathering may have begun with another count */
        if (g->bytes == frame->bytes && g->count == (int)frame->count && g->type == (enum dt_frame_type)frame->type)
            memcpy(g->pieces + frame->index * frame->bytes, payload, frame->bytes);
        else
            g->different = true;
        g->ranks[frame->index] = from;
        if (++g->arrived == g->count) {
            complete = g;
            *link = g->next;
        }
    }
    pthread_mutex_unlock(&r->mutex);
    return complete;
}

/* The sums over the ranks of all pieces' numbers, in order, then the highest of each; NaN makes
 * both NaN. Owner: the caller. */
static double *reduce(const struct gathering *g)
{
    size_t count = g->bytes / sizeof(double);
    double *out = calloc(2 * count, sizeof *out), *highest = out + count;
    for (int i = 0; out && i < g->count; i++) {
        const double *piece = (const double *)(const void *)(g->pieces + (size_t)i * g->bytes);
        for (size_t j = 0; j < count; j++) {
            out[j] += piece[j];
            highest[j] = i > 0 && (highest[j] > piece[j] || isnan(highest[j])) ? highest[j] : piece[j];
        }
    }
    return out;
}

static void handle_piece(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload)
{
    struct gathering *g = add_piece(r, from, frame, payload);
    if (!g)
        return;
    bool reduces = g->type == DT_FRAME_REDUCE && !g->different;
    int first = g->type == DT_FRAME_GIVE && !g->different ? 1 : g->count; /* number of ranks that get the pieces */
    struct dt_frame reply = {.type = g->different ? DT_FRAME_DIFFERENT : DT_FRAME_GATHERED,
                             .group = g->group,
                             .sequence = g->sequence,
                             .bytes = g->different ? 0 : (reduces ? 2 : (uint64_t)g->count) * g->bytes};
    DT_FREED double *reduced = reduces ? reduce(g) : NULL;
    if (reduced || !reduces) /* without memory the ranks time out */
        send_to_each(r, g->ranks, first, &reply, reduces ? (const void *)reduced : g->pieces);
    reply.bytes = 0;
    send_to_each(r, g->ranks + first, g->count - first, &reply, NULL);
    free_gathering(g);
}

/* Send the list of ranks that gave no piece to all that did, since the others will soon time out as
 * well. Send nothing if the gathering is complete: its result is being sent. */
static void handle_withdrawal(struct dt_rendezvous *r, const struct dt_frame *frame)
{
    struct dt_frame reply = {.type = DT_FRAME_MISSING, .group = frame->group, .sequence = frame->sequence};
    pthread_mutex_lock(&r->mutex);
    struct gathering **link = find(r, frame), *g = *link;
    if (g)
        *link = g->next;
    pthread_mutex_unlock(&r->mutex);
    if (!g)
        return;
    DT_FREED char *missing = malloc((size_t)g->count);
    reply.bytes = missing ? (uint64_t)g->count : 0;
    for (int i = 0; missing && i < g->count; i++)
        missing[i] = g->ranks[i] < 0;
    if (missing)
        send_to_each(r, g->ranks, g->count, &reply, missing);
    free_gathering(g);
}

static void handle_question(struct dt_rendezvous *r, int from, const struct dt_frame *frame)
{
    struct dt_frame state;
    struct dt_rendezvous_progress progress;
    send_to_others(r, frame, NULL);
    if (dt_rendezvous_own_state(r, frame, &state, &progress))
        send_to(r, from, &state, &progress);
}

void dt_rendezvous_hub_lose(struct dt_rendezvous *r, int rank, enum dt_link_state how, enum dt_frame_fault fault)
{
    struct dt_frame frame = {.type = how == DT_LINK_LEFT ? DT_FRAME_LEFT : DT_FRAME_LOST, .index = (uint32_t)rank, .count = fault};
    pthread_mutex_lock(&r->routing);
    pthread_mutex_lock(&r->sending);
    dt_link_close(&r->links[rank]);
    pthread_mutex_unlock(&r->sending);
    send_to_others(r, &frame, NULL); /* before this process knows: it may then end, and the others would report rank 0 as the cause */
    dt_rendezvous_set_state(r, rank, how, fault);
    pthread_mutex_unlock(&r->routing);
}

void dt_rendezvous_hub_handle(struct dt_rendezvous *r, int from, const struct dt_frame *frame, const char *payload)
{
    pthread_mutex_lock(&r->routing);
    switch ((enum dt_frame_type)frame->type) {
    case DT_FRAME_GIVE:
    case DT_FRAME_REDUCE:
    case DT_FRAME_GATHER: handle_piece(r, from, frame, payload); break;
    case DT_FRAME_WITHDRAW: handle_withdrawal(r, frame); break;
    case DT_FRAME_ASK: handle_question(r, from, frame); break;
    case DT_FRAME_STATE: send_to(r, (int)frame->index, frame, payload); break;
    case DT_FRAME_FAILED:
        send_to_others(r, frame, payload); /* the sender itself ignores it */
        dt_rendezvous_keep_failure(r, frame, payload);
        break;
    case DT_FRAME_WELCOME:
    case DT_FRAME_REFUSED:
    case DT_FRAME_MET:
    case DT_FRAME_GATHERED:
    case DT_FRAME_DIFFERENT:
    case DT_FRAME_MISSING:
    case DT_FRAME_GOODBYE:
    case DT_FRAME_LEFT:
    case DT_FRAME_LOST:
    case DT_FRAME_TYPES: break;
    }
    pthread_mutex_unlock(&r->routing);
}

void dt_rendezvous_hub_finish(struct dt_rendezvous *r)
{
    for (struct gathering *g = r->gatherings, *next; g; g = next) {
        next = g->next;
        free_gathering(g);
    }
}
