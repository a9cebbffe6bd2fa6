/* The supervisor: it receives the ranks' messages, and controls the run. */
#include "lib/launch/launch.h"

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/launch/launch_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer {
    int fd;   /* -1: not connected, or gone */
    int rank; /* -1: not announced yet */
    pid_t pid;
    struct dt_wire_reader reader;
    long steps; /* progress messages */
    int64_t heard_ns;
    bool done;   /* has sent its last message */
    bool dumped; /* has written its dump */
};

struct supervisor {
    const struct dt_launch *launch;
    char **result;
    struct dt_child *children; /* [child_count]: mpirun, or each rank at the index of its number */
    int child_count;
    int listen_fd, port_fd; /* port_fd: reserves the port of the rendezvous; -1: none */
    struct peer *peers;     /* [peer_count]: connections in order of arrival */
    int peer_count;
    struct peer **by_rank;    /* [world_size]: NULL: not announced yet */
    struct pollfd *polls;     /* [peer_count + 1 + child_count] */
    int64_t start_ns, end_ns; /* end_ns: time at which to give up waiting; 0: the run is not ending */
    dt_status status;         /* the first failure */
    char text[1024];
    int vanished;       /* the rank of that failure, if the rank disappeared; else -1 */
    bool launcher_died; /* mpirun was killed by another process */
    bool stop_sent, dump_sent;
    bool for_dumps; /* the supervisor has ended the run for lack of progress, and only waits for dumps */
};

/* ---- events: connections, messages, ends, and the children's output ---- */

/* How long other ranks may take to report and end after a rank failed; and how long to wait for the
 * signal that killed a rank. */
static const double linger_failed_s = 2.0, linger_vanished_s = 2.0;

/* Record a failure. Only the first counts; later ones follow from it. The run ends at most
 * `linger_s` later. */
static void fail_run(struct supervisor *s, dt_status status, double linger_s, const char *text)
{
    if (s->status != DT_OK)
        return;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", text);
    s->end_ns = dt_clock_ns() + (int64_t)(linger_s * 1e9);
}

/* A message without text to every rank that is not done. */
static void send_all(struct supervisor *s, enum dt_wire_type type)
{
    for (int r = 0; r < s->launch->world_size; r++) {
        struct peer *p = s->by_rank[r];
        if (p && p->fd >= 0 && !p->done)
            dt_wire_send(p->fd, type, 0, NULL, 0, -1); /* a rank that is gone is detected by its end */
    }
}

/* Sent only once. */
static void ask_for_dumps(struct supervisor *s)
{
    if (!s->dump_sent)
        send_all(s, DT_WIRE_DUMP);
    s->dump_sent = true;
}

/* The ranks that were asked for a dump, are connected, and have not answered: returns how many, and
 * lists them. */
static int silent_ranks(const struct supervisor *s, char *list, size_t list_bytes)
{
    int count = 0;
    *list = 0;
    for (int r = 0; r < s->launch->world_size; r++) {
        const struct peer *p = s->by_rank[r];
        if (!p || p->fd < 0 || p->done || p->dumped)
            continue;
        dt_append(list, list_bytes, ", ", "%d", r);
        count++;
    }
    return count;
}

/* A rank announces itself: it gets the input and this process's stderr. */
static void welcome(struct supervisor *s, struct peer *p, int rank)
{
    if (rank < 0 || rank >= s->launch->world_size || s->by_rank[rank]) {
        char text[128];
        snprintf(text, sizeof text, "a process announced itself as rank %d of %d, which is %s", rank, s->launch->world_size,
                 rank >= 0 && rank < s->launch->world_size ? "taken" : "none");
        fail_run(s, DT_ERR_WORLD, 0, text);
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
    /* A communicator that times out knows which rank it waited for; the supervisor counts reports. */
    if (s->for_dumps && s->status == DT_ERR_TIMEOUT && message->value == DT_ERR_TIMEOUT) {
        s->status = DT_OK;
        s->for_dumps = false;
    }
    fail_run(s, (dt_status)message->value, linger_failed_s, text);
    if (message->value == DT_ERR_TIMEOUT)
        ask_for_dumps(s);
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
            free(*s->result);
            *s->result = strdup(message->text);
            if (!*s->result)
                fail_run(s, DT_ERR_HOST_MEMORY, 0, "no memory for the result");
        }
        break;
    case DT_WIRE_FAILED: handle_failed(s, p, message); break;
    case DT_WIRE_DUMPED: p->dumped = true; break;
    case DT_WIRE_DONE: p->done = true; break;
    case DT_WIRE_HELLO:
    case DT_WIRE_INPUT:
    case DT_WIRE_STOP:
    case DT_WIRE_DUMP:
    case DT_WIRE_TYPES: break;
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
    /* Another rank may report the lost connection before this process sees the rank's end: the lost
     * rank is the cause. Under mpirun a lost rank is not reported, since mpirun kills the other
     * ranks, too. */
    if (s->status == DT_ERR_COMM && s->vanished < 0 && !dt_launch_uses_mpirun(s->launch))
        s->status = DT_OK;
    if (s->status == DT_OK)
        s->vanished = p->rank;
    fail_run(s, DT_ERR_COMM, linger_vanished_s, text);
}

