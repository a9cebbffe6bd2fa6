/* The emulated runtime's own parts, for its files alone (stream.h is what others see).
 *
 * One lock guards handles, events' marks and captures; it is never held while something waits.
 * Memory has a lock of its own. Nothing here is ever destroyed at exit: streams' threads may still
 * run then, as a GPU does. */
#pragma once

#include "test/cuda_emulator/runtime/stream.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace emulator {

/* A piece of work. Marks and waits also run after the device has failed, so that no thread waits
 * for ever. */
struct task {
    const char *name;
    std::function<void()> work;
    bool always;
};

/* A thread that works off a queue (lane.cpp). */
class lane : public std::enable_shared_from_this<lane> {
  public:
    static std::shared_ptr<lane> start();
    uint64_t push(task t);      /* its number, from 1 */
    void wait(uint64_t number); /* until that one and all before it are done */
    /* Whether they are. "No" takes `patience`: who asks will mostly ask again, and take the
     * processor from the thread that does the work. */
    bool passed(uint64_t number, std::chrono::microseconds patience);
    uint64_t last(); /* number of the newest */
    void close();    /* no more comes: the thread ends once the queue is empty */

  private:
    void run();
    bool is_done(uint64_t number);
    std::mutex lock;
    std::condition_variable changed, over; /* a task has come, or one that is waited for is done */
    std::deque<task> tasks;
    uint64_t pushed = 0, done = 0, wanted = UINT64_MAX; /* the least number that is waited for */
    bool closing = false;
};

/* Runs one task on this thread, with faults of memory turned into the device's failure
 * (lane.cpp). */
void run_task(const task &t);

/* The result of one cudaEventRecord. */
struct mark {
    std::mutex lock;
    std::condition_variable changed;
    bool is_passed = false;
    std::chrono::steady_clock::time_point time;
    void pass();
    void wait();
    bool passed();
};

struct capture;

struct event {
    int device;
    unsigned int flags;
    std::shared_ptr<mark> last;        /* NULL before the first record */
    std::shared_ptr<capture> captured; /* the last record was in this capture, after these nodes; `last` is of an earlier record then */
    std::vector<size_t> captured_after;
};

/* One captured operation. `record`: an external event's, instead of work. Node numbers are in the
 * order of capture, so `after` < own. */
struct node {
    task work;
    std::shared_ptr<event> record;
    std::vector<size_t> after;
    int lane;
    int priority; /* of the stream that it was captured on */
};

/* The result of cudaStreamEndCapture: nodes of one lane are in order after each other, so each lane
 * is one thread of the replay. */
struct graph {
    std::vector<node> nodes;
    int lanes = 0;
};

struct stream {
    int device;
    unsigned int flags;
    int priority;
    bool legacy; /* the default stream */
    std::shared_ptr<emulator::lane> queue;
    std::shared_ptr<capture> capturing; /* and then: */
    std::vector<size_t> after;          /* nodes that the next one depends on */
    int lane;
};

struct capture {
    emulator::graph graph;
    stream *origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool broken = false, ended = false;
};

struct state {
    std::mutex lock;
    std::set<stream *> streams;                  /* those that exist; default streams too */
    std::set<std::shared_ptr<capture>> captures; /* those that have not ended */
    std::atomic<int> failure{0};                 /* cudaError_t of a fault: every call fails from then on */
};
state &the();

/* ---- device.cpp: what every call begins and ends with ---- */

/* The reason why no call can continue: a fault, work of cudaLaunchHostFunc that calls back, a child
 * of fork, no device. cudaSuccess otherwise. */
cudaError_t enter();
/* The same for calls that open a context on the thread's GPU, which costs memory there: a fault
 * where the thread never said which. */
cudaError_t enter_context();
/* Note for cudaGetLastError, and return. */
cudaError_t leave(cudaError_t error);
int current_device();
int visible_devices();
size_t device_memory_bytes();
/* The number in "GPU:NUMBER", which a variable has for one physical GPU; -1: it has none for the
 * one that this process uses. */
long limit_of_gpu(const char *variable);
/* Sets, while a host function runs on this thread, that CUDA may not be called. */
void forbid_calls(bool forbid);

/* ---- capture.cpp; the lock is held ---- */

/* Called by functions that may block or allocate, which captures forbid
 * (cudaThreadExchangeStreamCaptureMode chooses which): breaks those captures. Takes the lock
 * itself. */
cudaError_t unsafe_call();
/* Add a node after the stream's last. */
cudaError_t capture_task(stream *s, task t, std::shared_ptr<event> record);
void replay(const std::shared_ptr<const graph> &g, const std::vector<std::shared_ptr<lane>> &lanes,
            const std::vector<std::shared_ptr<mark>> &records);

/* ---- stream.cpp; the lock is held ---- */

/* The stream of a handle: NULL is the current device's default stream. NULL: no such stream. */
stream *stream_of(cudaStream_t handle);
/* Queue, not capture. */
cudaError_t push(stream *s, task t);
/* Queue or capture. */
cudaError_t submit(stream *s, task t);
/* Wait for all streams of a device. The lock is not held. */
void drain(int device);

/* ---- memory.cpp ---- */

/* Whether the address is the emulator's memory, live or not. */
bool in_arena(const void *address);

/* Whether the address lies in a page of live memory. Never blocks for long: also called where work
 * has faulted. */
bool in_live_region(const void *address);
/* mprotect of all live memory, pinned memory too. */
void protect_live_memory(int protection);

/* memset; cheap where much is filled with NaN or zeros: pages are made when they are written. */
void fill(void *to, int value, size_t bytes);

/* ---- watch.cpp ---- */

/* A piece of work begins. */
void watch_task(const char *name);
/* A fault inside of it: true when it was a page that is watched, and is open now. */
bool watch_fault(void *address, const void *context);

/* The event of a handle, shared so that captures and queues may keep it; NULL: no such event. The
 * lock is held. */
std::shared_ptr<event> event_of(cudaEvent_t handle);

} // namespace emulator
