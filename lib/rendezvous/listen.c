/* Rank 0's part of the rendezvous: it listens until all ranks are connected, and accepts no other
 * process.
 *
 * A connected process is a stranger until it has proved that it knows the job's secret (proof.h).
 * Number and time of strangers are limited: if there are too many, the one that has been silent for
 * longest is closed, since a rank sends as soon as it is connected. Strangers can neither end nor
 * delay the rendezvous. */
#include "lib/base/clock.h"
#include "lib/rendezvous/internal.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Places of the room: for strangers, and for ranks that may arrive at the same moment. */
enum { ROOM_FOR_STRANGERS = 256, ROOM_FOR_RANKS = 768 };

/* How long a connection may stay without a proof. */
static const double proof_s = 2;

/* A connection that has not proved its identity yet. */
struct stranger {
    int fd; /* -1: a free place */
    int64_t since_ns;
    bool greeted; /* its hello has arrived, and the challenge is being sent */
    size_t got;   /* received bytes of hello, then of claim */
    struct dt_hello hello;
    struct dt_challenge challenge;
    struct dt_claim claim;
};

struct meeting {
    struct dt_rendezvous *r;
    const struct dt_rendezvous_place *place;
    char place_name[300], build[DT_BUILD_BYTES];
    struct dt_port port;
    struct stranger *strangers; /* [room] */
    int room, here, unproved;   /* unproved: connections that spoke like a rank, and ended without a proof */
    struct pollfd *polls;       /* [DT_PORT_SOCKETS + room + size] */
};

/* ---- accepting ranks ---- */

static void refuse(int fd, dt_status status, const char *text)
{
    struct dt_link link = {.fd = fd};
    struct dt_frame frame = {.type = DT_FRAME_REFUSED, .count = (uint32_t)-(int)status, .bytes = strlen(text)};
    dt_link_send(&link, &frame, text);
}

/* A rank of this job contradicts it: no rank can continue. */
static dt_status contradiction(const struct stranger *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
static dt_status contradiction(const struct stranger *n, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    refuse(n->fd, DT_ERR_WORLD, text);
    return dt_fail(DT_ERR_WORLD, "%s", text);
}

/* the only possible reason is a wrong variable of its launcher */
static dt_status refuse_rank(const struct stranger *n, int rank, int size)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char host[64] = "an unknown address";
    if (getpeername(n->fd, (struct sockaddr *)&address, &bytes) == 0)
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    return contradiction(n, "a process at %s has rank %d of %d, out of range: ranks are 0 to %d; its launcher's variables are wrong", host,
                         rank, size, size - 1);
}

/* Accept a rank that has proved that it belongs to this job. */
static dt_status let_in(struct meeting *m, struct stranger *n)
{
    const struct dt_frame welcome = {.type = DT_FRAME_WELCOME};
    int rank = n->claim.rank, size = m->place->size;
    dt_link_prepare(n->fd);
    if (strncmp(n->claim.build, m->build, sizeof m->build) != 0)
        return contradiction(n, "rank %d is another build of dtbench (%.47s) than rank 0 (%.47s)", rank, n->claim.build, m->build);
    if (n->claim.size != size)
        return contradiction(n, "rank %d expects %d ranks, and rank 0 expects %d", rank, n->claim.size, size);
    if (rank < 0 || rank >= size)
        return refuse_rank(n, rank, size);
    if (rank == 0 || m->r->links[rank].fd >= 0)
        return contradiction(n, "two of %d processes have rank %d", size, rank);
    m->r->links[rank].fd = n->fd;
    n->fd = -1;
    n->greeted = false;
    m->here++;
    dt_link_send(&m->r->links[rank], &welcome, NULL);
    return DT_OK;
}

static void let_go(struct meeting *m, struct stranger *n)
{
    if (n->fd < 0)
        return;
    m->unproved += n->greeted;
    close(n->fd);
    n->fd = -1;
}

