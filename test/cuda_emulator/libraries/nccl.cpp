/* The emulated NCCL's interface: communicators that never block the host, operations on emulated
 * streams, groups of transfers.
 *
 * Stricter than NCCL: only what dtbench does is taken. Communicators are non-blocking; the ranks
 * call the same operations in the same order; nothing is called while an earlier call is still in
 * progress. Once a communicator has registered buffers, all of its operations' are registered, on
 * every rank.
 *
 * As NCCL, every operation of a non-blocking communicator is in progress at first, since a thread
 * queues it; where it needs connections that are not there, it stays so until its peers call the
 * operation that needs the other ends, and reaches its stream only then (groupLaunch in NCCL's
 * group.cc; runtimeConn and ncclCollPreconnect).
 *
 * As NCCL, the end of a communicator waits for the graphs that hold its operations, and an abort
 * for those and for all that runs on the GPU, as freeing memory does: kernels of another
 * communicator that hang until that is aborted, too. */
#include "test/cuda_emulator/libraries/nccl_parts.h"
#include "test/cuda_emulator/runtime/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/random.h>
#include <unistd.h>

struct ncclComm {
    std::shared_ptr<emulated_nccl::state> state;
    std::thread worker; /* creation, a split, an operation, the end: one at a time */
    /* The last operation and the stream it was queued on: the next one follows it, on whichever
     * stream. */
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    std::shared_ptr<emulator::capture> captured;
};