/* A peer has sent something that is not a message, or there is no memory for it. If the peer is not
 * a rank, its connection is only closed. */
static void refuse(struct supervisor *s, const struct peer *p, dt_status status)
{
    char text[256];
    if (p->rank < 0 && status == DT_ERR_COMM)
        return;
    snprintf(text, sizeof text, "rank %d (pid %d) sent %s", p->rank, (int)p->pid, dt_error_message());
    fail_run(s, status, 0, status == DT_ERR_COMM ? text : dt_error_message());
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

/* Only processes of the same user may connect; the kernel gives their user and pid. */
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
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* a stopped rank must not block the supervisor */
        *p = (struct peer){
            .fd = fd, .rank = -1, .pid = who.pid, .reader = {.end = DT_WIRE_SUPERVISOR, .passed_fd = -1}, .heard_ns = dt_clock_ns()};
    }
}

/* Wait for the next events, at most `milliseconds`, and handle them. */
static void handle_events(struct supervisor *s, int milliseconds)
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
                dt_child_read_noise(&s->children[c]);
        }
    }
    for (int c = 0; c < s->child_count; c++)
        dt_child_check(&s->children[c]);
}

static bool children_gone(const struct supervisor *s)
{
    bool gone = true;
    for (int c = 0; c < s->child_count; c++)
        gone &= s->children[c].gone;
    return gone;
}

/* Processes with an open connection, strangers included. */
static int connected_count(const struct supervisor *s)
{
    int count = 0;
    for (int i = 0; i < s->peer_count; i++)
        count += s->peers[i].fd >= 0;
    return count;
}

/* ---- the course of a run ---- */

/* How long dumps and ordinary ends may take. Dumps take milliseconds, unless a rank gets no
 * processor. Together with the limits after a failure it stays below ten seconds. */
static const double linger_dump_s = 5.0, linger_exit_s = 3.0;

static bool all_done(const struct supervisor *s)
{
    for (int r = 0; r < s->launch->world_size; r++) {
        if (!s->by_rank[r] || !s->by_rank[r]->done)
            return false;
    }
    return true;
}

static bool any_ready(const struct supervisor *s, bool all)
{
    for (int r = 0; r < s->launch->world_size; r++) {
        bool ready = s->by_rank[r] && (s->by_rank[r]->steps > 0 || s->by_rank[r]->done);
        if (ready != all)
            return ready;
    }
    return all;
}

static void check_stop(struct supervisor *s)
{
    int requests = s->launch->stop_requests ? s->launch->stop_requests(s->launch->context) : 0;
    if (requests >= 2 || (requests == 1 && !s->stop_sent && !any_ready(s, false))) {
        fail_run(s, DT_ERR_INTERRUPTED, 0, "stopped before the experiment was over");
        s->end_ns = dt_clock_ns();
    } else if (requests == 1 && !s->stop_sent) {
        s->stop_sent = true;
        send_all(s, DT_WIRE_STOP);
    }
}

/* Name the ranks that delay the others: during start-up those that are not ready, else those with
 * the fewest steps. */