/* False: the message is not complete yet. *open: false if it never will be. */
static bool take(struct stranger *n, void *message, size_t bytes, bool *open)
{
    ssize_t got = recv(n->fd, (char *)message + n->got, bytes - n->got, MSG_DONTWAIT);
    *open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    n->got += got > 0 ? (size_t)got : 0;
    return n->got == bytes;
}

/* False: it is not a rank's hello, or no answer can be sent. */
static bool answer_hello(const struct meeting *m, struct stranger *n)
{
    if (dt_challenge_make(m->place->secret, &n->hello, &n->challenge) < 0)
        return false;
    n->greeted = send(n->fd, &n->challenge, sizeof n->challenge, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof n->challenge;
    n->got = 0;
    return n->greeted;
}

/* Fails only if a rank of this job contradicts it. */
static dt_status read_stranger(struct meeting *m, struct stranger *n)
{
    bool open = true;
    if (!n->greeted) {
        bool whole = take(n, &n->hello, sizeof n->hello, &open);
        open = open && dt_magic_fits(&n->hello, n->got) && (!whole || answer_hello(m, n));
    } else if (take(n, &n->claim, sizeof n->claim, &open)) {
        dt_status status = dt_claim_is_true(m->place->secret, &n->hello, &n->challenge, &n->claim) ? let_in(m, n) : DT_OK;
        let_go(m, n);
        return status;
    }
    if (!open)
        let_go(m, n);
    return DT_OK;
}

/* ---- the room ---- */

/* A free place; the oldest stranger is closed if there is none. */
static struct stranger *make_place(struct meeting *m)
{
    struct stranger *first = NULL;
    for (int i = 0; i < m->room; i++) {
        struct stranger *n = &m->strangers[i];
        if (n->fd < 0)
            return n;
        if (!first || (n->greeted != first->greeted ? first->greeted : n->since_ns < first->since_ns))
            first = n;
    }
    let_go(m, first);
    return first;
}

/* Accept as many connections as there is room for; the others wait in the kernel. Each is read at
 * once, since a rank has sent its hello by now. */
static dt_status open_door(struct meeting *m, int listen_fd)
{
    for (int i = 0; i < m->room; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            for (int k = 0; k < m->room; k++) /* the rest of the time limit is for ranks */
                if (!m->strangers[k].greeted)
                    let_go(m, &m->strangers[k]);
            return DT_OK;
        }
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return DT_OK;
        if (fd < 0)
            continue;
        struct stranger *n = make_place(m);
        *n = (struct stranger){.fd = fd, .since_ns = dt_clock_ns()};
        DT_TRY(read_stranger(m, n));
    }
    return DT_OK;
}

/* ---- the meeting ---- */

/* An accepted rank sends nothing until it hears that all ranks are here. */
static dt_status check_rank(struct meeting *m, int rank)
{
    struct dt_link *link = &m->r->links[rank];
    if (!dt_link_receive(link))
        return dt_fail(DT_ERR_COMM, "rank %d closed its connection before all %d ranks had connected at %s", rank, m->place->size,
                       m->place_name);
    if (link->used > 0)
        return dt_fail(DT_ERR_COMM, "rank %d spoke before all %d ranks had connected at %s", rank, m->place->size, m->place_name);
    return DT_OK;
}

