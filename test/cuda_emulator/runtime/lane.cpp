/* Streams' threads, and what happens when work touches memory that is not there. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace emulator {

namespace {

/* Of the thread that runs a task; NULL outside of one. */
thread_local const task *running;
thread_local sigjmp_buf *way_out;

struct sigaction previous_segv, previous_bus;

void report(cudaError_t error, const char *text)
{
    int none = cudaSuccess;
    if (the().failure.compare_exchange_strong(none, error))
        fprintf(stderr, "emulated GPU: %s: %s (%s)\n", running ? running->name : "?", text, cudaGetErrorName(error));
}

/* A kernel that accesses other memory fails the device, as on a GPU. Any other fault is the
 * program's: it goes to the earlier handler (a sanitizer's), or to the default. */
void on_fault(int number, siginfo_t *info, void *context)
{
    if (way_out && watch_fault(info->si_addr, context))
        return;
    if (way_out && in_arena(info->si_addr))
        siglongjmp(*way_out, 1);
    const struct sigaction *previous = number == SIGSEGV ? &previous_segv : &previous_bus;
    if (previous->sa_flags & SA_SIGINFO)
        return previous->sa_sigaction(number, info, context);
    sigaction(number, previous, nullptr);
}

bool catch_faults()
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
    return true;
}

/* Simulate a GPU that fails for good after some work. */
bool has_failed_now()
{
    static const long limit = limit_of_gpu("DTBENCH_EMULATED_BAD_GPU");
    static std::atomic<long> begun{0};
    return limit >= 0 && begun++ == limit;
}

/* Delay a stream at random, so that results are late where a wait is missing. */
void dawdle()
{
    thread_local uint64_t drawn = (uint64_t)std::hash<std::thread::id>()(std::this_thread::get_id()) ^
                                  (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count();
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    if (drawn >> 59 == 0) /* one task in 32 */
        std::this_thread::sleep_for(std::chrono::microseconds(drawn >> 40 & 255));
}

} // namespace

void run_task(const task &t)
{
    if (the().failure && !t.always)
        return;
    static const bool caught = catch_faults();
    (void)caught;
    sigjmp_buf here;
    const task *const outer = running; /* a graph's, while its nodes run */
    sigjmp_buf *const outer_way_out = way_out;
    running = &t;
    way_out = &here;
    if (!t.always)
        dawdle();
    if (!t.always && has_failed_now())
        report(cudaErrorLaunchFailure, "the GPU is bad");
    else if (sigsetjmp(here, 1) == 0) {
        if (!t.always)
            watch_task(t.name);
        t.work();
    } else
        report(cudaErrorIllegalAddress, "touches memory that is freed or never was allocated");
    way_out = outer_way_out;
    running = outer;
}

std::shared_ptr<lane> lane::start()
{
    auto made = std::make_shared<lane>();
    std::thread([made] { made->run(); }).detach();
    return made;
}

uint64_t lane::push(task t)
{
    std::lock_guard<std::mutex> hold(lock);
    tasks.push_back(std::move(t));
    changed.notify_all();
    return ++pushed;
}

/* With the lock held. A thread that waits is woken for what it waits for, and not by each task. */
bool lane::is_done(uint64_t number)
{
    if (done < number && number < wanted)
        wanted = number;
    return done >= number;
}

void lane::wait(uint64_t number)
{
    std::unique_lock<std::mutex> hold(lock);
    over.wait(hold, [&] { return is_done(number); });
}

bool lane::passed(uint64_t number, std::chrono::microseconds patience)
{
    std::unique_lock<std::mutex> hold(lock);
    return over.wait_for(hold, patience, [&] { return is_done(number); });
}

uint64_t lane::last()
{
    std::lock_guard<std::mutex> hold(lock);
    return pushed;
}

void lane::close()
{
    std::lock_guard<std::mutex> hold(lock);
    closing = true;
    changed.notify_all();
}

void lane::run()
{
    std::unique_lock<std::mutex> hold(lock);
    for (;;) {
        changed.wait(hold, [&] { return closing || !tasks.empty(); });
        if (tasks.empty())
            return;
        {
            task t = std::move(tasks.front());
            tasks.pop_front();
            hold.unlock();
            run_task(t);
        } /* the work's resources are freed before it counts as done */
        hold.lock();
        if (++done >= wanted) {
            wanted = UINT64_MAX;
            over.notify_all();
        }
    }
}

} // namespace emulator

void emulator_fault(cudaError_t error, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    emulator::report(error, text);
}
