/* How a rank that is not rank 0 finds it and introduces itself. */
#include "lib/base/clock.h"
#include "lib/rendezvous/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Between two attempts; for a connection that neither comes nor is refused; for what listens there to say something; how much later than
 * rank 0 the others give up, since it knows who is missing; for a name that is not known (yet). */
static const double pause_s = 0.05, connect_s = 3, silence_s = 5, grace_s = 3, unknown_name_s = 5;

/* One rank's search for rank 0. */
struct search {
    struct dt_rendezvous *r;
    const struct dt_rendezvous_place *place;
    char place_name[300];
    int64_t start_ns, end_ns; /* end_ns 0: never */
    char problem[200];        /* of the last attempt */
};

static bool over(const struct search *s)
{
    return dt_deadline_passed(s->end_ns);
}

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

/* Where nobody listens at a port of one's own machine, a socket may be given that very port, and then connects to itself. */
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
    int error = getaddrinfo(s->place->local ? NULL : s->place->address, port, &hints, &list);
    *known = error != EAI_NONAME;
    if (error)
        snprintf(s->problem, sizeof s->problem, "%s", gai_strerror(error));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_to(s, a);
    if (list)
        freeaddrinfo(list);
    return fd;
}

/* The next frame of rank 0. False: `seconds` passed (0: never), the connection closed, or it says something else. */
static bool next_frame(struct dt_link *link, double seconds, struct dt_frame *frame, const char **payload, bool *open)
{
    int64_t end_ns = dt_deadline_ns(seconds);
    while (!dt_link_next(link, frame, payload)) {
        if (dt_deadline_passed(end_ns) || !*open)
            return false;
        if (wait_for(link->fd, POLLIN, end_ns && seconds < 1 ? seconds : 1))
            *open = dt_link_receive(link);
    }
    return frame->type >= DT_FRAME_WELCOME && frame->type <= DT_FRAME_MET;
}

static dt_status refused(const struct search *s, const struct dt_frame *frame, const char *payload)
{
    dt_status status = frame->count > 0 && frame->count < 64 ? (dt_status)(-(int)frame->count) : DT_ERR_COMM;
    return dt_fail(status, "%.*s", (int)(frame->bytes < 900 ? frame->bytes : 900), payload);
}

/* Welcomed by rank 0: until all are there. */
static dt_status wait_for_others(struct search *s, struct dt_link *link)
{
    struct dt_frame frame = {0};
    const char *payload;
    bool open = true;
    double left_s = s->end_ns ? (double)(s->end_ns - dt_clock_ns()) * 1e-9 + grace_s : 0;
    if (!next_frame(link, left_s, &frame, &payload, &open))
        return open ? dt_fail(DT_ERR_TIMEOUT, "rank 0 of %d, at %s, did not report within %g s that all ranks had connected",
                              s->place->size, s->place_name, s->place->timeout_s + grace_s)
                    : dt_fail(DT_ERR_COMM, "rank 0 of %d, at %s, closed its connection before all ranks had connected", s->place->size,
                              s->place_name);
    return frame.type == DT_FRAME_MET ? DT_OK : refused(s, &frame, payload);
}

/* Say hello on a new connection. *again: this was nothing, and something else may be there later. */
static dt_status introduce(struct search *s, int fd, bool *again)
{
    struct dt_link *link = &s->r->links[0];
    struct dt_hello hello;
    struct dt_frame frame = {0};
    const char *payload;
    bool open = true;
    *link = (struct dt_link){.fd = fd};
    *again = false;
    dt_link_prepare(fd);
    dt_rendezvous_fill_hello(s->place, &hello);
    bool heard = send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello && next_frame(link, silence_s, &frame, &payload, &open);
    if (heard)
        return frame.type == DT_FRAME_WELCOME ? wait_for_others(s, link) : refused(s, &frame, payload);
    /* A connection closed without an answer may be rank 0's earlier rendezvous, or the machine's; a few bytes, or silence, are somebody
     * else's. */
    bool stranger = frame.type != 0 || link->used > 0;
    *again = !stranger;
    snprintf(s->problem, sizeof s->problem, open ? "what listens there does not answer" : "connections are closed at once");
    dt_link_close(link);
    return stranger
               ? dt_fail(DT_ERR_WORLD, "what listens at %s is not dtbench's rank 0: set MASTER_PORT to a port that is free", s->place_name)
               : DT_OK;
}

dt_status dt_rendezvous_connect(struct dt_rendezvous *r, const struct dt_rendezvous_place *place)
{
    struct search s = {.r = r, .place = place, .start_ns = dt_clock_ns(), .end_ns = dt_deadline_ns(place->timeout_s)};
    dt_rendezvous_place_name(place, s.place_name, sizeof s.place_name);
    for (;;) {
        bool known = true, again = true;
        int fd = connect_to_any(&s, &known);
        if (fd >= 0) {
            dt_status status = introduce(&s, fd, &again);
            if (!again)
                return status;
        }
        if (!known && dt_clock_since_s(s.start_ns) > unknown_name_s)
            return dt_fail(DT_ERR_WORLD, "rank 0's host \"%s\" is not known here: %s; set MASTER_ADDR to a name or address that is",
                           place->address, s.problem);
        if (over(&s))
            return dt_fail(DT_ERR_TIMEOUT, "rank 0 of %d was not at %s within %g s: %s", place->size, s.place_name, place->timeout_s,
                           s.problem);
        dt_sleep_ns((int64_t)(pause_s * 1e9));
    }
}
