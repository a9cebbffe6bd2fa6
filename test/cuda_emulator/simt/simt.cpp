#include "test/cuda_emulator/simt/simt.h"

#include "test/cuda_emulator/simt/background.h"
#include "test/cuda_emulator/simt/fiber.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim(1), gridDim(1);
__thread bool simt_has_waited;

namespace simt {
namespace {

enum { WARP = 32, MOST_THREADS = 1024, CANARY = 0xA5 };
/* Dynamic shared memory begins where 128 bytes of static shared memory would end: it is as aligned
 * as it is declared, and not more. */
enum : size_t { MOST_SHARED_BYTES = 163 * 1024, CANARY_BYTES = 256, SHARED_BEGINS = 128, SHARED_ALIGNMENT = 1024 };

enum class waiting { nothing, block, warp, other, returned };

struct cuda_thread {
    int stack; /* it runs on, or -1: it has not begun */
    fiber_state *state;
    uint3 index;
    waiting wait;
    warp_call call; /* of a thread that waits for its warp, and the rest of its arguments */
    unsigned mask;
    uint64_t bits;
    int source;
    const void *sleeps_on;                       /* of one that waits for something else */
    void (*together)(void *const of_lane[WARP]); /* NULL but for warp_meets */
    warp_result result;
    std::vector<pending_copy> open;                /* cp.async since the last commit */
    std::vector<std::vector<pending_copy>> groups; /* committed ones, oldest first */
};

struct aligned_free {
    void operator()(void *memory) const
    {
        free(memory);
    }
};

/* Splitmix64: enough to shuffle by. Bounds are below 2^32. */
struct shuffler {
    uint64_t state;
    uint64_t below(uint64_t bound)
    {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        return ((z ^ z >> 31) >> 32) * bound >> 32;
    }
};

uint64_t given_seed()
{
    const char *given = getenv("DTBENCH_SIMT_SEED");
    return given ? strtoull(given, nullptr, 10) : 1;
}

/* What is known of a kernel from its earlier grids on this host thread: how many they were, and
 * what static shared memory they used. */
struct kernel_history {
    unsigned grids;
    std::vector<int> static_shared;
};

/* A host thread's executor. A CUDA thread gets a stack when it begins, the one that was left last:
 * threads that wait for nobody use the same one after the other, without a switch between them. Who
 * waits switches to the next one by itself. */
struct executor {
    fiber_stacks stacks;
    std::vector<int> free_stacks;
    std::vector<cuda_thread> threads; /* of the block that runs */
    /* Until the next barrier one warp runs as far ahead of the others as it can, and another only
     * when no other can: most of what a barrier too few lets go wrong needs that, and no order
     * drawn thread by thread would show it. */
    int ahead = -1, behind = -1;
    std::vector<int> runnable[3];                    /* threads of the warp ahead, of most warps, of the one behind */
    std::vector<unsigned> lanes_left, waiting_lanes; /* of each warp: those that have not returned, those that wait for their warp */
    const std::function<void()> *kernel = nullptr;
    fiber_state *scheduler = nullptr;
    int running = -1, alive = 0, at_barrier = 0;
    std::unique_ptr<unsigned char, aligned_free> window; /* the block's shared memory */
    std::map<const void *, kernel_history> history;      /* of each kernel that has run */
    std::string problem;
    bool unfinished = false; /* fibers of the last grid were left in the middle */
    shuffler random{given_seed()};

