/* The emulated GPU itself (test/cuda_emulator): streams run concurrently, events order them,
 * captures forbid calls, and errors of memory are found. */
extern "C" {
#include "test/check.h"
}
#include "test/cuda_emulator/runtime/stream.h"

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#define CHECK_CUDA(call)                                                                                                                   \
    do {                                                                                                                                   \
        cudaError_t check_error_ = (call);                                                                                                 \
        CHECK(check_error_ == cudaSuccess, "%s", cudaGetErrorName(check_error_));                                                          \
    } while (0)
#define CHECK_ERROR(call, expected)                                                                                                        \
    do {                                                                                                                                   \
        cudaError_t check_error_ = (call);                                                                                                 \
        CHECK(check_error_ == expected, "%s", cudaGetErrorName(check_error_));                                                             \
        cudaGetLastError();                                                                                                                \
    } while (0)

static cudaStream_t make_stream()
{
    cudaStream_t s = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t make_event()
{
    cudaEvent_t e = nullptr;
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDefault));
    return e;
}

/* Work that waits until the gate opens. */
struct gate {
    std::atomic<bool> open{false};
    void hold(cudaStream_t s)
    {
        CHECK_CUDA(emulator_enqueue(s, "gate", [this] {
            while (!open)
                std::this_thread::yield();
        }));
    }
};

static void devices_are_described()
{
    int count = 0, value = 0;
    struct cudaDeviceProp p;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    CHECK_CUDA(cudaGetDeviceProperties(&p, 1));
    CHECK(strcmp(p.name, "emulated GPU") == 0 && p.major == 9 && p.multiProcessorCount == 4);
    CHECK_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(value == 163 * 1024);
    CHECK_ERROR(cudaSetDevice(2), cudaErrorInvalidDevice);
    CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
}

