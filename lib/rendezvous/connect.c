/* How ranks other than rank 0 find it and introduce themselves. */
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/rendezvous/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* pause_s: between two attempts. connect_s: for a connection that neither succeeds nor is refused.
 * silence_s: for the first answer of the process that listens there. grace_s: how much later than
 * rank 0 the other ranks give up, because rank 0 knows who is missing. unknown_name_s: for a name
 * that is not known (yet). */
static const double pause_s = 0.05, connect_s = 3, silence_s = 5, grace_s = 3, unknown_name_s = 5;

/* How long another process may listen there: rank 0 waits as long for the port. */
static const double stranger_s = 2.5;

/* One rank's search for rank 0. */
struct search {
    struct dt_rendezvous *r;
    const struct dt_rendezvous_place *place;
    char place_name[300];
    int64_t start_ns, end_ns;  /* end_ns 0: no limit */
    int64_t stranger_since_ns; /* time since which attempts have found another process there; 0: the last one did not */
    char problem[200];         /* of the last attempt */
    char said[48];             /* the other process's answer */
};

/* Milliseconds until a deadline, for poll; at most a second. */
static int milliseconds_to(int64_t end_ns)
{
    int64_t left_ns = end_ns - dt_clock_ns();
    if (left_ns <= 0)
        return 0;
    return left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1;
}

static bool wait_for(int fd, short events, double seconds)
{
    int64_t end_ns = dt_deadline_ns(seconds);
    struct pollfd p = {.fd = fd, .events = events};
    int ready = 0;
    while (ready <= 0 && !dt_deadline_passed(end_ns))
        ready = poll(&p, 1, milliseconds_to(end_ns));
    return ready > 0;
}

/* If no process listens at a port of this machine, a socket may get that port itself, and then
 * connects to itself. */
static bool is_own_echo(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 && getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

/* A connection to one address; -1: none, and `problem` says why. */
static int connect_to(struct search *s, const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t bytes = sizeof error;
    if (fd < 0) {
        snprintf(s->problem, sizeof s->problem, "%s", strerror(errno));
        return -1;
    }
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (wait_for(fd, POLLOUT, connect_s))
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    }
    if (error == 0 && is_own_echo(fd))
        error = ECONNREFUSED;
    if (error == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
        return fd;
    snprintf(s->problem, sizeof s->problem, "%s", strerror(error));
    close(fd);
    return -1;
}

static int connect_to_any(struct search *s, bool *known)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char port[16];
    int fd = -1;
    snprintf(port, sizeof port, "%d", s->place->port);
    /* NULL is the loopback. "localhost" always is (RFC 6761), also where no list of hosts says
     * so. */
    int error =
        getaddrinfo(s->place->local || strcasecmp(s->place->address, "localhost") == 0 ? NULL : s->place->address, port, &hints, &list);
    *known = error != EAI_NONAME;
    if (error)
        snprintf(s->problem, sizeof s->problem, "%s", gai_strerror(error));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_to(s, a);
    if (list)
        freeaddrinfo(list);
    return fd;
}

/* The next frame of rank 0. False: `seconds` passed (0: never), the connection closed, or sent
 * something else. */
static bool next_frame(struct dt_link *link, double seconds, struct dt_frame *frame, const char **payload, bool *open)
{
    int64_t end_ns = dt_deadline_ns(seconds);
    while (!dt_link_next(link, frame, payload)) {
        if (dt_deadline_passed(end_ns) || !*open || link->fault)
            return false;
        if (wait_for(link->fd, POLLIN, end_ns && seconds < 1 ? seconds : 1))
            *open = dt_link_receive(link);
    }
    return true;
}

static dt_status refused(const struct dt_frame *frame, const char *payload)
{
    return dt_fail((dt_status)(-(int)frame->count), "%.*s", (int)frame->bytes, payload);
}

/* Rank 0 has accepted this rank: wait until all ranks are there. */
static dt_status wait_for_others(struct search *s, struct dt_link *link)
{
    struct dt_frame frame = {0};
    const char *payload;
    bool open = true;
    double left_s = s->end_ns ? (double)(s->end_ns - dt_clock_ns()) * 1e-9 + grace_s : 0;
    if (!next_frame(link, left_s, &frame, &payload, &open))
        return link->fault ? dt_fail(DT_ERR_COMM, "rank 0 of %d, at %s, is given up: %s", s->place->size, s->place_name,
                                     dt_frame_fault_text(link->fault))
               : open      ? dt_fail(DT_ERR_TIMEOUT, "rank 0 of %d, at %s, did not report within %g s that all ranks had connected",
                                     s->place->size, s->place_name, s->place->timeout_s + grace_s)
                      : dt_fail(DT_ERR_COMM, "rank 0 of %d, at %s, closed its connection before all ranks had connected", s->place->size,
                                s->place_name);
    return frame.type == DT_FRAME_MET ? DT_OK : refused(&frame, payload);
}

/* The kind of process that listens at the meeting point. */
enum answer {
    RANK_0,
    NOBODY, /* it closed the connection without an answer, or is silent: rank 0 may be busy, or belong to an earlier rendezvous */
    ANOTHER_JOB,
    SOMEBODY_ELSE,
};

