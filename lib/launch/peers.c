/* What arrives at the supervisor: connections, messages, ends, and its children's own words. */
#include "lib/base/clock.h"
#include "lib/launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long the others may take to report and end after a rank failed, and how long it may take to learn which signal killed a rank. */
static const double linger_failed_s = 2.0, linger_vanished_s = 2.0;

void dt_supervisor_fail(struct supervisor *s, dt_status status, int rank, double linger_s, const char *text)
{
    if (s->status != DT_OK)
        return;
    s->status = status;
    s->outcome->failed_rank = rank;
    snprintf(s->text, sizeof s->text, "%s", text);
    s->end_ns = dt_clock_ns() + (int64_t)(linger_s * 1e9);
}

void dt_supervisor_send_all(struct supervisor *s, enum dt_wire_type type)
{
    for (int r = 0; r < s->launch->world_size; r++) {
        struct peer *p = s->by_rank[r];
        if (p && p->fd >= 0 && !p->done)
            dt_wire_send(p->fd, type, 0, NULL, 0, -1); /* one that is gone is noticed by its end */
    }
}

void dt_supervisor_ask_for_dumps(struct supervisor *s)
{
    if (!s->dump_sent)
        dt_supervisor_send_all(s, DT_WIRE_DUMP);
    s->dump_sent = true;
}

bool dt_supervisor_dumps_done(const struct supervisor *s)
{
    bool done = true;
    for (int r = 0; r < s->launch->world_size; r++) {
        const struct peer *p = s->by_rank[r];
        done &= !p || p->fd < 0 || p->done || p->dumped;
    }
    return done;
}

/* A rank announces itself: it gets the input and our stderr. */
static void welcome(struct supervisor *s, struct peer *p, int rank)
{
    if (rank < 0 || rank >= s->launch->world_size || s->by_rank[rank]) {
        char text[128];
        snprintf(text, sizeof text, "a process announced itself as rank %d of %d, which is %s", rank, s->launch->world_size,
                 rank >= 0 && rank < s->launch->world_size ? "taken" : "none");
        dt_supervisor_fail(s, DT_ERR_WORLD, -1, 0, text);
        return;
    }
    p->rank = rank;
    s->by_rank[rank] = p;
    int stderr_fd = fcntl(STDERR_FILENO, F_GETFD) >= 0 ? STDERR_FILENO : -1;
    dt_wire_send(p->fd, DT_WIRE_INPUT, 0, s->launch->input, strlen(s->launch->input), stderr_fd);
    if (s->stop_sent)
        dt_wire_send(p->fd, DT_WIRE_STOP, 0, NULL, 0, -1);
}

static void handle_failed(struct supervisor *s, const struct peer *p, const struct dt_wire_message *message)
{
    char text[1024];
    if (s->launch->world_size > 1)
        snprintf(text, sizeof text, "rank %d: %s", p->rank, message->text);
    else
        snprintf(text, sizeof text, "%s", message->text);
    dt_supervisor_fail(s, (dt_status)message->value, p->rank, linger_failed_s, text);
    if (message->value == DT_ERR_TIMEOUT)
        dt_supervisor_ask_for_dumps(s);
}

static void handle(struct supervisor *s, struct peer *p, const struct dt_wire_message *message)
{
    p->heard_ns = dt_clock_ns();
    if (p->rank < 0) {
        if (message->type == DT_WIRE_HELLO)
            welcome(s, p, message->value);
        return;
    }
    switch (message->type) {
    case DT_WIRE_PROGRESS:
        p->steps++;
        if (s->launch->progress)
            s->launch->progress(s->launch->context, p->rank, message->text);
        break;
    case DT_WIRE_RESULT:
        if (p->rank == 0) {
            free(s->outcome->result);
            s->outcome->result = strdup(message->text);
            if (!s->outcome->result)
                dt_supervisor_fail(s, DT_ERR_HOST_MEMORY, -1, 0, "no memory for the result");
        }
        break;
    case DT_WIRE_FAILED: handle_failed(s, p, message); break;
    case DT_WIRE_DUMPED: p->dumped = true; break;
    case DT_WIRE_DONE: p->done = true; break;
    default: break;
    }
}

