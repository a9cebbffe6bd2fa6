/* Sockets between the ranks of an emulated NCCL communicator, and messages on them. */
#include "test/cuda_emulator/libraries/nccl_parts.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace emulated_nccl {

namespace {

void sleep_ms(int milliseconds)
{
    poll(nullptr, 0, milliseconds);
}

/* An abstract address: it goes with the last socket that has it. */
socklen_t address_of(const std::string &id, int rank, sockaddr_un *out)
{
    std::string name = "dtbench-emulated-nccl-" + id + "-" + std::to_string(rank);
    *out = {};
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name.data(), name.size());
    return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/* The first message of a connecting rank: its number, and the purpose of the socket. */
enum class purpose : int32_t { data_from_it, data_to_it, hosts };
struct introduction {
    int32_t rank;
    purpose what;
};

int connect_to(state &s, int rank, purpose what)
{
    sockaddr_un address;
    socklen_t bytes = address_of(s.id, rank, &address);
    introduction me = {s.rank, what};
    while (!s.aborted) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (::connect(fd, (sockaddr *)&address, bytes) == 0 && send(fd, &me, sizeof me, MSG_NOSIGNAL) == sizeof me)
            return fd;
        close(fd);
        sleep_ms(2);
    }
    return -1;
}

bool accept_all(state &s, int listener, int count)
{
    while (count > 0 && !s.aborted) {
        pollfd p = {listener, POLLIN, 0};
        if (poll(&p, 1, 10) <= 0)
            continue;
        int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        introduction who;
        if (fd < 0 || recv(fd, &who, sizeof who, MSG_WAITALL) != sizeof who || who.rank < 0 || who.rank >= s.size) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        (who.what == purpose::hosts ? s.hosts : who.what == purpose::data_from_it ? s.from : s.to)[(size_t)who.rank] = fd;
        count--;
    }
    return count == 0;
}

bool say(state &s, int rank, const word &w)
{
    return send(s.hosts[(size_t)rank], &w, sizeof w, MSG_NOSIGNAL) == sizeof w;
}

/* Wait for a peer's word on a topic, which may have arrived earlier. */
ncclResult_t hear(state &s, const peer_topic &from, word *out)
{
    std::deque<word> &said = s.heard[from];
    while (said.empty()) {
        word w;
        pollfd p = {s.hosts[(size_t)from.first], POLLIN, 0};
        if (s.aborted)
            return ncclInternalError;
        if (poll(&p, 1, 5) <= 0)
            continue;
        if (recv(p.fd, &w, sizeof w, MSG_WAITALL) != sizeof w) {
            note_error("the connection to rank " + std::to_string(from.first) + " closed");
            return ncclRemoteError;
        }
        s.heard[{from.first, w.what}].push_back(w);
    }
    *out = said.front();
    said.pop_front();
    return ncclSuccess;
}

/* Send or receive what is possible without waiting. False: the connection has closed. */
bool move(int fd, bool sending, void *data, size_t bytes, size_t *moved)
{
    while (*moved < bytes) {
        char *at = (char *)data + *moved;
        ssize_t got = sending ? send(fd, at, bytes - *moved, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, bytes - *moved, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return true;
        if (got <= 0)
            return false;
        *moved += (size_t)got;
    }
    return true;
}

bool same(const header &a, const header &b)
{
    return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root && a.count == b.count && a.number == b.number &&
           a.registered == b.registered;
}

/* One message a step further. */
bool advance(state &s, transfer &t)
{
    int fd = t.sending ? s.to[(size_t)t.peer] : s.from[(size_t)t.peer];
    header &h = t.sending ? t.header : t.arrived;
    size_t in_header = t.moved < sizeof h ? t.moved : sizeof h, in_data = t.moved - in_header;
    if (in_header < sizeof h) {
        if (!move(fd, t.sending, &h, sizeof h, &in_header))
            return false;
        if (in_header == sizeof h && !t.sending && !same(h, t.header)) {
            s.fail(ncclInvalidUsage, "ranks call different operations: rank " + std::to_string(t.peer) + " " + text_of(h) + ", rank " +
                                         std::to_string(s.rank) + " " + text_of(t.header));
            return true;
        }
    }
    if (in_header == sizeof h && !move(fd, t.sending, t.data, t.bytes, &in_data))
        return false;
    t.moved = in_header + in_data;
    if (t.moved < sizeof h + t.bytes)
        return true;
    char byte = 1;
    size_t acknowledged = 0;
    if (!move(fd, !t.sending, &byte, 1, &acknowledged))
        return false;
    t.acknowledged = acknowledged == 1;
    return true;
}

} // namespace

