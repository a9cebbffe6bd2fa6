/* Events: marks in streams, and what waits for them. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <map>

namespace emulator {

namespace {

/* Handles are kept apart from the events, which queues and captures share. */
std::map<cudaEvent_t, std::shared_ptr<event>> &handles()
{
    static auto *all = new std::map<cudaEvent_t, std::shared_ptr<event>>;
    return *all;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle, unsigned int flags)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return error;
    std::lock_guard<std::mutex> hold(the().lock);
    std::shared_ptr<event> e = event_of(handle);
    stream *s = stream_of(stream_handle);
    if (!e || !s || e->device != s->device)
        return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventRecordExternal || (flags == cudaEventRecordExternal && !s->capturing))
        return cudaErrorInvalidValue;
    if (flags == cudaEventRecordExternal)
        return capture_task(s, {"event", {}, true}, e);
    if (s->capturing) {
        if (s->capturing->broken)
            return cudaErrorStreamCaptureInvalidated;
        e->captured = s->capturing;
        e->captured_after = s->after;
        return cudaSuccess;
    }
    auto made = std::make_shared<mark>();
    error = push(s, {"event", [made] { made->pass(); }, true});
    if (error == cudaSuccess) {
        e->last = made;
        e->captured = nullptr;
    }
    return error;
}

/* The capture that a stream is in takes in what is waited for; both are of one capture, or `s`
 * joins the event's. */
cudaError_t wait_captured(stream *s, event *e)
{
    if (e->captured->ended || (s->capturing && s->capturing != e->captured)) {
        if (s->capturing)
            s->capturing->broken = true;
        if (e->captured->ended)
            return s->capturing ? cudaErrorStreamCaptureIsolation : cudaErrorCapturedEvent;
        e->captured->broken = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (s->legacy) {
        e->captured->broken = true;
        return cudaErrorStreamCaptureImplicit;
    }
    if (e->captured->broken)
        return cudaErrorStreamCaptureInvalidated;
    if (!s->capturing) {
        s->capturing = e->captured;
        s->after.clear();
        s->lane = s->capturing->graph.lanes++;
    }
    for (size_t node : e->captured_after) {
        bool there = false;
        for (size_t own : s->after)
            there = there || own == node;
        if (!there)
            s->after.push_back(node);
    }
    return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return error;
    std::lock_guard<std::mutex> hold(the().lock);
    std::shared_ptr<event> e = event_of(handle);
    stream *s = stream_of(stream_handle);
    if (!e || !s)
        return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault)
        return flags == cudaEventWaitExternal ? cudaErrorNotSupported : cudaErrorInvalidValue; /* the product uses none */
    if (s->capturing && s->capturing->broken)
        return cudaErrorStreamCaptureInvalidated;
    if (e->captured)
        return wait_captured(s, e.get());
    if (s->capturing) { /* the event's mark is outside */
        s->capturing->broken = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (!e->last)
        return cudaSuccess;
    return push(s, {"wait", [waited = e->last] { waited->wait(); }, true});
}

/* The mark to look at or wait for. NULL with cudaSuccess: never recorded. */
cudaError_t mark_of(cudaEvent_t handle, std::shared_ptr<mark> *out)
{
    cudaError_t error = enter_context();
    if (error != cudaSuccess)
        return error;
    {
        std::lock_guard<std::mutex> hold(the().lock);
        std::shared_ptr<event> e = event_of(handle);
        if (!e)
            return cudaErrorInvalidResourceHandle;
        if (e->captured) {
            e->captured->broken = true;
            return cudaErrorCapturedEvent;
        }
        *out = e->last;
    }
    return unsafe_call();
}

} // namespace

void mark::pass()
{
    std::lock_guard<std::mutex> hold(lock);
    is_passed = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
}

void mark::wait()
{
    std::unique_lock<std::mutex> hold(lock);
    changed.wait(hold, [&] { return is_passed; });
}

bool mark::passed()
{
    std::lock_guard<std::mutex> hold(lock);
    return is_passed;
}

std::shared_ptr<event> event_of(cudaEvent_t handle)
{
    auto found = handles().find(handle);
    return found == handles().end() ? nullptr : found->second;
}

} // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && flags > (cudaEventBlockingSync | cudaEventDisableTiming))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    auto made = std::make_shared<event>(event{current_device(), flags, {}, {}, {}});
    *out = reinterpret_cast<cudaEvent_t>(made.get());
    handles()[*out] = made;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    cudaError_t error = enter();
    std::lock_guard<std::mutex> hold(the().lock);
    return leave(handles().erase(handle) ? error : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return leave(record(event, stream, flags));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return leave(record(event, stream, cudaEventRecordDefault));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return leave(wait(stream, event, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    std::shared_ptr<mark> last;
    cudaError_t error = mark_of(handle, &last);
    if (error == cudaSuccess && last && !last->passed())
        error = cudaErrorNotReady;
    return leave(error == cudaSuccess ? enter() : error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    std::shared_ptr<mark> last;
    cudaError_t error = mark_of(handle, &last);
    if (error == cudaSuccess && last)
        last->wait();
    return leave(error == cudaSuccess ? enter() : error);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    std::shared_ptr<mark> from, to;
    cudaError_t error = mark_of(start, &from);
    if (error == cudaSuccess)
        error = mark_of(end, &to);
    if (error != cudaSuccess)
        return leave(error);
    {
        std::lock_guard<std::mutex> hold(the().lock);
        if (!from || !to || ((event_of(start)->flags | event_of(end)->flags) & cudaEventDisableTiming))
            return leave(cudaErrorInvalidResourceHandle);
    }
    if (!from->passed() || !to->passed())
        return leave(cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return cudaSuccess;
}

} // extern "C"
