/* Memory of the emulated devices, and pinned host memory.
 *
 * One large range of addresses is reserved and handed out once: an allocation ends where a page
 * that nobody may touch begins, and freed addresses never come back, so that what reads or writes
 * past an end or after a free faults (lane.cpp) and does not find another's data. */
#include "test/cuda_emulator/runtime/runtime.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

namespace emulator {

namespace {

enum : size_t { ARENA_BYTES = (size_t)1 << 42, ALIGNMENT = 256, NAN_BYTES = (size_t)1 << 20 };

struct allocation {
    size_t bytes, region_bytes;
    char *region;
    int device;
    bool pinned;
};

struct memory_state {
    std::mutex lock;
    std::map<char *, allocation> live;
    std::map<int, size_t> used; /* bytes of each device */
    char *next;
};

char *arena()
{
    static char *const start = (char *)mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start;
}

memory_state &memory()
{
    static memory_state *all = new memory_state{{}, {}, {}, arena()};
    return *all;
}

size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Bytes that the current device can give: all it has, unless the test makes it smaller than it
 * reports. */
size_t given_bytes()
{
    long given = limit_of_gpu("DTBENCH_EMULATED_FULL_GPU");
    return given < 0 ? device_memory_bytes() : (size_t)given;
}

/* A file of NAN_BYTES bytes that are NaN in every type; -1 where there is none. */
int nan_file()
{
    static const int file = [] {
        const std::vector<char> bytes(NAN_BYTES, (char)0xff);
        int made = memfd_create("nan", MFD_CLOEXEC);
        if (made >= 0 && write(made, bytes.data(), bytes.size()) != (ssize_t)bytes.size()) {
            close(made);
            made = -1;
        }
        return made;
    }();
    return file;
}

/* Fresh memory is NaN in every type. What is large, as workspaces that nobody uses, consists of
 * copies of a file, of which the system makes only the pages that are written. */
void fill_with_nan(char *region, size_t region_bytes)
{
    size_t done = 0;
    for (size_t part; region_bytes >= NAN_BYTES && nan_file() >= 0 && done < region_bytes; done += part) {
        part = std::min(region_bytes - done, (size_t)NAN_BYTES);
        if (mmap(region + done, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, nan_file(), 0) == MAP_FAILED)
            break;
    }
    memset(region + done, 0xff, region_bytes - done);
}

cudaError_t allocate(void **out, size_t bytes, bool pinned)
{
    *out = nullptr;
    cudaError_t error = enter();
    if (error == cudaSuccess)
        error = unsafe_call();
    if (error != cudaSuccess || bytes == 0)
        return error;
    memory_state &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), data = round_up(bytes, ALIGNMENT), region = round_up(data, page);
    size_t &used = m.used[current_device()];
    bool fits = data >= bytes && (pinned || used + data <= given_bytes());
    if (!fits || arena() == MAP_FAILED || region + page > (size_t)(arena() + ARENA_BYTES - m.next) ||
        mprotect(m.next, region, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    char *start = m.next + region - data;
    m.live[start] = {bytes, region, m.next, current_device(), pinned};
    fill_with_nan(m.next, region);
    m.next += region + page; /* a page between that is never opened */
    if (!pinned)
        used += data;
    ASAN_POISON_MEMORY_REGION(start + bytes, data - bytes);
    *out = start;
    return cudaSuccess;
}

/* Waits for the device first, as the real calls do: queued work may still use it. */
cudaError_t release(void *out, bool pinned)
{
    cudaError_t error = enter();
    if (error == cudaSuccess && out)
        error = unsafe_call();
    if (error != cudaSuccess || !out)
        return error;
    memory_state &m = memory();
    int device;
    {
        std::lock_guard<std::mutex> hold(m.lock);
        auto found = m.live.find((char *)out);
        if (found == m.live.end() || found->second.pinned != pinned)
            return cudaErrorInvalidValue;
        device = found->second.device;
    }
    drain(device);
    std::lock_guard<std::mutex> hold(m.lock);
    auto found = m.live.find((char *)out);
    if (found == m.live.end())
        return cudaErrorInvalidValue;
    const allocation &a = found->second;
    if (!pinned)
        m.used[device] -= round_up(a.bytes, ALIGNMENT);
    /* a fresh mapping instead of the old one: its pages go back to the machine */
    mmap(a.region, a.region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    m.live.erase(found);
    return cudaSuccess;
}

} // namespace

void fill(void *to, int value, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)to % page;
    if ((value != 0xff && value != 0) || !in_arena(to) || bytes < before + NAN_BYTES) {
        memset(to, value, bytes);
        return;
    }
    char *start = (char *)to + before;
    size_t whole = (bytes - before) / page * page;
    memset(to, value, before);
    if (value != 0)
        fill_with_nan(start, whole);
    else if (mmap(start, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        memset(start, 0, whole);
    memset(start + whole, value, bytes - before - whole);
}

bool in_arena(const void *address)
{
    const char *at = (const char *)address;
    return arena() != MAP_FAILED && at >= arena() && at < arena() + ARENA_BYTES;
}

bool in_live_region(const void *address)
{
    memory_state &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    auto found = m.live.upper_bound((char *)address);
    /* an allocation begins some bytes into its region, or with it */
    for (int i = 0; i < 2; i++) {
        if (found != m.live.end() && address >= found->second.region && address < found->second.region + found->second.region_bytes)
            return true;
        if (found == m.live.begin())
            return false;
        --found;
    }
    return false;
}

void protect_live_memory(int protection)
{
    memory_state &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    for (const auto &[start, a] : m.live)
        mprotect(a.region, a.region_bytes, protection);
}

} // namespace emulator

using namespace emulator;

enum emulator_memory emulator_memory_at(const void *start, size_t bytes)
{
    if (!in_arena(start))
        return EMULATOR_HOST;
    memory_state &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    auto found = m.live.upper_bound((char *)start);
    if (found == m.live.begin())
        return EMULATOR_DEAD;
    --found;
    size_t offset = (size_t)((const char *)start - found->first);
    if (offset > found->second.bytes || bytes > found->second.bytes - offset)
        return EMULATOR_DEAD;
    return found->second.pinned ? EMULATOR_PINNED : EMULATOR_DEVICE;
}

bool emulator_touchable(const void *start, size_t bytes)
{
    enum emulator_memory kind = emulator_memory_at(start, bytes);
    return kind == EMULATOR_DEVICE || kind == EMULATOR_PINNED;
}

extern "C" {

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return leave(allocate(out, bytes, false));
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return leave(allocate(out, bytes, true));
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    return leave(flags > 7 ? cudaErrorInvalidValue : allocate(out, bytes, true));
}
cudaError_t cudaFree(void *out)
{
    return leave(release(out, false));
}
cudaError_t cudaFreeHost(void *out)
{
    return leave(release(out, true));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = enter();
    if (error != cudaSuccess)
        return leave(error);
    memory_state &m = memory();
    std::lock_guard<std::mutex> hold(m.lock);
    *total_bytes = device_memory_bytes();
    *free_bytes = *total_bytes - m.used[current_device()];
    return cudaSuccess;
}

} // extern "C"
