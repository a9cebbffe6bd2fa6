/* Capture of streams' work as a graph, and its replay. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <cstdio>

namespace emulator {

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

struct executable {
    std::shared_ptr<const emulator::graph> graph;
    std::vector<std::shared_ptr<lane>> lanes; /* of the replay; the first lane is the launching stream's own thread */
    ~executable()
    {
        for (auto &l : lanes)
            l->close();
    }
};

/* Graphs and their executables by handle; queued launches share the executable. The lock guards
 * both. */
std::set<std::shared_ptr<const graph>> &graphs()
{
    static auto *all = new std::set<std::shared_ptr<const graph>>;
    return *all;
}
std::set<std::shared_ptr<executable>> &executables()
{
    static auto *all = new std::set<std::shared_ptr<executable>>;
    return *all;
}

template <typename Set, typename Handle> typename Set::value_type shared_of(const Set &all, Handle handle)
{
    for (const auto &one : all)
        if ((const void *)one.get() == (const void *)handle)
            return one;
    return nullptr;
}

/* Every operation is joined when each one that nothing follows is what the origin's next one would
 * depend on. */
bool joined(const capture &c)
{
    std::set<size_t> loose;
    for (size_t i = 0; i < c.graph.nodes.size(); i++)
        loose.insert(i);
    for (const node &n : c.graph.nodes)
        for (size_t before : n.after)
            loose.erase(before);
    for (size_t before : c.origin->after)
        loose.erase(before);
    return loose.empty();
}

/* Whether a replay on one stream would lose what the streams' priorities said; marks have none. */
bool has_priorities(const graph &g)
{
    const node *first = nullptr;
    for (const node &n : g.nodes) {
        if (n.record)
            continue;
        if (first && n.priority != first->priority)
            return true;
        first = &n;
    }
    return false;
}

cudaError_t end(cudaStream_t handle, cudaGraph_t *out)
{
    *out = nullptr;
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return error;
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (!s->capturing)
        return cudaErrorIllegalState;
    std::shared_ptr<capture> c = s->capturing;
    if (c->origin != s) {
        c->broken = true;
        return cudaErrorStreamCaptureUnmatched;
    }
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return cudaErrorStreamCaptureWrongThread;
    bool complete = joined(*c);
    for (stream *other : the().streams)
        if (other->capturing == c)
            other->capturing = nullptr;
    c->ended = true;
    the().captures.erase(c);
    if (c->broken || !complete)
        c->graph = {}; /* events may keep the capture, but nothing its operations */
    if (c->broken || !complete)
        return c->broken ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
    auto made = std::make_shared<const graph>(std::move(c->graph));
    graphs().insert(made);
    *out = reinterpret_cast<cudaGraph_t>(const_cast<graph *>(made.get()));
    return cudaSuccess;
}

} // namespace

cudaError_t unsafe_call()
{
    std::lock_guard<std::mutex> hold(the().lock);
    cudaError_t error = cudaSuccess;
    for (const auto &c : the().captures) {
        bool own = c->thread == std::this_thread::get_id() && c->mode != cudaStreamCaptureModeRelaxed;
        bool conflict = thread_mode == cudaStreamCaptureModeGlobal ? own || c->mode == cudaStreamCaptureModeGlobal
                                                                   : own && thread_mode == cudaStreamCaptureModeThreadLocal;
        if (conflict) {
            c->broken = true;
            error = cudaErrorStreamCaptureUnsupported;
        }
    }
    return error;
}

cudaError_t capture_task(stream *s, task t, std::shared_ptr<event> record)
{
    capture &c = *s->capturing;
    if (c.broken)
        return cudaErrorStreamCaptureInvalidated;
    c.graph.nodes.push_back({std::move(t), std::move(record), s->after, s->lane, s->priority});
    s->after = {c.graph.nodes.size() - 1};
    return cudaSuccess;
}

/* Nodes of a lane run in order on its thread, each once those it depends on are done: lanes run
 * beside each other as far as the graph allows it, which is how a missing dependency shows. Runs in
 * the launching stream's order and ends with the last node. */