static void time_out(struct supervisor *s, const char *what, double limit_s, bool starting)
{
    char text[1024], list[512] = "";
    long least = -1;
    int count = 0;
    for (int r = 0; r < s->launch->world_size; r++) {
        const struct peer *p = s->by_rank[r];
        long steps = p ? p->steps : 0;
        if (!(p && p->done) && (least < 0 || steps < least))
            least = steps;
    }
    for (int r = 0; r < s->launch->world_size; r++) {
        const struct peer *p = s->by_rank[r];
        if ((p && p->done) || (p ? p->steps : 0) > least)
            continue;
        dt_append(list, sizeof list, ", ", "%d%s", r, p ? "" : " (never reported)");
        count++;
    }
    if (starting)
        snprintf(text, sizeof text, "%s took longer than %g s: waiting for rank%s %s", what, limit_s, count == 1 ? "" : "s", list);
    else
        snprintf(text, sizeof text, "%s took longer than %g s: rank%s %s did not get past progress report %ld", what, limit_s,
                 count == 1 ? "" : "s", list, least);
    ask_for_dumps(s);
    fail_run(s, s->stop_sent ? DT_ERR_INTERRUPTED : DT_ERR_TIMEOUT, linger_dump_s, text);
    s->for_dumps = true;
}

static void check_timeouts(struct supervisor *s)
{
    const struct dt_launch *launch = s->launch;
    if (!any_ready(s, true)) {
        double limit_s = launch->init_timeout_s + launch->grace_s;
        if (launch->init_timeout_s > 0 && dt_clock_since_s(s->start_ns) > limit_s)
            time_out(s, "the start-up", limit_s, true);
        return;
    }
    for (int r = 0; r < launch->world_size; r++) {
        const struct peer *p = s->by_rank[r];
        double limit_s = launch->step_timeout_s + launch->grace_s;
        if (!p->done && launch->step_timeout_s > 0 && dt_clock_since_s(p->heard_ns) > limit_s)
            time_out(s, "a step", limit_s, false);
    }
}

/* mpirun's text in one line: without its lines of dashes, and with runs of blanks and line breaks
 * joined. */
static void excerpt(const char *noise, char *out, size_t out_bytes)
{
    size_t used = 0;
    bool blank = false;
    for (const char *c = noise; *c && used + 2 < out_bytes; c++) {
        if (*c == '-' && (c[1] == '-' || (c > noise && c[-1] == '-')))
            continue;
        if (*c == ' ' || *c == '\n' || *c == '\t' || *c == '\r') {
            blank = used > 0;
            continue;
        }
        if (blank)
            out[used++] = ' ';
        blank = false;
        out[used++] = *c;
    }
    out[used] = 0;
}

/* A child has ended before its rank was done or had announced itself: the ranks never started, or
 * mpirun itself was killed. */
static void check_child(struct supervisor *s, int number)
{
    const struct dt_child *child = &s->children[number];
    bool mpirun = dt_launch_uses_mpirun(s->launch);
    if (!child->gone || s->status != DT_OK)
        return;
    bool ranks_know = connected_count(s) > 0 && !WIFSIGNALED(child->wait_status); /* a killed process cannot report them */
    if (mpirun ? all_done(s) || ranks_know : s->by_rank[number] != NULL)
        return;
    for (int i = 0; i < s->peer_count; i++) /* its last messages are still to be read */
        if (s->peers[i].fd >= 0 && s->peers[i].pid == child->pid)
            return;
    char text[1024], who[64], said[600];
    excerpt(child->noise, said, sizeof said);
    snprintf(who, sizeof who, mpirun ? "mpirun" : "the process of rank %d", number);
    const char *before = mpirun ? "before the ranks reported" : "before it reported";
    int status = child->wait_status;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "%s was killed by signal %d (%s)%s%s", who, WTERMSIG(status), strsignal(WTERMSIG(status)),
                 said[0] ? ": " : "", said);
    else
        snprintf(text, sizeof text, "%s ended with code %d %s%s%s", who, WEXITSTATUS(status), before, said[0] ? ": " : "", said);
    fail_run(s, DT_ERR_COMM, 0, text);
}

/* Can nothing be added to a failure any more? True if all ranks are gone and their output is read,
 * or if it is known how the lost rank ended, and the others would only wait for it. */
static bool is_complete(const struct supervisor *s)
{
    bool silent = true;
    for (int c = 0; c < s->child_count; c++)
        silent &= s->children[c].noise_fd < 0;
    if (s->vanished >= 0 && !dt_launch_uses_mpirun(s->launch) && s->children[s->vanished].gone)
        return true;
    return silent && children_gone(s) && connected_count(s) == 0;
}

