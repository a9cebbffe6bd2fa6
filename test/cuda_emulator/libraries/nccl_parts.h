/* Inside the emulated NCCL: nccl.cpp (its interface), nccl_links.cpp (bytes between processes),
 * nccl_operations.cpp (what operations do), nccl_registration.cpp (memory that NCCL gives, and
 * registered buffers).
 *
 * Every two ranks of a communicator are connected by two Unix sockets, one for each direction: data
 * goes forth, and a byte comes back when all of a message has been taken. So a send ends when its
 * receive does, the strictest that NCCL's contract allows. A message begins with what its sender
 * believes to be doing, which the receiver holds against its own operation. A third socket is the
 * hosts': they say there what they connect and how they split, as NCCL's do over its bootstrap
 * network, whatever operations are running meanwhile. */
#pragma once

#include <nccl.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace emulated_nccl {

enum class kind : uint32_t { all_reduce, reduce_scatter, all_gather, broadcast, reduce, transfer };
const char *name_of(kind k);

struct operation {
    emulated_nccl::kind kind;
    const void *send;
    void *receive;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or the peer of a transfer */
    bool registered = false;
};

/* The header of a message. */
struct header {
    uint32_t kind, type, op;
    int32_t root;
    uint64_t count, number; /* number: which collective of the communicator it is */
    uint32_t registered;    /* its buffers are: of all ranks' or of none's */
};
std::string text_of(const header &h);

struct transfer {
    int peer;
    bool sending;
    void *data;
    size_t bytes;
    emulated_nccl::header header;
    /* under way */
    emulated_nccl::header arrived;
    size_t moved = 0; /* of header and data */
    bool acknowledged = false;
    bool finished() const;
};

struct range {
    const void *memory;
    size_t bytes;
};

/* What a host says to a peer: that it makes its end of a connection, where the peer's host has to
 * say the same, or the other end; or what it wants of a split; or, of the first communicator, its
 * place. */
enum class topic : uint32_t { ring, tree, sends, receives, split, place };
using peer_topic = std::pair<int, topic>;
struct word {
    topic what;
    int32_t number, color, key; /* of a split: which one of the communicator it is; of a place: 0, its host, its GPU */
};

/* A communicator as its queued operations know it; the handle goes before they do. */
struct state {
    int rank = 0, size = 0, device = 0;
    std::string id;
    std::vector<int> to, from; /* [size] sockets: data for a rank, data from it; -1 */
    std::vector<int> hosts;    /* [size] sockets between the hosts, for both directions */
    /* By the worker's thread: what is connected, and what a peer has said that was not yet waited
     * for. */
    std::set<peer_topic> connected;
    std::map<peer_topic, std::deque<word>> heard;
    std::atomic<bool> aborted{false};
    std::atomic<int> result{ncclInProgress}; /* what ncclCommGetAsyncError says */
    std::atomic<int> running{0};             /* operations that are queued and not done, graphs' while they run */
    std::atomic<int> in_graphs{0};           /* operations that graphs hold which still exist, or captures */
    std::mutex turn;                         /* one operation at a time */
    uint64_t collectives = 0;                /* run so far */
    int splits = 0;
    std::vector<range> registered; /* by ncclCommRegister; host thread */
    bool used = false;             /* some operation has been called */
    ~state();

    void fail(ncclResult_t error, const std::string &text);
    bool failed() const;
    /* Stop all progress, like a kernel that spins until it is aborted. */
    void hang();
};

/* Connect all ranks with the same id. Blocks until it is done or aborted; false: it failed. */
bool connect(state &s);
/* Make those connections that are not there yet: wait until each peer's host makes its end, in
 * whichever call. Blocks as `connect`. */
ncclResult_t connect_peers(state &s, const std::vector<peer_topic> &wanted);
/* Tell every other rank's host, and hear what each says of the same topic; all [size], with this
 * rank's own. Blocks as `connect`. */
ncclResult_t tell_all(state &s, const word &mine, std::vector<word> *all);
/* Move all messages, each direction of each pair in the order given. False: aborted; a failure
 * waits for that. */
bool run(state &s, std::vector<transfer> &transfers);

/* One operation, or a group of transfers. */
void run_collective(state &s, const operation &o);
void run_transfers(state &s, const std::vector<operation> &group);

/* The connections that an operation needs. As NCCL, which connects all ranks when an algorithm is
 * first chosen, and two ranks when one first sends to the other. */
std::vector<peer_topic> connections_of(const state &s, const operation &o);
/* The memory that an operation reads and writes on this rank. */
std::vector<range> ranges_of(const state &s, const operation &o);
/* Before it is queued: says whether its buffers are registered. False: some are and some are not,
 * or are there no more. */
bool find_registered(const state &s, operation &o);

std::shared_ptr<state> state_of(ncclComm_t comm);
std::vector<std::shared_ptr<state>> all_states(); /* of this process's communicators */

/* Of this process; also what ncclGetLastError gives. */
void note_error(const std::string &text);

} // namespace emulated_nccl