void replay(const std::shared_ptr<const graph> &g, const std::vector<std::shared_ptr<lane>> &lanes,
            const std::vector<std::shared_ptr<mark>> &records)
{
    struct progress {
        std::vector<mark> done;
        explicit progress(size_t count) : done(count)
        {
        }
    };
    auto p = std::make_shared<progress>(g->nodes.size());
    auto run_lane = [g, p, records](int number) {
        for (size_t i = 0; i < g->nodes.size(); i++) {
            const node &n = g->nodes[i];
            if (n.lane != number)
                continue;
            for (size_t before : n.after)
                p->done[before].wait();
            if (n.record)
                records[i]->pass();
            else
                run_task(n.work);
            p->done[i].pass();
        }
    };
    for (size_t i = 0; i < lanes.size(); i++)
        lanes[i]->push({"graph", [run_lane, i] { run_lane((int)i + 1); }, true});
    run_lane(0);
    for (mark &m : p->done)
        m.wait();
}

} // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    if (!handle)
        return leave(cudaErrorStreamCaptureUnsupported);
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s || s->capturing)
        return leave(s ? cudaErrorIllegalState : cudaErrorInvalidResourceHandle);
    auto made = std::make_shared<capture>();
    made->origin = s;
    made->mode = mode;
    made->thread = std::this_thread::get_id();
    made->graph.lanes = 1;
    s->capturing = made;
    s->after.clear();
    s->lane = 0;
    the().captures.insert(made);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
    return leave(end(handle, out));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s)
        return leave(cudaErrorInvalidResourceHandle);
    *status = !s->capturing          ? cudaStreamCaptureStatusNone
              : s->capturing->broken ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    std::swap(*mode, thread_mode);
    return leave(enter());
}

/* Only counts: what the nodes are is not told. */
cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
    std::lock_guard<std::mutex> hold(the().lock);
    auto g = shared_of(graphs(), handle);
    if (!g || nodes)
        return leave(cudaErrorInvalidValue);
    *count = g->nodes.size();
    return leave(enter());
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t handle, unsigned long long flags)
{
    cudaError_t error = enter();
    if (error == cudaSuccess)
        error = unsafe_call();
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    auto g = shared_of(graphs(), handle);
    if (!g || (flags & ~(unsigned long long)cudaGraphInstantiateFlagUseNodePriority))
        return leave(cudaErrorInvalidValue);
    if (!flags && has_priorities(*g)) { /* CUDA would take the launching stream's for all */
        fprintf(stderr, "emulated GPU: a graph of streams with several priorities is instantiated without them\n");
        return leave(cudaErrorInvalidValue);
    }
    auto made = std::make_shared<executable>();
    made->graph = g;
    for (int i = 1; i < g->lanes; i++)
        made->lanes.push_back(lane::start());
    executables().insert(made);
    *out = reinterpret_cast<cudaGraphExec_t>(made.get());
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream_handle)
{
    std::lock_guard<std::mutex> hold(the().lock);
    bool fits = shared_of(executables(), handle) && stream_of(stream_handle);
    return leave(fits ? enter() : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    auto e = shared_of(executables(), handle);
    stream *s = stream_of(stream_handle);
    if (!e || !s)
        return leave(e ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    if (s->capturing) { /* a graph within a graph: the product has none */
        s->capturing->broken = true;
        return leave(cudaErrorStreamCaptureUnsupported);
    }
    std::vector<std::shared_ptr<mark>> records(e->graph->nodes.size());
    for (size_t i = 0; i < records.size(); i++)
        if (e->graph->nodes[i].record)
            records[i] = std::make_shared<mark>();
    error = push(s, {"graph", [e, records] { replay(e->graph, e->lanes, records); }, true});
    for (size_t i = 0; error == cudaSuccess && i < records.size(); i++)
        if (records[i]) {
            e->graph->nodes[i].record->last = records[i];
            e->graph->nodes[i].record->captured = nullptr;
        }
    return leave(error);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle)
{
    std::lock_guard<std::mutex> hold(the().lock);
    auto e = shared_of(executables(), handle);
    if (!e)
        return leave(cudaErrorInvalidValue);
    executables().erase(e);
    return leave(enter());
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle)
{
    std::lock_guard<std::mutex> hold(the().lock);
    auto g = shared_of(graphs(), handle);
    if (!g)
        return leave(cudaErrorInvalidValue);
    graphs().erase(g);
    return leave(enter());
}

} // extern "C"
