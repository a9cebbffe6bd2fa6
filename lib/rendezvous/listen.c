/* Rank 0 at the meeting: it listens until all are there, and lets in nobody else. */
#include "lib/base/clock.h"
#include "lib/rendezvous/parts.h"

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

enum { STRANGERS = 32 }; /* that may be at the door besides the ranks */

/* How long somebody may stand there without a whole hello, and a port be in use: by a world that has just ended, say. */
static const double hello_s = 5, port_s = 2;

/* Connected, and not known yet. */
struct newcomer {
    int fd; /* -1: a free place */
    int64_t since_ns;
    size_t got;
    struct dt_hello hello;
};

struct meeting {
    struct dt_rendezvous *r;
    const struct dt_rendezvous_place *place;
    struct dt_hello own;
    char place_name[300];
    int listen_fd[2], listening; /* IPv4 and IPv6 of the loopback, or one socket for both */
    struct newcomer *newcomers;  /* [door] */
    int door, here;
    struct pollfd *polls; /* [2 + door + size] */
};

/* ---- the port ---- */

static int listen_at(const struct addrinfo *a, int *out_error)
{
    int yes = 1, no = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* the last world's connections may linger */
        if (a->ai_family == AF_INET6 && a->ai_flags & AI_PASSIVE)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        else if (a->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0)
            return fd;
    }
    *out_error = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The loopback's addresses where all ranks are here, else one socket for all addresses: IPv6's takes IPv4 too. A machine may have no IPv6;
 * only a port in use is final. */
static int try_to_listen(struct meeting *m)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = m->place->local ? 0 : AI_PASSIVE}, *list = NULL;
    char port[16];
    int error = EADDRNOTAVAIL;
    snprintf(port, sizeof port, "%d", m->place->port);
    if (getaddrinfo(NULL, port, &hints, &list) != 0)
        return error;
    for (int turn = 0; turn < 2; turn++) {
        int family = turn == 0 ? AF_INET6 : AF_INET;
        for (const struct addrinfo *a = list; a && m->listening < 2; a = a->ai_next) {
            int fd = a->ai_family == family && (m->place->local || m->listening == 0) ? listen_at(a, &error) : -1;
            if (fd >= 0)
                m->listen_fd[m->listening++] = fd;
        }
        if (error == EADDRINUSE)
            break;
    }
    freeaddrinfo(list);
    return m->listening > 0 && error != EADDRINUSE ? 0 : error;
}

static void stop_listening(struct meeting *m)
{
    while (m->listening > 0)
        close(m->listen_fd[--m->listening]);
}

static dt_status start_listening(struct meeting *m)
{
    int64_t end_ns = dt_deadline_ns(port_s);
    int error = try_to_listen(m);
    while (error == EADDRINUSE && !dt_deadline_passed(end_ns)) {
        stop_listening(m);
        dt_sleep_ms(50);
        error = try_to_listen(m);
    }
    if (error == EADDRINUSE)
        return dt_fail(DT_ERR_WORLD,
                       "the ranks cannot connect at %s: the port is in use, by another job or program; set MASTER_PORT to one that is free",
                       m->place_name);
    return error == 0 ? DT_OK : dt_fail(DT_ERR_IO, "rank 0 cannot listen at %s: %s", m->place_name, strerror(error));
}

/* ---- who comes ---- */

static void refuse(int fd, dt_status status, const char *text)
{
    struct dt_link link = {.fd = fd};
    struct dt_frame frame = {.type = DT_FRAME_REFUSED, .count = (uint32_t)-(int)status, .bytes = strlen(text)};
    dt_link_send(&link, &frame, text);
}

