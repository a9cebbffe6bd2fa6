#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/rendezvous/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* A machine that loses power closes no connection: keepalive detects this within a minute, whether
 * or not data is sent. */
enum { KEEPALIVE_IDLE_S = 20, KEEPALIVE_INTERVAL_S = 10, KEEPALIVE_PROBES = 4, SEND_TIMEOUT_S = 10 };

void dt_link_prepare(int fd)
{
    int yes = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
    unsigned give_up_ms = (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES) * 1000;
    struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static bool send_bytes(int fd, const void *from, size_t bytes, int flags)
{
    const char *at = from;
    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

bool dt_link_send(struct dt_link *link, const struct dt_frame *frame, const void *payload)
{
    return link->fd >= 0 && send_bytes(link->fd, frame, sizeof *frame, frame->bytes ? MSG_MORE : 0) &&
           send_bytes(link->fd, payload, frame->bytes, 0);
}

/* Calls of both functions are under the mutex of the links' sends. */
static struct dt_parcel *make_parcel(const void *payload, size_t bytes)
{
    struct dt_parcel *parcel = malloc(sizeof *parcel + bytes);
    if (!parcel)
        return NULL;
    parcel->users = 1;
    memcpy(parcel->bytes, payload, bytes);
    return parcel;
}

void dt_parcel_leave(struct dt_parcel *parcel)
{
    if (parcel && --parcel->users == 0)
        free(parcel);
}

/* Send as much of frame and payload as possible now, from byte *sent on. False: the connection
 * cannot be used any more. */
static bool send_now(int fd, const struct dt_frame *frame, const char *payload, size_t *sent)
{
    size_t all = sizeof *frame + frame->bytes;
    while (*sent < all) {
        bool in_frame = *sent < sizeof *frame;
        const char *from = in_frame ? (const char *)frame + *sent : payload + (*sent - sizeof *frame);
        size_t bytes = in_frame ? sizeof *frame - *sent : all - *sent;
        ssize_t went = send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | (in_frame && frame->bytes ? MSG_MORE : 0));
        if (went < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (went < 0 && errno == EINTR)
            continue;
        if (went <= 0)
            return false;
        *sent += (size_t)went;
    }
    return true;
}

bool dt_link_post(struct dt_link *link, const struct dt_frame *frame, const void *payload, struct dt_parcel **copy)
{
    size_t sent = 0;
    if (link->fd < 0 || (!link->outgoing && !send_now(link->fd, frame, payload, &sent)))
        return false;
    if (sent == sizeof *frame + frame->bytes)
        return true;
    if (frame->bytes && !*copy)
        *copy = make_parcel(payload, frame->bytes);
    struct dt_outgoing *kept = frame->bytes && !*copy ? NULL : malloc(sizeof *kept), **last = &link->outgoing;
    if (!kept)
        return false;
    *kept = (struct dt_outgoing){.frame = *frame, .payload = frame->bytes ? *copy : NULL, .sent = sent};
    if (kept->payload)
        kept->payload->users++;
    if (!link->outgoing)
        link->moved_ns = dt_clock_ns();
    while (*last)
        last = &(*last)->next;
    *last = kept;
    return true;
}

static void drop_first(struct dt_link *link)
{
    struct dt_outgoing *first = link->outgoing;
    link->outgoing = first->next;
    dt_parcel_leave(first->payload);
    free(first);
}

bool dt_link_move(struct dt_link *link)
{
    while (link->outgoing) {
        struct dt_outgoing *first = link->outgoing;
        size_t before = first->sent;
        if (!send_now(link->fd, &first->frame, first->payload ? first->payload->bytes : NULL, &first->sent))
            return false;
        if (first->sent > before)
            link->moved_ns = dt_clock_ns();
        if (first->sent < sizeof first->frame + first->frame.bytes)
            break;
        drop_first(link);
    }
    if (!link->outgoing || dt_clock_ns() - link->moved_ns < SEND_TIMEOUT_S * INT64_C(1000000000))
        return true;
    link->fault = DT_FRAME_UNREAD;
    return false;
}

static bool make_room(struct dt_link *link, size_t bytes)
{
    if (link->taken > 0) {
        memmove(link->data, link->data + link->taken, link->used - link->taken);
        link->used -= link->taken;
        link->taken = 0;
    }
    return DT_ROOM_FOR(link->data, link->used, link->capacity, bytes);
}

bool dt_link_receive(struct dt_link *link)
{
    enum { PIECE_BYTES = 16 << 10, AT_ONCE_BYTES = 4 << 20 };
    for (size_t before = link->used - link->taken; link->used - link->taken < before + AT_ONCE_BYTES;) {
        if (!make_room(link, PIECE_BYTES))
            return false;
        ssize_t got = recv(link->fd, link->data + link->used, link->capacity - link->used, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (got <= 0)
            return false;
        link->used += (size_t)got;
    }
    return true;
}

bool dt_link_next(struct dt_link *link, struct dt_frame *frame, const char **payload)
{
    size_t have = link->used - link->taken;
    if (link->fault || have == 0 || !dt_frame_decode(&link->reader, link->data + link->taken, have, frame, &link->fault))
        return false;
    if (link->fault || have - sizeof *frame < frame->bytes)
        return false;
    *payload = link->data + link->taken + sizeof *frame;
    link->taken += sizeof *frame + frame->bytes;
    return true;
}

void dt_link_close(struct dt_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->data);
    while (link->outgoing)
        drop_first(link);
    *link = (struct dt_link){.fd = -1, .reader = link->reader, .fault = link->fault};
}