/* Read rank 0's answer to a hello. */
static enum answer hear_challenge(struct search *s, int fd, const struct dt_hello *hello, struct dt_challenge *out)
{
    int64_t end_ns = dt_deadline_ns(silence_s);
    size_t got = 0;
    while (got < sizeof *out && dt_magic_fits(out, got)) {
        ssize_t now =
            wait_for(fd, POLLIN, milliseconds_to(end_ns) * 1e-3) ? recv(fd, (char *)out + got, sizeof *out - got, MSG_DONTWAIT) : 0;
        if (now < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (now <= 0 && (got == 0 || dt_deadline_passed(end_ns)))
            return NOBODY;
        if (now <= 0)
            break;
        got += (size_t)now;
    }
    if (got < sizeof *out || !dt_magic_fits(out, got)) {
        /* Keep the first line of the answer, for a message. */
        snprintf(s->said, sizeof s->said, "%.*s", (int)got, (const char *)out);
        s->said[strcspn(s->said, "\r\n")] = '\0';
        dt_printable(s->said);
        return SOMEBODY_ELSE;
    }
    return dt_challenge_is_true(s->place->secret, hello, out) ? RANK_0 : ANOTHER_JOB;
}

/* Both ends prove their identity. */
static dt_status introduce(struct search *s, int fd, enum answer *answer)
{
    struct dt_hello hello;
    struct dt_challenge challenge;
    struct dt_claim claim = {.rank = s->place->rank, .size = s->place->size};
    *answer = NOBODY;
    dt_link_prepare(fd);
    DT_TRY(dt_hello_make(&hello));
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        return DT_OK;
    *answer = hear_challenge(s, fd, &hello, &challenge);
    if (*answer != RANK_0)
        return DT_OK;
    dt_rendezvous_build_name(claim.build);
    dt_claim_prove(s->place->secret, &hello, &challenge, &claim);
    if (send(fd, &claim, sizeof claim, MSG_NOSIGNAL) != sizeof claim)
        *answer = NOBODY;
    return DT_OK;
}

/* Fail because another process has listened there for a while. */
static dt_status fail_stranger(const struct search *s, enum answer answer)
{
    if (answer == SOMEBODY_ELSE)
        return dt_fail(DT_ERR_WORLD,
                       "what listens at %s is not dtbench's rank 0, and answers \"%s\": set MASTER_PORT to a port that is free",
                       s->place_name, s->said);
    return dt_fail(DT_ERR_WORLD,
                   "another job's ranks connect at %s, or rank %d does not have rank 0's secret: set MASTER_PORT to a port that is "
                   "free, or " DT_SECRET_VARIABLE " to one text on all nodes",
                   s->place_name, s->place->rank);
}

/* Use a new connection until all ranks are there. *again: it failed, and a later attempt may
 * succeed. */
static dt_status talk(struct search *s, int fd, bool *again)
{
    struct dt_link *link = &s->r->links[0];
    struct dt_frame frame = {0};
    const char *payload;
    bool open = true;
    enum answer answer;
    *again = false;
    *link = (struct dt_link){.fd = fd, .reader = link->reader};
    DT_TRY(introduce(s, fd, &answer));
    if (answer == RANK_0 && next_frame(link, silence_s, &frame, &payload, &open))
        return frame.type == DT_FRAME_WELCOME ? wait_for_others(s, link) : refused(&frame, payload);
    bool stranger = answer == ANOTHER_JOB || answer == SOMEBODY_ELSE;
    if (!stranger)
        s->stranger_since_ns = 0;
    else if (s->stranger_since_ns == 0)
        s->stranger_since_ns = dt_clock_ns();
    snprintf(s->problem, sizeof s->problem, "%s", stranger ? "something else listens there" : "what listens there does not answer");
    dt_link_close(link);
    *again = !stranger || dt_clock_since_s(s->stranger_since_ns) < stranger_s;
    return *again ? DT_OK : fail_stranger(s, answer);
}

dt_status dt_rendezvous_connect(struct dt_rendezvous *r, const struct dt_rendezvous_place *place)
{
    struct search s = {.r = r, .place = place, .start_ns = dt_clock_ns(), .end_ns = dt_deadline_ns(place->timeout_s)};
    dt_rendezvous_place_name(place, s.place_name, sizeof s.place_name);
    for (;;) {
        bool known = true, again = true;
        int fd = connect_to_any(&s, &known);
        if (fd >= 0) {
            dt_status status = talk(&s, fd, &again);
            if (!again)
                return status;
        }
        if (!known && dt_clock_since_s(s.start_ns) > unknown_name_s)
            return dt_fail(DT_ERR_WORLD, "rank 0's host \"%s\" is not known here: %s; set MASTER_ADDR to a name or address that is",
                           place->address, s.problem);
        if (dt_deadline_passed(s.end_ns))
            return dt_fail(DT_ERR_TIMEOUT, "rank 0 of %d was not at %s within %g s: %s", place->size, s.place_name, place->timeout_s,
                           s.problem);
        dt_sleep_ns((int64_t)(pause_s * 1e9));
    }
}