static void hang_up(struct supervisor *s, struct peer *p)
{
    char text[128];
    close(p->fd);
    p->fd = -1;
    if (p->rank < 0 || p->done)
        return;
    snprintf(text, sizeof text, "rank %d (pid %d) was killed or crashed", p->rank, (int)p->pid);
    /* Another rank may report the lost connection before this process sees the rank's end: the lost rank is the cause. Under mpirun a lost rank
     * tells nothing, since mpirun kills the other ranks, too. */
    if (s->status == DT_ERR_COMM && s->vanished < 0 && !dt_launch_uses_mpirun(s->launch))
        s->status = DT_OK;
    if (s->status == DT_OK)
        s->vanished = p->rank;
    dt_supervisor_fail(s, DT_ERR_COMM, p->rank, linger_vanished_s, text);
}

/* What a peer sent is no message, or there is no memory for it. One that is no rank is closed, and nothing else comes of it. */
static void refuse(struct supervisor *s, const struct peer *p, dt_status status)
{
    char text[256];
    if (p->rank < 0 && status == DT_ERR_COMM)
        return;
    snprintf(text, sizeof text, "rank %d (pid %d) sent %s", p->rank, (int)p->pid, dt_error_message());
    dt_supervisor_fail(s, status, p->rank, 0, status == DT_ERR_COMM ? text : dt_error_message());
}

static void read_peer(struct supervisor *s, struct peer *p)
{
    struct dt_wire_message message;
    bool end = false;
    int have = dt_wire_receive(&p->reader, p->fd, &end);
    if (have >= 0)
        have = dt_wire_next(&p->reader, &message);
    for (; have > 0; have = dt_wire_next(&p->reader, &message))
        handle(s, p, &message);
    if (have < 0)
        refuse(s, p, (dt_status)have);
    if (have < 0 || end)
        hang_up(s, p);
}

/* Only processes of the same user may connect; the kernel says whose they are and gives their pid. */
static void accept_peers(struct supervisor *s)
{
    for (;;) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct ucred who;
        socklen_t length = sizeof who;
        struct timeval patience = {.tv_sec = 2};
        struct peer *p = NULL;
        for (int i = 0; i < s->peer_count && !p; i++) {
            if (s->peers[i].fd < 0 && s->peers[i].pid == 0)
                p = &s->peers[i];
        }
        if (!p || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid()) {
            close(fd);
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* a stopped rank must not stop us */
        *p = (struct peer){
            .fd = fd, .rank = -1, .pid = who.pid, .reader = {.end = DT_WIRE_SUPERVISOR, .passed_fd = -1}, .heard_ns = dt_clock_ns()};
    }
}

void dt_supervisor_handle_events(struct supervisor *s, int milliseconds)
{
    int n = s->peer_count;
    for (int i = 0; i < n; i++)
        s->polls[i] = (struct pollfd){.fd = s->peers[i].fd, .events = POLLIN};
    s->polls[n] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    for (int c = 0; c < s->child_count; c++)
        s->polls[n + 1 + c] = (struct pollfd){.fd = s->children[c].noise_fd, .events = POLLIN};
    if (poll(s->polls, (nfds_t)(n + 1 + s->child_count), milliseconds) > 0) {
        for (int i = 0; i < n; i++) {
            if (s->polls[i].revents)
                read_peer(s, &s->peers[i]);
        }
        if (s->polls[n].revents)
            accept_peers(s);
        for (int c = 0; c < s->child_count; c++) {
            if (s->polls[n + 1 + c].revents)
                dt_child_read_noise(&s->children[c], s->launch->verbose);
        }
    }
    for (int c = 0; c < s->child_count; c++)
        dt_child_check(&s->children[c]);
}

bool dt_supervisor_children_gone(const struct supervisor *s)
{
    bool gone = true;
    for (int c = 0; c < s->child_count; c++)
        gone &= s->children[c].gone;
    return gone;
}

int dt_supervisor_connected(const struct supervisor *s)
{
    int count = 0;
    for (int i = 0; i < s->peer_count; i++)
        count += s->peers[i].fd >= 0;
    return count;
}