/* A rank of this job that contradicts it: nobody can go on. */
static dt_status contradiction(struct newcomer *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
static dt_status contradiction(struct newcomer *n, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    refuse(n->fd, DT_ERR_WORLD, text);
    return dt_fail(DT_ERR_WORLD, "%s", text);
}

/* A hello has arrived. A rank of another job gets a refusal and does not count here. */
static dt_status receive_newcomer(struct meeting *m, struct newcomer *n)
{
    const struct dt_hello *hello = &n->hello;
    const struct dt_frame welcome = {.type = DT_FRAME_WELCOME};
    char text[512];
    int rank = hello->rank, size = m->place->size;
    if (memcmp(hello->magic, m->own.magic, sizeof hello->magic) != 0)
        return DT_OK;
    if (hello->job != m->own.job) {
        snprintf(text, sizeof text,
                 "another job's ranks connect at %s, and rank %d is not one of them: set MASTER_PORT to a port that is free", m->place_name,
                 rank);
        refuse(n->fd, DT_ERR_WORLD, text);
        return DT_OK;
    }
    if (strncmp(hello->build, m->own.build, sizeof hello->build) != 0)
        return contradiction(n, "rank %d is another build of dtbench (%.47s) than rank 0 (%.47s)", rank, hello->build, m->own.build);
    if (hello->size != size)
        return contradiction(n, "rank %d expects %d ranks, and rank 0 expects %d", rank, hello->size, size);
    if (rank < 1 || rank >= size || m->r->links[rank].fd >= 0)
        return contradiction(n, "two of %d processes have rank %d", size, rank);
    dt_link_prepare(n->fd);
    m->r->links[rank].fd = n->fd;
    n->fd = -1;
    m->here++;
    dt_link_send(&m->r->links[rank], &welcome, NULL);
    return DT_OK;
}

static void let_go(struct newcomer *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

static dt_status read_newcomer(struct meeting *m, struct newcomer *n)
{
    ssize_t got = recv(n->fd, (char *)&n->hello + n->got, sizeof n->hello - n->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return DT_OK;
    n->got += got > 0 ? (size_t)got : 0;
    if (got > 0 && n->got < sizeof n->hello)
        return DT_OK;
    dt_status status = got > 0 ? receive_newcomer(m, n) : DT_OK;
    let_go(n);
    return status;
}

static void open_door(struct meeting *m, int listen_fd)
{
    for (;;) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct newcomer *n = NULL;
        for (int i = 0; i < m->door && !n; i++)
            n = m->newcomers[i].fd < 0 ? &m->newcomers[i] : NULL;
        if (!n) {
            close(fd); /* a rank tries again */
            continue;
        }
        *n = (struct newcomer){.fd = fd, .since_ns = dt_clock_ns()};
    }
}

static dt_status look(struct meeting *m)
{
    int size = m->place->size, first = 2, ranks = first + m->door;
    for (int i = 0; i < first; i++)
        m->polls[i] = (struct pollfd){.fd = i < m->listening ? m->listen_fd[i] : -1, .events = POLLIN};
    for (int i = 0; i < m->door; i++)
        m->polls[first + i] = (struct pollfd){.fd = m->newcomers[i].fd, .events = POLLIN};
    for (int i = 0; i < size; i++)
        m->polls[ranks + i] = (struct pollfd){.fd = m->r->links[i].fd, .events = POLLIN};
    poll(m->polls, (nfds_t)(ranks + size), 50);
    for (int i = 1; i < size; i++) {
        if (m->r->links[i].fd >= 0 && m->polls[ranks + i].revents && !dt_link_receive(&m->r->links[i]))
            return dt_fail(DT_ERR_COMM, "rank %d closed its connection before all %d ranks had connected at %s", i, size, m->place_name);
    }
    for (int i = 0; i < m->door; i++) {
        struct newcomer *n = &m->newcomers[i];
        if (n->fd >= 0 && m->polls[first + i].revents)
            DT_TRY(read_newcomer(m, n));
        else if (n->fd >= 0 && dt_clock_since_s(n->since_ns) > hello_s)
            let_go(n);
    }
    for (int i = 0; i < m->listening; i++) {
        if (m->polls[i].revents)
            open_door(m, m->listen_fd[i]);
    }
    return DT_OK;
}

static dt_status time_out(const struct meeting *m)
{
    char names[300] = "";
    bool *missing = calloc((size_t)m->place->size, sizeof *missing);
    for (int i = 1; missing && i < m->place->size; i++)
        missing[i] = m->r->links[i].fd < 0;
    if (missing)
        dt_rendezvous_name_ranks(missing, m->place->size, names, sizeof names);
    free(missing);
    return dt_fail(DT_ERR_TIMEOUT, "%s of %d did not reach %s within %g s", names, m->place->size, m->place_name, m->place->timeout_s);
}

/* Each rank is a file: thousands of them need more than the usual limit. */
static void allow_files(int count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + STRANGERS + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static dt_status meet(struct meeting *m)
{
    int64_t end_ns = dt_deadline_ns(m->place->timeout_s);
    DT_TRY(start_listening(m));
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
    struct meeting m = {.r = r, .place = place, .door = place->size + STRANGERS, .here = 1};
    dt_rendezvous_fill_hello(place, &m.own);
    dt_rendezvous_place_name(place, m.place_name, sizeof m.place_name);
    m.newcomers = calloc((size_t)m.door, sizeof *m.newcomers);
    m.polls = calloc((size_t)(2 + m.door + place->size), sizeof *m.polls);
    if (!m.newcomers || !m.polls) {
        free(m.newcomers);
        free(m.polls);
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the rendezvous of %d ranks", place->size);
    }
    for (int i = 0; i < m.door; i++)
        m.newcomers[i].fd = -1;
    allow_files(place->size);
    dt_status status = meet(&m);
    stop_listening(&m); /* before anybody goes on, and perhaps comes here again */
    tell_ranks(&m, status);
    for (int i = 0; i < m.door; i++)
        let_go(&m.newcomers[i]);
    free(m.newcomers);
    free(m.polls);
    return status;
}
