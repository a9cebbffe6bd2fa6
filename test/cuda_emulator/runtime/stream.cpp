/* Streams: handles, work, copies and fills. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <cstring>
#include <map>

namespace emulator {

namespace {

cudaStream_t handle_of(stream *s)
{
    return reinterpret_cast<cudaStream_t>(s);
}

stream *make_stream(int device, unsigned int flags, int priority, bool legacy)
{
    stream *s = new stream{device, flags, priority, legacy, lane::start(), {}, {}, 0};
    the().streams.insert(s);
    return s;
}

stream *legacy_stream(int device)
{
    for (stream *s : the().streams)
        if (s->legacy && s->device == device)
            return s;
    return make_stream(device, cudaStreamDefault, 0, true);
}

/* The default stream and streams without cudaStreamNonBlocking wait for each other's earlier
 * work. */
void order_with_default(stream *s)
{
    if (s->flags & cudaStreamNonBlocking)
        return;
    for (stream *other : the().streams) {
        if (other == s || other->device != s->device || (other->flags & cudaStreamNonBlocking) || s->legacy == other->legacy)
            continue;
        uint64_t number = other->queue->last();
        if (!other->queue->passed(number, std::chrono::microseconds(0)))
            s->queue->push({"wait", [queue = other->queue, number] { queue->wait(number); }, true});
    }
}

/* Device memory, pinned memory or the host's own, as `kind` says of this end of a copy; whether it
 * is there in full. */
bool end_fits(const void *memory, size_t bytes, bool on_device, bool any)
{
    enum emulator_memory found = emulator_memory_at(memory, bytes);
    if (any || found == EMULATOR_DEAD)
        return found != EMULATOR_DEAD;
    return on_device ? found == EMULATOR_DEVICE : found != EMULATOR_DEVICE;
}

cudaError_t check_copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    bool any = kind == cudaMemcpyDefault;
    bool fits = end_fits(to, bytes, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, any) &&
                end_fits(from, bytes, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, any);
    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

void run_copy(void *to, const void *from, size_t bytes)
{
    if (emulator_memory_at(to, bytes) == EMULATOR_DEAD || emulator_memory_at(from, bytes) == EMULATOR_DEAD)
        return emulator_fault(cudaErrorIllegalAddress, "%zu bytes from %p to %p: freed since it was queued", bytes, from, to);
    memmove(to, from, bytes);
}

void run_fill(void *to, int value, size_t bytes)
{
    if (!emulator_touchable(to, bytes))
        return emulator_fault(cudaErrorIllegalAddress, "%zu bytes at %p: freed since it was queued", bytes, to);
    fill(to, value, bytes);
}

cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle)
{
    cudaError_t error = enter();
    if (error == cudaSuccess)
        error = check_copy(to, from, bytes, kind);
    if (error != cudaSuccess || bytes == 0)
        return error;
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    /* the driver would have to wait for the bytes to be staged */
    bool pageable = emulator_memory_at(to, bytes) == EMULATOR_HOST || emulator_memory_at(from, bytes) == EMULATOR_HOST;
    if (s->capturing && pageable) {
        s->capturing->broken = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    return submit(s, {"copy", [=] { run_copy(to, from, bytes); }, false});
}

cudaError_t queue_fill(void *to, int value, size_t bytes, cudaStream_t handle)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && !emulator_touchable(to, bytes) && bytes > 0)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess || bytes == 0)
        return error;
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    return s ? submit(s, {"memset", [=] { run_fill(to, value, bytes); }, false}) : cudaErrorInvalidResourceHandle;
}

/* Wait for (or, `ask`, look at) one stream. */
cudaError_t finish(cudaStream_t handle, bool ask)
{
    cudaError_t error = enter_context();
    if (error != cudaSuccess)
        return error;
    std::shared_ptr<lane> queue;
    {
        std::lock_guard<std::mutex> hold(the().lock);
        stream *s = stream_of(handle);
        if (!s)
            return cudaErrorInvalidResourceHandle;
        if (s->capturing) {
            s->capturing->broken = true;
            return cudaErrorStreamCaptureUnsupported;
        }
        queue = s->queue;
    }
    if ((error = unsafe_call()) != cudaSuccess)
        return error;
    if (ask && !queue->passed(queue->last(), std::chrono::milliseconds(1)))
        return cudaErrorNotReady;
    queue->wait(queue->last());
    return enter();
}

} // namespace