static void streams_run_beside_each_other_and_events_order_them()
{
    cudaStream_t a = make_stream(), b = make_stream();
    cudaEvent_t e = make_event();
    gate first, second;
    std::atomic<int> steps{0};
    first.hold(a);
    second.hold(b); /* would never end if b waited for a */
    CHECK_ERROR(cudaStreamQuery(a), cudaErrorNotReady);
    second.open = true;
    CHECK_CUDA(cudaStreamSynchronize(b));
    CHECK_CUDA(emulator_enqueue(a, "one", [&] { steps = 1; }));
    CHECK_CUDA(cudaEventRecord(e, a));
    CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
    int seen = -1;
    CHECK_CUDA(emulator_enqueue(b, "two", [&] { seen = steps; }));
    CHECK_ERROR(cudaEventQuery(e), cudaErrorNotReady);
    usleep(2000);
    CHECK(seen == -1);
    first.open = true;
    CHECK_CUDA(cudaStreamSynchronize(b));
    CHECK(seen == 1);
    CHECK_CUDA(cudaEventQuery(e));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_ERROR(cudaEventRecord(e, a), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    CHECK_ERROR(cudaStreamSynchronize(a), cudaErrorInvalidResourceHandle);
}

static void the_default_stream_waits_for_blocking_ones()
{
    cudaStream_t s = nullptr;
    CHECK_CUDA(cudaStreamCreate(&s));
    gate held;
    held.hold(s);
    bool late = false;
    CHECK_CUDA(emulator_enqueue(nullptr, "after", [&] { late = held.open; }));
    usleep(1000);
    held.open = true;
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    CHECK(late);
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void events_measure()
{
    cudaStream_t s = make_stream();
    cudaEvent_t start = make_event(), end = make_event(), untimed = nullptr;
    CHECK_CUDA(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    float ms = 0;
    CHECK_ERROR(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaEventRecord(start, s));
    CHECK_CUDA(emulator_enqueue(s, "sleep", [] { usleep(3000); }));
    CHECK_CUDA(cudaEventRecord(end, s));
    CHECK_CUDA(cudaEventRecord(untimed, s));
    CHECK_ERROR(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    CHECK_CUDA(cudaEventSynchronize(untimed));
    CHECK_CUDA(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 3 && ms < 3000, "%g ms", ms);
    CHECK_ERROR(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaEventRecordWithFlags(end, s, cudaEventRecordExternal), cudaErrorInvalidValue);
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void memory_is_counted_and_copies_are_checked()
{
    size_t free_bytes = 0, total = 0, before = 0;
    CHECK_CUDA(cudaMemGetInfo(&before, &total));
    char *a = nullptr, *pinned = nullptr, host[100] = {0};
    void *much = nullptr;
    CHECK_CUDA(cudaMalloc((void **)&a, 1000));
    CHECK((uintptr_t)a % 256 == 0);
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(before - free_bytes == 1024);
    CHECK_ERROR(cudaMalloc(&much, total - 1000), cudaErrorMemoryAllocation);
    CHECK(!much);
    CHECK_CUDA(cudaHostAlloc((void **)&pinned, 100, cudaHostAllocDefault));
    cudaStream_t s = make_stream();
    CHECK_CUDA(cudaMemcpyAsync(pinned, a + 900, 100, cudaMemcpyDeviceToHost, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(pinned[0] == (char)0xff && pinned[99] == (char)0xff, "fresh memory is NaN");
    CHECK_CUDA(cudaMemsetAsync(a, 7, 1000, s));
    CHECK_CUDA(cudaMemcpyAsync(host, a, 100, cudaMemcpyDefault, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(host[0] == 7 && host[99] == 7);
    CHECK_ERROR(cudaMemsetAsync(a + 1, 0, 1000, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(a, host, 100, cudaMemcpyDeviceToDevice, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpyAsync(host, a + 950, 51, cudaMemcpyDeviceToHost, s), cudaErrorInvalidValue);
    CHECK_ERROR(cudaFreeHost(a), cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(a));
    CHECK_ERROR(cudaFree(a), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemsetAsync(a, 0, 1, s), cudaErrorInvalidValue);
    CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == before);
    CHECK_CUDA(cudaFreeHost(pinned));
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void errors_stay_until_they_are_asked_for()
{
    cudaGetLastError();
    CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
    CHECK_CUDA(cudaSetDevice(0)); /* a call that succeeds leaves it */
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaSuccess);
    cudaStream_t s = make_stream();
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_ERROR(emulator_enqueue(s, "elsewhere", [] {}), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaSetDevice(0));
    static cudaError_t inside;
    CHECK_CUDA(cudaLaunchHostFunc(s, [](void *) { inside = cudaSetDevice(0); }, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(inside == cudaErrorNotPermitted);
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void a_graph_is_captured_from_forked_streams_and_replayed()
{
    cudaStream_t a = make_stream(), b = make_stream();
    cudaEvent_t fork = make_event(), join = make_event(), outside = make_event();
    std::atomic<int> sum{0}, order{0};
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    CHECK_CUDA(emulator_enqueue(a, "first", [&] { sum += 1; }));
    CHECK_CUDA(cudaEventRecord(fork, a));
    CHECK_CUDA(cudaStreamWaitEvent(b, fork, 0));
    enum cudaStreamCaptureStatus status;
    CHECK_CUDA(cudaStreamIsCapturing(b, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    /* two lanes that wait for each other: only a replay that runs them together ends */
    CHECK_CUDA(emulator_enqueue(b, "b", [&] {
        order = 1;
        while (order != 2)
            std::this_thread::yield();
    }));
    CHECK_CUDA(emulator_enqueue(a, "a", [&] {
        while (order != 1)
            std::this_thread::yield();
        order = 2;
    }));
    CHECK_CUDA(cudaEventRecord(join, b));
    CHECK_CUDA(cudaStreamWaitEvent(a, join, 0));
    CHECK_CUDA(emulator_enqueue(a, "last", [&] { sum += 10; }));
    CHECK_CUDA(cudaEventRecordWithFlags(outside, a, cudaEventRecordExternal));
    CHECK(sum == 0);
    CHECK_CUDA(cudaStreamEndCapture(a, &graph));
    size_t nodes = 0;
    CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 5);
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        CHECK_CUDA(cudaGraphLaunch(exec, a));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaEventSynchronize(outside));
    CHECK(sum == 33, "%d", sum.load());
    CHECK_ERROR(cudaEventQuery(join), cudaErrorCapturedEvent);
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
}

/* The error of `call` during a capture of mode `mode` on `s`, and of the end of that capture. */
static void captured(cudaStream_t s, enum cudaStreamCaptureMode mode, cudaError_t error, cudaError_t end, std::function<cudaError_t()> call)
{
    cudaGraph_t graph = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(s, mode));
    CHECK_ERROR(call(), error);
    CHECK_ERROR(cudaStreamEndCapture(s, &graph), end);
    CHECK((graph != nullptr) == (end == cudaSuccess));
    if (graph)
        CHECK_CUDA(cudaGraphDestroy(graph));
}

static void captures_refuse_what_they_cannot_hold()
{
    cudaStream_t a = make_stream(), b = make_stream();
    cudaEvent_t e = make_event(), before = make_event();
    CHECK_CUDA(cudaEventRecord(before, b));
    CHECK_CUDA(cudaStreamSynchronize(b));
    char *memory = nullptr, host[16];
    CHECK_CUDA(cudaMalloc((void **)&memory, 16));
    const cudaStreamCaptureMode global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal;
    const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported, broken = cudaErrorStreamCaptureInvalidated;
    void *more = nullptr;
    captured(a, global, unsupported, broken, [&] { return cudaMalloc(&more, 16); });
    captured(a, local, unsupported, broken, [&] { return cudaFree(memory); });
    captured(a, cudaStreamCaptureModeRelaxed, cudaSuccess, cudaSuccess, [&] { return cudaMalloc(&more, 16); });
    captured(a, cudaStreamCaptureModeRelaxed, unsupported, broken, [&] { return cudaStreamQuery(a); });
    captured(a, local, unsupported, broken, [&] { return cudaStreamSynchronize(a); });
    captured(a, local, unsupported, broken, [&] { return cudaDeviceSynchronize(); });
    captured(a, local, unsupported, broken, [&] { return cudaMemcpyAsync(memory, host, 16, cudaMemcpyHostToDevice, a); });
    captured(a, local, cudaErrorStreamCaptureIsolation, broken, [&] { return cudaStreamWaitEvent(a, before, 0); });
    captured(a, local, cudaErrorIllegalState, cudaSuccess, [&] { return cudaStreamBeginCapture(a, local); });
    captured(a, local, cudaErrorStreamCaptureUnjoined, cudaErrorStreamCaptureUnjoined, [&] {
        cudaEventRecord(e, a);
        cudaStreamWaitEvent(b, e, 0);
        emulator_enqueue(b, "loose", [] {});
        return cudaErrorStreamCaptureUnjoined;
    });
    captured(a, local, cudaErrorStreamCaptureUnmatched, broken, [&] {
        cudaGraph_t graph;
        cudaEventRecord(e, a);
        cudaStreamWaitEvent(b, e, 0);
        return cudaStreamEndCapture(b, &graph);
    });
    /* another thread's calls break a global capture alone */
    auto elsewhere = [&] {
        cudaError_t error = cudaSuccess;
        std::thread([&] { error = cudaEventQuery(before); }).join();
        return error;
    };
    captured(a, local, cudaSuccess, cudaSuccess, elsewhere);
    captured(a, global, unsupported, broken, elsewhere);
    CHECK_CUDA(cudaFree(more));
    CHECK_CUDA(cudaFree(memory));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
}

/* The errors of the next calls after a fault, in a child process, because the fault is
 * permanent. */
static void fault_of(std::function<void(cudaStream_t, char *)> mistake)
{
    int to_parent[2];
    CHECK(pipe(to_parent) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), 2);
        cudaError_t errors[3];
        cudaStream_t s = nullptr;
        char *memory = nullptr;
        errors[0] = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaMalloc((void **)&memory, 4096);
        mistake(s, memory);
        errors[1] = cudaStreamSynchronize(s);
        errors[2] = cudaSetDevice(0);
        _exit(write(to_parent[1], errors, sizeof errors) != (ssize_t)sizeof errors);
    }
    cudaError_t errors[3] = {};
    CHECK(read(to_parent[0], errors, sizeof errors) == (ssize_t)sizeof errors);
    CHECK(errors[0] == cudaSuccess && errors[1] == cudaErrorIllegalAddress && errors[2] == cudaErrorIllegalAddress, "%d %d %d", errors[0],
          errors[1], errors[2]);
    waitpid(child, nullptr, 0);
    close(to_parent[0]);
    close(to_parent[1]);
}

static void work_on_dead_memory_fails_the_device()
{
    fault_of([](cudaStream_t s, char *memory) { /* past the end */
                                                emulator_enqueue(s, "kernel", [memory] { ((volatile char *)memory)[4096] = 1; });
    });
    fault_of([](cudaStream_t s, char *memory) { /* after the free */
                                                cudaFree(memory);
                                                emulator_enqueue(s, "kernel", [memory] { ((volatile char *)memory)[0] = 1; });
    });
    fault_of([](cudaStream_t s, char *memory) { /* a graph outlives its memory */
                                                cudaGraph_t graph;
                                                cudaGraphExec_t exec;
                                                cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
                                                cudaMemsetAsync(memory, 0, 4096, s);
                                                cudaStreamEndCapture(s, &graph);
                                                cudaGraphInstantiate(&exec, graph, 0);
                                                cudaFree(memory);
                                                cudaGraphLaunch(exec, s);
    });
    cudaStream_t s = make_stream(); /* and the parent's device works */
    CHECK_CUDA(cudaStreamSynchronize(s));
    pid_t child = fork();
    if (child == 0)
        _exit(cudaSetDevice(0) != cudaErrorInitializationError);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "a child of fork may not use its parent's device");
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* The result of another thread's query of an event, in a child process that uses GPU 1; the thread
 * `chooses` that GPU first or not. On a GPU the thread that does not would open a context on GPU
 * 0. */
static int error_after_question(bool chooses)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), 2);
        cudaEvent_t event = nullptr;
        cudaSetDevice(1);
        cudaStream_t s = make_stream();
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        cudaEventRecord(event, s);
        cudaStreamSynchronize(s);
        cudaError_t asked = cudaSuccess;
        std::thread([&] {
            if (chooses)
                cudaSetDevice(1);
            asked = cudaEventQuery(event);
        }).join();
        cudaError_t later = cudaStreamSynchronize(s);
        _exit(asked == later ? (int)asked : 255);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_thread_that_has_chosen_no_gpu_opens_none()
{
    CHECK(error_after_question(true) == cudaSuccess);
    CHECK(error_after_question(false) == cudaErrorInvalidDevice);
}

/* The first two cases fork, so they come before this process has used the device. */
static const struct test_case cases[] = {
    {"a thread that has chosen no GPU opens none", a_thread_that_has_chosen_no_gpu_opens_none},
    {"work on dead memory fails the device", work_on_dead_memory_fails_the_device},
    {"devices are described", devices_are_described},
    {"streams run beside each other and events order them", streams_run_beside_each_other_and_events_order_them},
    {"the default stream waits for blocking ones", the_default_stream_waits_for_blocking_ones},
    {"events measure", events_measure},
    {"memory is counted and copies are checked", memory_is_counted_and_copies_are_checked},
    {"errors stay until they are asked for", errors_stay_until_they_are_asked_for},
    {"a graph is captured from forked streams and replayed", a_graph_is_captured_from_forked_streams_and_replayed},
    {"captures refuse what they cannot hold", captures_refuse_what_they_cannot_hold},
};

TEST_MAIN(cases)