    unsigned char *shared()
    {
        return window.get() + SHARED_BEGINS;
    }
    void make_runnable(int t)
    {
        threads[(size_t)t].wait = waiting::nothing;
        runnable[t / WARP == ahead ? 0 : t / WARP == behind ? 2 : 1].push_back(t);
    }
    void draw_order();
    bool draw_next();
    void switch_to_next(fiber_state **from);
    void pause();
    void pass_barrier();
    void check_warp(int t);
    void pass_warp(int t);
    void complain(int t, const std::string &what);
    void returned();
    void run_block(const grid &grid);
    std::string stuck() const;
};

thread_local executor *current; /* while a grid runs on this host thread */
thread_local std::unique_ptr<executor> mine;

std::string text_of(const uint3 &at)
{
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

const char *name_of(warp_call call)
{
    static const char *const names[] = {"__syncwarp",
                                        "a shuffle",
                                        "a vote",
                                        "a product of tiles",
                                        "a load of matrices",
                                        "a product of a warpgroup",
                                        "a fence before products of a warpgroup",
                                        "a commit of products of a warpgroup",
                                        "a wait for products of a warpgroup",
                                        "a change of a warpgroup's registers"};
    return names[(int)call];
}

/* The first complaint counts; the scheduler sees it when the fiber that complains never comes
 * back. */
void executor::complain(int t, const std::string &what)
{
    if (problem.empty())
        problem = "thread " + text_of(threads[(size_t)t].index) + ": " + what;
}

/* Nobody is runnable now. */
void executor::draw_order()
{
    ahead = (int)random.below(lanes_left.size());
    behind = (int)random.below(lanes_left.size());
}

/* Makes one of those that may run next the running one; false where there is none. What goes on in
 * the background is late, and hardly ever ends before all threads wait. */
bool executor::draw_next()
{
    enum { SELDOM = 64 };
    while (alive > 0 && background_copies() > 0 &&
           ((runnable[0].empty() && runnable[1].empty() && runnable[2].empty()) || random.below(SELDOM) == 0))
        background_copy(random.below(background_copies()));
    for (std::vector<int> &from : runnable) {
        if (from.empty())
            continue;
        size_t next = random.below(from.size());
        running = from[next];
        from[next] = from.back();
        from.pop_back();
        return true;
    }
    return false;
}

void fiber_main(void *);

/* To the thread that runs next, or, where there is none or somebody complained, to the scheduler.
 * from: as in fiber_switch. */
void executor::switch_to_next(fiber_state **from)
{
    if (!problem.empty() || !draw_next())
        return fiber_switch(from, scheduler);
    cuda_thread &next = threads[(size_t)running];
    if (next.stack < 0) {
        next.stack = free_stacks.back();
        free_stacks.pop_back();
        next.state = fiber_prepare(stacks.end_of(next.stack), fiber_main, nullptr);
    }
    if (from != &next.state) /* who waited is not itself the next */
        fiber_switch(from, next.state);
}

/* Lets others run; returns when somebody made the caller runnable. */
void executor::pause()
{
    int me = running;
    switch_to_next(&threads[(size_t)me].state);
    threadIdx = threads[(size_t)me].index;
}

void executor::pass_barrier()
{
    if (at_barrier == 0 || at_barrier < alive)
        return;
    at_barrier = 0;
    draw_order();
    for (int t = 0; t < (int)threads.size(); t++)
        if (threads[(size_t)t].wait == waiting::block)
            make_runnable(t);
}

/* Thread t waits for its warp now: does it agree with those who wait already? */
void executor::check_warp(int t)
{
    const cuda_thread &own = threads[(size_t)t];
    unsigned others = waiting_lanes[(size_t)(t / WARP)] & own.mask & ~(1u << t % WARP);
    if (others == 0)
        return;
    const cuda_thread &other = threads[(size_t)(t / WARP * WARP + __builtin_ctz(others))];
    if (other.mask != own.mask || other.call != own.call)
        complain(t, std::string("it is at ") + name_of(own.call) + " while thread " + text_of(other.index) + " of its warp is at " +
                        name_of(other.call) + ", or their masks differ");
}

/* Thread t waits for its warp, or returned from it: have the calls of that warp all their lanes
 * now? */
void executor::pass_warp(int t)
{
    unsigned &waits = waiting_lanes[(size_t)(t / WARP)], alive_lanes = lanes_left[(size_t)(t / WARP)];
    cuda_thread *warp = &threads[(size_t)(t / WARP * WARP)];
    for (unsigned rest = waits; rest != 0;) {
        unsigned mask = warp[__builtin_ctz(rest)].mask, present = mask & alive_lanes, votes = 0;
        rest &= ~(mask & waits);
        if ((present & ~waits) != 0)
            continue;
        for (unsigned left = present; left != 0; left &= left - 1)
            votes |= (unsigned)(warp[__builtin_ctz(left)].bits & 1) << __builtin_ctz(left);
        for (unsigned left = present; left != 0; left &= left - 1) {
            int l = __builtin_ctz(left), source = warp[l].source;
            warp[l].result = {source < WARP && present >> source & 1 ? warp[source].bits : ~(uint64_t)0, votes, present};
            make_runnable(t / WARP * WARP + l);
        }
        if (auto *together = warp[__builtin_ctz(present)].together; together && present == ~0u) {
            void *of_lane[WARP];
            for (int l = 0; l < WARP; l++)
                of_lane[l] = (void *)warp[l].bits;
            together(of_lane);
        }
        waits &= ~present;
    }
}

void executor::returned()
{
    int me = running;
    bool under_way = !threads[(size_t)me].open.empty();
    for (const auto &group : threads[(size_t)me].groups)
        under_way |= !group.empty();
    if (under_way)
        complain(me, "returned while copies to shared memory were under way");
    if (const char *products = background_returned(me))
        complain(me, products);
    threads[(size_t)me].wait = waiting::returned;
    lanes_left[(size_t)(me / WARP)] &= ~(1u << me % WARP);
    alive--;
    pass_barrier();
    pass_warp(me);
}

/* One CUDA thread, and then all those that begin when the one before has returned. */
void fiber_main(void *)
{
    executor &e = *current;
    int stack = e.threads[(size_t)e.running].stack;
    do {
        e.threads[(size_t)e.running].stack = stack;
        threadIdx = e.threads[(size_t)e.running].index;
        (*e.kernel)();
        e.returned();
    } while (e.problem.empty() && e.draw_next() && e.threads[(size_t)e.running].stack < 0);
    bool drawn = e.problem.empty() && e.threads[(size_t)e.running].wait == waiting::nothing;
    e.free_stacks.push_back(stack);
    fiber_state *gone;
    fiber_switch(&gone, drawn ? e.threads[(size_t)e.running].state : e.scheduler);
}

std::string executor::stuck() const
{
    std::string text = "no thread can go on:";
    int count[2] = {0, 0}, first[2] = {-1, -1}, returned = 0, asleep = 0;
    for (int t = 0; t < (int)threads.size(); t++) {
        returned += threads[(size_t)t].wait == waiting::returned;
        asleep += threads[(size_t)t].wait == waiting::other;
        for (int kind = 0; kind < 2; kind++)
            if (threads[(size_t)t].wait == (kind ? waiting::warp : waiting::block) && count[kind]++ == 0)
                first[kind] = t;
    }
    if (count[0])
        text += " " + std::to_string(count[0]) + " wait at __syncthreads (the first is thread " + text_of(threads[(size_t)first[0]].index) +
                "),";
    if (count[1])
        text += " " + std::to_string(count[1]) + " at " + name_of(threads[(size_t)first[1]].call) + " (the first is thread " +
                text_of(threads[(size_t)first[1]].index) + "),";
    if (asleep)
        text += " " + std::to_string(asleep) + " at a barrier in shared memory,";
    return text + " " + std::to_string(returned) + " returned";
}

void executor::run_block(const grid &grid)
{
    int count = (int)(grid.threads.x * grid.threads.y * grid.threads.z);
    memset(shared(), 0xFF, grid.shared_bytes);
    memset(shared() + grid.shared_bytes, CANARY, CANARY_BYTES);
    background_begin(window.get(), SHARED_BEGINS, SHARED_BEGINS + grid.shared_bytes, grid.name);
    threads.resize((size_t)count);
    for (std::vector<int> &of : runnable)
        of.clear();
    lanes_left.assign((size_t)(count + WARP - 1) / WARP, 0);
    waiting_lanes.assign(lanes_left.size(), 0);
    alive = count;
    at_barrier = 0;
    draw_order();
    for (int t = 0; t < count; t++) {
        cuda_thread &thread = threads[(size_t)t];
        unsigned u = (unsigned)t;
        thread.index = {u % grid.threads.x, u / grid.threads.x % grid.threads.y, u / grid.threads.x / grid.threads.y};
        lanes_left[(size_t)(t / WARP)] |= 1u << t % WARP;
        thread.open.clear();
        thread.groups.clear();
        thread.stack = -1;
        make_runnable(t);
    }
    free_stacks.resize((size_t)count);
    std::iota(free_stacks.rbegin(), free_stacks.rend(), 0);
    switch_to_next(&scheduler); /* back when no thread may run */
    if (problem.empty() && alive > 0)
        problem = stuck();
    if (problem.empty())
        problem = background_end();
    for (size_t i = 0; i < CANARY_BYTES && problem.empty(); i++)
        if (shared()[grid.shared_bytes + i] != CANARY)
            problem = "wrote past its " + std::to_string(grid.shared_bytes) + " bytes of dynamic shared memory";
    if (!problem.empty())
        threads.clear(); /* what these threads had under way is over */
}

} // namespace

std::string refusal(const grid &grid)
{
    uint64_t threads = (uint64_t)grid.threads.x * grid.threads.y * grid.threads.z;
    if (threads < 1 || threads > MOST_THREADS || grid.threads.z > 64)
        return "a block of " + std::to_string(threads) + " threads";
    if (grid.blocks.x < 1 || grid.blocks.y < 1 || grid.blocks.z < 1 || grid.blocks.x > 0x7fffffffu || grid.blocks.y > 65535 ||
        grid.blocks.z > 65535)
        return "a grid of " + text_of({grid.blocks.x, grid.blocks.y, grid.blocks.z}) + " blocks";
    if (grid.shared_bytes > MOST_SHARED_BYTES)
        return std::to_string(grid.shared_bytes) + " bytes of shared memory";
    return "";
}

std::string run(const grid &grid, const std::function<void()> &kernel)
{
    if (!mine)
        mine = std::make_unique<executor>();
    executor &e = *mine;
    e.kernel = &kernel;
    e.problem = refusal(grid);
    if (!e.problem.empty())
        return std::string("kernel ") + grid.name + ": " + e.problem;
    enum : unsigned { SEARCH_EVERY = 8 };
    kernel_history &history = e.history[grid.kernel];
    bool is_first = !grid.kernel || history.grids == 0, searches = history.grids++ % SEARCH_EVERY == 0;
    if (e.unfinished)
        e.stacks.forget();
    poison_static_shared(history.static_shared, is_first || e.unfinished);
    e.unfinished = true;
    e.stacks.reserve((int)(grid.threads.x * grid.threads.y * grid.threads.z));
    size_t bytes = SHARED_BEGINS + grid.shared_bytes + CANARY_BYTES;
    e.window.reset((unsigned char *)aligned_alloc(SHARED_ALIGNMENT, (bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT));
    blockDim = grid.threads;
    gridDim = grid.blocks;
    current = &e;
    std::vector<uint64_t> order((size_t)grid.blocks.x * grid.blocks.y * grid.blocks.z);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[e.random.below(i)]);
    for (uint64_t block : order) {
        uint64_t rest = block / grid.blocks.x;
        blockIdx = {(unsigned)(block % grid.blocks.x), (unsigned)(rest % grid.blocks.y), (unsigned)(rest / grid.blocks.y)};
        e.run_block(grid);
        if (!e.problem.empty())
            break;
        poison_static_shared(history.static_shared, is_first || (searches && block == order.back()));
    }
    current = nullptr;
    e.unfinished = !e.problem.empty();
    if (e.problem.empty())
        return "";
    return std::string("kernel ") + grid.name + ": block " + text_of(blockIdx) + ": " + e.problem +
           " (DTBENCH_SIMT_SEED=" + std::to_string(given_seed()) + ")";
}

void sync_threads()
{
    executor &e = *current;
    e.threads[(size_t)e.running].wait = waiting::block;
    e.at_barrier++;
    e.pass_barrier();
    e.pause();
}

static warp_result meet_warp(warp_call call, unsigned mask, uint64_t bits, int source, void (*together)(void *const of_lane[WARP]))
{
    executor &e = *current;
    int me = e.running;
    cuda_thread &thread = e.threads[(size_t)me];
    thread.wait = waiting::warp;
    thread.call = call;
    thread.mask = mask;
    thread.bits = bits;
    thread.source = source;
    thread.together = together;
    e.check_warp(me);
    e.waiting_lanes[(size_t)(me / WARP)] |= 1u << me % WARP;
    if (mask >> me % WARP & 1)
        e.pass_warp(me);
    else
        e.complain(me, std::string("calls ") + name_of(call) + " with a mask that leaves itself out");
    e.pause();
    return thread.result;
}

warp_result warp_exchange(warp_call call, unsigned mask, uint64_t bits, int source)
{
    return meet_warp(call, mask, bits, source, nullptr);
}

void warp_meets(warp_call call, void *own, void (*together)(void *const of_lane[32]))
{
    if (meet_warp(call, ~0u, (uint64_t)own, 0, together).present == ~0u)
        return;
    complain(std::string(name_of(call)) + " needs all 32 lanes of a warp");
}

void complain(const std::string &what)
{
    executor &e = *current;
    e.complain(e.running, what);
    for (;;)
        e.pause();
}

int lane()
{
    return current->running % WARP;
}

int running_thread()
{
    return current->running;
}

void sleep_on(const void *what)
{
    executor &e = *current;
    cuda_thread &thread = e.threads[(size_t)e.running];
    thread.wait = waiting::other;
    thread.sleeps_on = what;
    e.pause();
}

void wake(const void *what)
{
    executor &e = *current;
    for (int t = 0; t < (int)e.threads.size(); t++)
        if (e.threads[(size_t)t].wait == waiting::other && e.threads[(size_t)t].sleeps_on == what)
            e.make_runnable(t);
}

void *dynamic_shared()
{
    return current->shared();
}

void copy_add(const pending_copy &copy)
{
    current->threads[(size_t)current->running].open.push_back(copy);
}

void copy_commit()
{
    cuda_thread &thread = current->threads[(size_t)current->running];
    thread.groups.push_back(std::move(thread.open));
    thread.open.clear();
}

void copy_wait(int groups_left)
{
    cuda_thread &thread = current->threads[(size_t)current->running];
    while ((int)thread.groups.size() > groups_left) {
        for (const pending_copy &copy : thread.groups.front())
            if (copy.from)
                memcpy(copy.to, copy.from, copy.bytes);
            else
                memset(copy.to, 0, copy.bytes);
        thread.groups.erase(thread.groups.begin());
    }
}

} // namespace simt