static void supervise(struct supervisor *s)
{
    char silent[512];
    while (!all_done(s) && !dt_deadline_passed(s->end_ns)) {
        if (s->status != DT_OK && (is_complete(s) || (s->for_dumps && silent_ranks(s, silent, sizeof silent) == 0)))
            break;
        handle_events(s, s->end_ns || children_gone(s) ? 10 : 100);
        check_stop(s);
        for (int c = 0; c < s->child_count; c++)
            check_child(s, c);
        if (s->status == DT_OK)
            check_timeouts(s);
    }
    int count = s->for_dumps ? silent_ranks(s, silent, sizeof silent) : 0;
    if (count > 0) /* a thread of its own answers for a rank that hangs: this process is stopped, or gets no processor */
        dt_append(s->text, sizeof s->text, "; ", count == 1 ? "rank %s does not answer" : "ranks %s do not answer", silent);
}

static void wait_for_end(struct supervisor *s, double seconds)
{
    int64_t until = dt_deadline_ns(seconds);
    while (!dt_deadline_passed(until) && (!children_gone(s) || connected_count(s) > 0))
        handle_events(s, 10);
}

/* End all processes: first mpirun normally, so that it removes its files, then all by force. */
static void end_processes(struct supervisor *s)
{
    if (all_done(s))
        wait_for_end(s, linger_exit_s);
    s->launcher_died = dt_launch_uses_mpirun(s->launch) && s->children[0].gone && WIFSIGNALED(s->children[0].wait_status);
    dt_status status = s->status; /* deaths from now on are caused by this process */
    s->status = DT_ERR_INTERRUPTED;
    if (!children_gone(s) || connected_count(s) > 0) {
        if (dt_launch_uses_mpirun(s->launch)) {
            dt_child_signal(&s->children[0], SIGTERM, false);
            wait_for_end(s, 1.5);
        }
        for (int c = 0; c < s->child_count; c++)
            dt_child_signal(&s->children[c], SIGKILL, true);
        for (int i = 0; i < s->peer_count; i++) {
            if (s->peers[i].fd >= 0) /* still connected, so the pid has not been reused */
                kill(s->peers[i].pid, SIGKILL);
        }
        wait_for_end(s, 2.0);
    }
    s->status = status;
}

/* After the lost rank is gone: add the signal or code that ended it, and what it, or MPI, printed
 * during start-up. */
static void explain_vanished(struct supervisor *s)
{
    int rank = s->vanished, signal_number = 0, code = 0;
    if (rank < 0)
        return;
    const struct dt_child *child = &s->children[dt_launch_uses_mpirun(s->launch) ? 0 : rank];
    if (!dt_launch_uses_mpirun(s->launch)) {
        signal_number = child->gone && WIFSIGNALED(child->wait_status) ? WTERMSIG(child->wait_status) : 0;
        code = child->gone && WIFEXITED(child->wait_status) ? WEXITSTATUS(child->wait_status) : 0;
    } else if (dt_mpirun_names_rank(child->noise, &rank, &signal_number, &code) &&
               (rank < 0 || rank >= s->launch->world_size || !s->by_rank[rank])) {
        return;
    }
    const struct peer *p = s->by_rank[rank];
    char how[640] = "", said[500];
    excerpt(child->noise, said, sizeof said);
    if (signal_number > 0)
        snprintf(how, sizeof how, ": signal %d (%s)%s", signal_number, strsignal(signal_number),
                 signal_number == SIGKILL ? "; if nobody sent it, the machine ran out of memory" : "");
    else if (p->steps == 0 && said[0])
        snprintf(how, sizeof how, " while starting: %s", said);
    else if (code > 0)
        snprintf(how, sizeof how, ": it ended with code %d and without a message", code);
    snprintf(s->text, sizeof s->text, "rank %d (pid %d) was killed or crashed%s", rank, (int)p->pid, how);
}

/* If mpirun is killed its ranks end, and each of them could be taken for the cause. */
static void explain_launcher(struct supervisor *s)
{
    const struct dt_child *mpirun = &s->children[0];
    if (!s->launcher_died || s->status != DT_ERR_COMM)
        return;
    int number = WTERMSIG(mpirun->wait_status);
    snprintf(s->text, sizeof s->text, "mpirun (pid %d), which had started the ranks, was killed by signal %d (%s), and they ended with it",
             (int)mpirun->pid, number, strsignal(number));
}