stream *stream_of(cudaStream_t handle)
{
    if (!handle)
        return legacy_stream(current_device());
    stream *s = reinterpret_cast<stream *>(handle);
    return the().streams.count(s) ? s : nullptr;
}

cudaError_t push(stream *s, task t)
{
    if (s->legacy)
        for (const auto &c : the().captures)
            if (!(c->origin->flags & cudaStreamNonBlocking) && c->origin->device == s->device) {
                c->broken = true;
                return cudaErrorStreamCaptureImplicit;
            }
    order_with_default(s);
    s->queue->push(std::move(t));
    return cudaSuccess;
}

cudaError_t submit(stream *s, task t)
{
    return s->capturing ? capture_task(s, std::move(t), nullptr) : push(s, std::move(t));
}

void drain(int device)
{
    std::vector<std::shared_ptr<lane>> queues;
    {
        std::lock_guard<std::mutex> hold(the().lock);
        for (stream *s : the().streams)
            if (s->device == device)
                queues.push_back(s->queue);
    }
    for (auto &queue : queues)
        queue->wait(queue->last());
}

} // namespace emulator

using namespace emulator;

cudaError_t emulator_enqueue(cudaStream_t handle, const char *name, std::function<void()> work)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s || s->device != current_device())
        return leave(cudaErrorInvalidResourceHandle);
    return leave(submit(s, {name, std::move(work), false}));
}

void emulator_drain(int device)
{
    drain(device);
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && flags > cudaStreamNonBlocking)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return leave(error);
    /* the machine schedules the threads; priorities only count in graphs */
    std::lock_guard<std::mutex> hold(the().lock);
    *out = handle_of(make_stream(current_device(), flags, priority, false));
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

/* As the real one: does not wait; what is queued still runs. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    cudaError_t error = enter();
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = handle ? stream_of(handle) : nullptr;
    if (!s)
        return leave(cudaErrorInvalidResourceHandle);
    if (s->capturing) {
        s->capturing->broken = true;
        return leave(cudaErrorStreamCaptureUnsupported);
    }
    s->queue->close();
    the().streams.erase(s);
    delete s;
    return leave(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    return leave(finish(handle, false));
}
cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    return leave(finish(handle, true));
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = enter();
    {
        std::lock_guard<std::mutex> hold(the().lock);
        for (stream *s : the().streams)
            if (error == cudaSuccess && s->capturing && s->device == current_device()) {
                s->capturing->broken = true;
                error = cudaErrorStreamCaptureUnsupported;
            }
    }
    if (error == cudaSuccess)
        error = unsafe_call();
    if (error != cudaSuccess)
        return leave(error);
    drain(current_device());
    return leave(enter());
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return leave(copy(to, from, bytes, kind, stream));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return leave(queue_fill(to, value, bytes, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t error = unsafe_call();
    if (error == cudaSuccess)
        error = copy(to, from, bytes, kind, nullptr);
    return leave(error == cudaSuccess ? finish(nullptr, false) : error);
}

/* Device memory needs no wait. */
cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    cudaError_t error = unsafe_call();
    return leave(error == cudaSuccess ? queue_fill(to, value, bytes, nullptr) : error);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    std::lock_guard<std::mutex> hold(the().lock);
    stream *s = stream_of(handle);
    if (!s)
        return leave(cudaErrorInvalidResourceHandle);
    auto work = [function, data] {
        forbid_calls(true);
        function(data);
        forbid_calls(false);
    };
    return leave(submit(s, {"host function", work, false}));
}

} // extern "C"

namespace {

struct kernel_limits {
    std::mutex lock;
    std::map<const void *, size_t> dynamic_shared_bytes;
};
kernel_limits &limits()
{
    static kernel_limits *all = new kernel_limits;
    return *all;
}

} // namespace

extern "C" cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    int device = 0, most = 0;
    cudaError_t error = enter();
    if (error == cudaSuccess)
        error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess)
        return leave(error);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return leave(value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > most)
        return leave(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> hold(limits().lock);
    limits().dynamic_shared_bytes[function] = (size_t)value;
    return cudaSuccess;
}

size_t emulator_dynamic_shared_limit(const void *function)
{
    std::lock_guard<std::mutex> hold(limits().lock);
    auto found = limits().dynamic_shared_bytes.find(function);
    return found == limits().dynamic_shared_bytes.end() ? 48 << 10 : found->second;
}