namespace emulated_nccl {

namespace {

std::mutex &text_lock()
{
    static auto *lock = new std::mutex;
    return *lock;
}
std::string &text()
{
    static auto *last = new std::string;
    return *last;
}

/* ---- the log, as far as NCCL_DEBUG asks for one: a few lines of its own, and those of a file that
 * a test names ---- */

FILE *log_file()
{
    static FILE *file = [] {
        const char *level = getenv("NCCL_DEBUG"), *parts = getenv("NCCL_DEBUG_SUBSYS"), *path = getenv("NCCL_DEBUG_FILE");
        bool wanted = level && strcmp(level, "INFO") == 0 && parts && strcmp(parts, "INIT,NET") == 0 && path;
        std::string own = path ? path : "";
        size_t pid = own.find("%p");
        if (pid != std::string::npos)
            own.replace(pid, 2, std::to_string(getpid()));
        return wanted ? fopen(own.c_str(), "we") : nullptr;
    }();
    return file;
}

void log_line(const std::string &line)
{
    if (!log_file())
        return;
    fprintf(log_file(), "node1:10:11 [0] NCCL INFO %s\n", line.c_str());
    fflush(log_file());
}

void log_start()
{
    log_line("Bootstrap : Using eth0:10.0.0.1<0>");
    log_line("NET/Socket : Using [0]eth0:10.0.0.1<0>");
    log_line("Using network Socket");
}

void log_connection(const state &s)
{
    char line[512];
    const char *path = getenv("DTBENCH_EMULATED_NCCL_LOG");
    FILE *more = path && log_file() ? fopen(path, "re") : nullptr;
    log_line("Channel 00/0 : " + std::to_string(s.rank) + "[0] -> " + std::to_string((s.rank + 1) % s.size) + "[0] via P2P/CUMEM");
    while (more && fgets(line, sizeof line, more))
        fputs(line, log_file());
    if (more) {
        fflush(log_file());
        fclose(more);
    }
}

ncclResult_t refuse(ncclResult_t error, const std::string &why)
{
    note_error(why);
    return error;
}

/* Do the work on another thread. The host sees ncclInProgress until its result is there. */
void work_on(ncclComm *comm, std::function<ncclResult_t()> work)
{
    if (comm->worker.joinable())
        comm->worker.join();
    comm->state->result = ncclInProgress;
    comm->worker = std::thread([s = comm->state, work] {
        cudaSetDevice(s->device);
        ncclResult_t result = work();
        int busy = ncclInProgress;
        s->result.compare_exchange_strong(busy, result);
    });
}

std::vector<std::weak_ptr<state>> &states()
{
    static auto *all = new std::vector<std::weak_ptr<state>>;
    return *all;
}

ncclComm *make(int size, int rank, const std::string &id)
{
    auto *comm = new ncclComm;
    comm->state = std::make_shared<state>();
    std::lock_guard<std::mutex> hold(text_lock());
    states().push_back(comm->state);
    comm->state->size = size;
    comm->state->rank = rank;
    comm->state->id = id;
    cudaGetDevice(&comm->state->device);
    cudaEventCreateWithFlags(&comm->event, cudaEventDisableTiming);
    return comm;
}

void release(ncclComm *comm)
{
    if (comm->worker.joinable())
        comm->worker.join();
    cudaEventDestroy(comm->event);
    delete comm;
}

bool wanted(const ncclConfig_t *config)
{
    return config && config->magic == 0xcafebeef && config->size == sizeof *config && config->blocking == 0;
}

std::shared_ptr<emulator::capture> capture_of(cudaStream_t stream)
{
    std::lock_guard<std::mutex> hold(emulator::the().lock);
    emulator::stream *s = emulator::stream_of(stream);
    return s ? s->capturing : nullptr;
}

/* A captured operation holds this: it counts as in a graph until the last copy of the operation is
 * destroyed with its graphs. */
std::shared_ptr<void> hold_in_graph(const std::shared_ptr<state> &s)
{
    s->in_graphs++;
    return std::shared_ptr<void>(nullptr, [s](void *) { s->in_graphs--; });
}

/* Behind the communicator's last operation, which may be on another stream. */
ncclResult_t enqueue(ncclComm *comm, cudaStream_t stream, const char *name, std::function<void()> work)
{
    auto capture = capture_of(stream);
    cudaError_t error = cudaSuccess;
    if (comm->stream && comm->stream != stream && comm->captured == capture)
        error = cudaStreamWaitEvent(stream, comm->event, 0);
    if (!capture)
        comm->state->running++;
    bool counted = !capture;
    auto held = capture ? hold_in_graph(comm->state) : nullptr;
    auto counting = [s = comm->state, work = std::move(work), counted, held] {
        s->running += !counted;
        work();
        s->running--;
    };
    if (error == cudaSuccess)
        error = emulator_enqueue(stream, name, counting);
    if (error == cudaSuccess)
        error = cudaEventRecord(comm->event, stream);
    comm->stream = stream;
    comm->captured = capture;
    return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

/* Connect what the operations need, and then queue them. */
ncclResult_t submit(ncclComm *comm, cudaStream_t stream, const char *name, const std::vector<operation> &operations)
{
    if (!comm->state->used)
        log_connection(*comm->state);
    comm->state->used = true;
    work_on(comm, [=, s = comm->state] {
        std::vector<peer_topic> wanted;
        for (const operation &o : operations)
            for (const peer_topic &c : connections_of(*s, o))
                wanted.push_back(c);
        ncclResult_t result = connect_peers(*s, wanted);
        if (result != ncclSuccess)
            return result;
        return enqueue(comm, stream, name, [s, operations] {
            if (operations[0].kind == kind::transfer)
                run_transfers(*s, operations);
            else
                run_collective(*s, operations[0]);
        });
    });
    return ncclInProgress;
}

struct grouped {
    ncclComm *comm;
    cudaStream_t stream;
    operation o;
};
thread_local int group_depth = 0;
thread_local std::vector<grouped> group;

ncclResult_t check(ncclComm *comm, const operation &o)
{
    if (!comm)
        return refuse(ncclInvalidArgument, "no communicator");
    int result = comm->state->result;
    if (result != ncclSuccess)
        return refuse(ncclInvalidUsage,
                      result == ncclInProgress ? "a call while an earlier one is in progress" : "the communicator has failed");
    if (o.root < 0 || o.root >= comm->state->size || (o.op != ncclSum && o.op != ncclAvg) ||
        (o.type != ncclFloat32 && o.type != ncclFloat16 && o.type != ncclBfloat16))
        return refuse(ncclInvalidArgument, std::string("a wrong argument of ") + name_of(o.kind));
    return ncclSuccess;
}

ncclResult_t call(operation o, ncclComm *comm, cudaStream_t stream)
{
    ncclResult_t error = check(comm, o);
    if (error != ncclSuccess)
        return error;
    if (!find_registered(*comm->state, o))
        return refuse(ncclInvalidUsage, "a buffer that is not registered, or no more, of a communicator that has registered buffers");
    if (o.kind != kind::transfer && group_depth > 0)
        return refuse(ncclInvalidUsage, "collectives in a group: dtbench has none");
    if (o.kind == kind::transfer && o.root == comm->state->rank)
        return refuse(ncclInvalidUsage, "a transfer with oneself");
    if (group_depth > 0) {
        group.push_back({comm, stream, o});
        return ncclSuccess;
    }
    return submit(comm, stream, name_of(o.kind), {o});
}

/* Two ranks of one host have two GPUs; what a host is called, NCCL_HOSTID can say. */
ncclResult_t connect_first(state &s)
{
    char host[256] = "", gpu[64] = "";
    const char *named = getenv("NCCL_HOSTID");
    std::vector<word> places;
    gethostname(host, sizeof host - 1);
    if (!connect(s) || cudaDeviceGetPCIBusId(gpu, sizeof gpu, s.device) != cudaSuccess)
        return ncclSystemError;
    std::hash<std::string> hash;
    ncclResult_t result = tell_all(s, {topic::place, 0, (int32_t)hash(named ? named : host), (int32_t)hash(gpu)}, &places);
    for (int i = 0; i < s.size && result == ncclSuccess; i++) {
        const word &other = places[(size_t)i], &own = places[(size_t)s.rank];
        if (i != s.rank && other.color == own.color && other.key == own.key)
            return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(s.rank) + " and rank " + std::to_string(i) +
                                                " both on CUDA device");
    }
    return result;
}

/* Everybody's color and key; then the new one's own connections. */
ncclResult_t split(const std::shared_ptr<state> &parent, int number, int color, int key, ncclComm_t *out)
{
    std::vector<word> votes;
    ncclResult_t result = tell_all(*parent, {topic::split, number, color, key}, &votes);
    if (result != ncclSuccess)
        return result;
    int size = 0, rank = 0;
    for (int i = 0; i < parent->size && color != NCCL_SPLIT_NOCOLOR; i++) {
        const word &v = votes[(size_t)i];
        if (v.number != number)
            return refuse(ncclInvalidUsage, "split " + std::to_string(v.number) + " on rank " + std::to_string(i) + ", split " +
                                                std::to_string(number) + " on rank " + std::to_string(parent->rank));
        size += v.color == color;
        rank += v.color == color && (v.key < key || (v.key == key && i < parent->rank));
    }
    if (color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    ncclComm *comm = make(size, rank, parent->id + "." + std::to_string(number) + "." + std::to_string(color));
    *out = comm;
    log_line("ncclCommSplit comm rank " + std::to_string(rank) + " nranks " + std::to_string(size) + " - Init COMPLETE");
    work_on(comm, [s = comm->state] { return connect(*s) ? ncclSuccess : ncclSystemError; });
    return ncclSuccess;
}

} // namespace

std::shared_ptr<state> state_of(ncclComm_t comm)
{
    return comm->state;
}

std::vector<std::shared_ptr<state>> all_states()
{
    std::vector<std::shared_ptr<state>> live;
    std::lock_guard<std::mutex> hold(text_lock());
    for (const std::weak_ptr<state> &s : states())
        if (auto one = s.lock())
            live.push_back(one);
    return live;
}

void note_error(const std::string &what)
{
    std::lock_guard<std::mutex> hold(text_lock());
    text() = what;
}

} // namespace emulated_nccl

using namespace emulated_nccl;

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    unsigned long long random[2];
    log_start();
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return ncclSystemError;
    *id = {};
    snprintf(id->internal, sizeof id->internal, "%016llx%016llx", random[0], random[1]);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "in progress"};
    return texts[result];
}