bool transfer::finished() const
{
    return acknowledged;
}

state::~state()
{
    for (const auto *sockets : {&to, &from, &hosts})
        for (int fd : *sockets)
            if (fd >= 0)
                close(fd);
}

void state::fail(ncclResult_t error, const std::string &text)
{
    int now = result;
    note_error(text);
    while ((now == ncclSuccess || now == ncclInProgress) && !result.compare_exchange_weak(now, error))
        ;
}

bool state::failed() const
{
    int now = result; /* read once: the host's thread ends its call meanwhile, from "in progress" to "success" */
    return now != ncclSuccess && now != ncclInProgress;
}

void state::hang()
{
    while (!aborted)
        sleep_ms(2);
}

bool connect(state &s)
{
    sockaddr_un address;
    socklen_t bytes = address_of(s.id, s.rank, &address);
    s.to.assign((size_t)s.size, -1);
    s.from.assign((size_t)s.size, -1);
    s.hosts.assign((size_t)s.size, -1);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = listener >= 0 && bind(listener, (sockaddr *)&address, bytes) == 0 && listen(listener, 128) == 0;
    for (int rank = 0; done && rank < s.rank; rank++) {
        s.to[(size_t)rank] = connect_to(s, rank, purpose::data_from_it);
        s.from[(size_t)rank] = connect_to(s, rank, purpose::data_to_it);
        s.hosts[(size_t)rank] = connect_to(s, rank, purpose::hosts);
        done = s.to[(size_t)rank] >= 0 && s.from[(size_t)rank] >= 0 && s.hosts[(size_t)rank] >= 0;
    }
    done = done && accept_all(s, listener, 3 * (s.size - 1 - s.rank));
    if (listener >= 0)
        close(listener);
    return done;
}

ncclResult_t connect_peers(state &s, const std::vector<peer_topic> &wanted)
{
    std::vector<peer_topic> waiting;
    word ignored;
    for (const peer_topic &c : wanted) {
        if (!s.connected.insert(c).second)
            continue;
        if (!say(s, c.first, {c.second, 0, 0, 0}))
            return ncclRemoteError;
        topic other_end = c.second == topic::sends ? topic::receives : c.second == topic::receives ? topic::sends : c.second;
        waiting.push_back({c.first, other_end});
    }
    for (const peer_topic &c : waiting) {
        ncclResult_t result = hear(s, c, &ignored);
        if (result != ncclSuccess)
            return result;
    }
    return ncclSuccess;
}

ncclResult_t tell_all(state &s, const word &mine, std::vector<word> *all)
{
    ncclResult_t result = ncclSuccess;
    all->assign((size_t)s.size, mine);
    for (int rank = 0; rank < s.size && result == ncclSuccess; rank++)
        result = rank == s.rank || say(s, rank, mine) ? ncclSuccess : ncclRemoteError;
    for (int rank = 0; rank < s.size && result == ncclSuccess; rank++)
        result = rank == s.rank ? ncclSuccess : hear(s, {rank, mine.what}, &(*all)[(size_t)rank]);
    return result;
}

bool run(state &s, std::vector<transfer> &transfers)
{
    for (;;) {
        std::map<std::pair<int, bool>, bool> busy; /* by peer and direction: an earlier message is not through */
        std::vector<pollfd> polls;
        if (s.aborted)
            return false;
        for (transfer &t : transfers) {
            bool &before = busy[{t.peer, t.sending}];
            if (before || t.finished())
                continue;
            before = true;
            if (!advance(s, t))
                s.fail(ncclRemoteError, "the connection to rank " + std::to_string(t.peer) + " closed");
            if (s.failed()) {
                s.hang();
                return false;
            }
            bool whole = t.moved == sizeof(header) + t.bytes, writes = t.sending != whole;
            if (t.finished())
                before = false;
            else
                polls.push_back({t.sending ? s.to[(size_t)t.peer] : s.from[(size_t)t.peer], (short)(writes ? POLLOUT : POLLIN), 0});
        }
        bool all = true;
        for (const transfer &t : transfers)
            all = all && t.finished();
        if (all)
            return true;
        if (!polls.empty())
            poll(polls.data(), polls.size(), 5);
    }
}

} // namespace emulated_nccl