static dt_status prepare(struct supervisor *s, char *socket_name, size_t socket_name_bytes)
{
    uint64_t random = 0;
    size_t ranks = (size_t)s->launch->world_size;
    s->peer_count = s->launch->world_size + 8; /* room for other processes that connect */
    s->peers = calloc((size_t)s->peer_count, sizeof *s->peers);
    s->by_rank = calloc(ranks, sizeof *s->by_rank);
    s->child_count = dt_launch_uses_mpirun(s->launch) ? 1 : s->launch->world_size;
    s->children = calloc((size_t)s->child_count, sizeof *s->children);
    s->polls = calloc((size_t)(s->peer_count + 1 + s->child_count), sizeof *s->polls);
    DT_TRY(dt_allocated(s->peers && s->by_rank && s->children && s->polls, "no memory to supervise %zu ranks", ranks));
    for (int i = 0; i < s->peer_count; i++)
        s->peers[i] = (struct peer){.fd = -1, .rank = -1, .reader = {.passed_fd = -1}};
    for (int c = 0; c < s->child_count; c++)
        s->children[c] = (struct dt_child){.noise_fd = -1, .gone = true};
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return dt_fail(DT_ERR_IO, "no random number for a socket's name: %s", strerror(errno));
    snprintf(socket_name, socket_name_bytes, "dtbench-%d-%016llx", (int)getpid(), (unsigned long long)random);
    return dt_wire_listen(socket_name, &s->listen_fd);
}

/* Reserve a loopback port on which rank 0 may listen: a socket is bound to it but does not listen,
 * so no other process gets it. Two sockets with SO_REUSEADDR (rank 0's must have it too) may be
 * bound to one port if at most one of them listens. Owner of *out_fd: the caller, close, once the
 * ranks are gone. */
static dt_status reserve_port(int *out_fd, int *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        dt_fail(DT_ERR_IO, "no port on 127.0.0.1 for the rendezvous of the ranks: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return DT_ERR_IO;
    }
    *out_fd = fd;
    *out_port = ntohs(address.sin_port);
    return DT_OK;
}

/* Start each rank, or mpirun. Ranks without mpirun connect at a port of this machine; a single rank
 * does not connect. */
static dt_status start_children(struct supervisor *s, const char *socket_name)
{
    char secret[DT_SECRET_TEXT_BYTES] = "";
    int port = 0;
    if (s->child_count > 1) {
        DT_TRY(reserve_port(&s->port_fd, &port));
        DT_TRY(dt_secret_make(secret));
    }
    for (int c = 0; c < s->child_count; c++)
        DT_TRY(dt_child_start(s->launch, c, port, secret, socket_name, &s->children[c]));
    return DT_OK;
}

static void finish(struct supervisor *s)
{
    for (int i = 0; s->peers && i < s->peer_count; i++) {
        if (s->peers[i].fd >= 0)
            close(s->peers[i].fd);
        dt_wire_finish(&s->peers[i].reader);
    }
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->port_fd >= 0)
        close(s->port_fd);
    for (int c = 0; s->children && c < s->child_count; c++)
        dt_child_finish(&s->children[c]);
    free(s->children);
    free(s->peers);
    free(s->by_rank);
    free(s->polls);
}

dt_status dt_launch_run(const struct dt_launch *launch, char **result)
{
    char socket_name[64];
    *result = NULL;
    if (launch->world_size < 1 || !launch->argv || !launch->argv[0] || !launch->input)
        return dt_fail(DT_ERR_INVALID, "nothing to launch: %d ranks", launch->world_size);
    DT_ENDED(finish)
    struct supervisor s = {.launch = launch, .result = result, .listen_fd = -1, .port_fd = -1, .vanished = -1, .start_ns = dt_clock_ns()};
    DT_TRY(prepare(&s, socket_name, sizeof socket_name));
    if (dt_launch_uses_mpirun(launch))
        dt_launch_remove_leftovers("/dev/shm"); /* leftovers of killed runs */
    dt_status started = start_children(&s, socket_name);
    if (started < 0)
        fail_run(&s, started, 0, dt_error_message());
    else
        supervise(&s);
    end_processes(&s);
    if (dt_launch_uses_mpirun(launch) && s.child_count > 0 && s.children[0].gone)
        dt_launch_remove_sessions(NULL, getpid());
    explain_vanished(&s);
    explain_launcher(&s);
    if (s.status == DT_OK && !*result)
        fail_run(&s, DT_ERR_COMM, 0, "rank 0 ended without a result");
    return s.status == DT_OK ? DT_OK : dt_fail(s.status, "%s", s.text);
}