/* Lives until the next call of the same thread. */
const char *ncclGetLastError(ncclComm_t comm)
{
    static thread_local std::string copy;
    std::lock_guard<std::mutex> hold(text_lock());
    copy = text();
    return copy.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    if (!wanted(config) || size < 1 || rank < 0 || rank >= size)
        return refuse(ncclInvalidArgument, "a wrong argument of creation; only blocking = 0 is taken");
    ncclComm *comm = make(size, rank, id.internal);
    *out = comm;
    log_start();
    work_on(comm, [s = comm->state] { return connect_first(*s); });
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    if (!parent || !wanted(config) || parent->state->result != ncclSuccess)
        return refuse(ncclInvalidArgument, "a split that cannot be");
    *out = nullptr;
    int number = ++parent->state->splits;
    work_on(parent, [=, s = parent->state] { return split(s, number, color, key, out); });
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = (ncclResult_t)comm->state->result.load();
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (comm->state->result != ncclSuccess)
        return refuse(ncclInvalidUsage, "the end of a communicator that has failed, or is in progress");
    if (!comm->state->registered.empty())
        return refuse(ncclInvalidUsage, "the end of a communicator that has registered buffers");
    work_on(comm, [s = comm->state] {
        while ((s->running > 0 || s->in_graphs > 0) && !s->aborted)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return ncclSuccess;
    });
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->state->result != ncclSuccess)
        return refuse(ncclInvalidUsage, "a communicator is destroyed before its end");
    release(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    std::shared_ptr<state> s = comm->state;
    s->aborted = true;
    comm->captured = nullptr;
    while (s->in_graphs > 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    emulator_drain(s->device); /* it frees memory */
    release(comm);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    return call({kind::all_reduce, send, receive, count, type, op, 0}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return call({kind::reduce_scatter, send, receive, count, type, op, 0}, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    return call({kind::all_gather, send, receive, count, type, ncclSum, 0}, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return call({kind::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                        cudaStream_t stream)
{
    return call({kind::reduce, send, receive, count, type, op, root}, comm, stream);
}

ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return call({kind::transfer, buffer, nullptr, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return call({kind::transfer, nullptr, buffer, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0)
        return refuse(ncclInvalidUsage, "a group ends that never began");
    if (--group_depth > 0 || group.empty())
        return ncclSuccess;
    std::vector<grouped> all;
    std::vector<operation> operations;
    all.swap(group);
    for (const grouped &g : all) {
        if (g.comm != all[0].comm || g.stream != all[0].stream)
            return refuse(ncclInvalidUsage, "a group on several streams or communicators: dtbench has none");
        operations.push_back(g.o);
    }
    return submit(all[0].comm, all[0].stream, "group", operations);
}

} // extern "C"