static dt_status look(struct meeting *m)
{
    int size = m->place->size, room = DT_PORT_SOCKETS, ranks = room + m->room;
    for (int i = 0; i < DT_PORT_SOCKETS; i++)
        m->polls[i] = (struct pollfd){.fd = i < m->port.count ? m->port.fd[i] : -1, .events = POLLIN};
    for (int i = 0; i < m->room; i++)
        m->polls[room + i] = (struct pollfd){.fd = m->strangers[i].fd, .events = POLLIN};
    for (int i = 0; i < size; i++)
        m->polls[ranks + i] = (struct pollfd){.fd = m->r->links[i].fd, .events = POLLIN};
    if (poll(m->polls, (nfds_t)(ranks + size), 50) < 0)
        return DT_OK;
    for (int i = 1; i < size; i++)
        if (m->r->links[i].fd >= 0 && m->polls[ranks + i].revents)
            DT_TRY(check_rank(m, i));
    for (int i = 0; i < m->room; i++) {
        struct stranger *n = &m->strangers[i];
        if (n->fd >= 0 && m->polls[room + i].revents)
            DT_TRY(read_stranger(m, n));
        if (n->fd >= 0 && dt_clock_since_s(n->since_ns) > proof_s)
            let_go(m, n);
    }
    for (int i = 0; i < m->port.count; i++)
        if (m->polls[i].revents)
            DT_TRY(open_door(m, m->port.fd[i]));
    return DT_OK;
}

static dt_status time_out(const struct meeting *m)
{
    char names[300] = "", strangers[120] = "";
    DT_FREED bool *missing = calloc((size_t)m->place->size, sizeof *missing);
    for (int i = 1; missing && i < m->place->size; i++)
        missing[i] = m->r->links[i].fd < 0;
    if (missing)
        dt_rendezvous_name_ranks(missing, m->place->size, names, sizeof names);
    if (m->unproved > 0)
        snprintf(strangers, sizeof strangers, "; %d connections began as a rank's and did not prove to know this job's secret",
                 m->unproved);
    return dt_fail(DT_ERR_TIMEOUT, "%s of %d did not reach %s within %g s%s", names, m->place->size, m->place_name, m->place->timeout_s,
                   strangers);
}

/* Each rank is an open file: thousands of ranks need more than the usual limit. */
static void allow_files(int count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static dt_status meet(struct meeting *m)
{
    int64_t end_ns = dt_deadline_ns(m->place->timeout_s);
    DT_TRY(dt_port_open(m->place, m->place_name, &m->port));
    while (m->here < m->place->size) {
        DT_TRY(look(m));
        if (m->here < m->place->size && dt_deadline_passed(end_ns))
            return time_out(m);
    }
    return DT_OK;
}

static void tell_ranks(const struct meeting *m, dt_status status)
{
    const struct dt_frame met = {.type = DT_FRAME_MET};
    char text[1024];
    snprintf(text, sizeof text, "%s", dt_error_message());
    for (int i = 1; i < m->place->size; i++) {
        if (m->r->links[i].fd < 0)
            continue;
        if (status == DT_OK)
            dt_link_send(&m->r->links[i], &met, NULL);
        else
            refuse(m->r->links[i].fd, status, text);
    }
}

dt_status dt_rendezvous_listen(struct dt_rendezvous *r, const struct dt_rendezvous_place *place)
{
    struct meeting m = {.r = r, .place = place, .here = 1};
    m.room = ROOM_FOR_STRANGERS + (place->size < ROOM_FOR_RANKS ? place->size : ROOM_FOR_RANKS);
    dt_rendezvous_build_name(m.build);
    dt_rendezvous_place_name(place, m.place_name, sizeof m.place_name);
    DT_FREED struct stranger *strangers = m.strangers = calloc((size_t)m.room, sizeof *m.strangers);
    DT_FREED struct pollfd *polls = m.polls = calloc((size_t)(DT_PORT_SOCKETS + m.room + place->size), sizeof *m.polls);
    DT_TRY(dt_allocated(strangers && polls, "no host memory for the rendezvous of %d ranks", place->size));
    for (int i = 0; i < m.room; i++)
        m.strangers[i].fd = -1;
    allow_files(place->size + m.room);
    dt_status status = meet(&m);
    dt_port_close(&m.port); /* before any rank continues, since it may soon come back to this port */
    tell_ranks(&m, status);
    for (int i = 0; i < m.room; i++)
        let_go(&m, &m.strangers[i]);
    return status;
}
