/* Memory that the emulated NCCL gives, and which of it is registered with which communicator.
 *
 * Stricter than NCCL: only its own memory can be registered, each piece once, and it is freed when
 * nobody has it registered any more. */
#include "test/cuda_emulator/libraries/nccl_parts.h"
#include "test/cuda_emulator/runtime/stream.h"

#include <algorithm>
#include <set>

namespace emulated_nccl {

namespace {

std::set<const void *> &given()
{
    static auto *memory = new std::set<const void *>;
    return *memory;
}
std::mutex &given_lock()
{
    static auto *lock = new std::mutex;
    return *lock;
}
bool is_given(const void *memory)
{
    std::lock_guard<std::mutex> hold(given_lock());
    return given().count(memory) == 1;
}

ncclResult_t refuse(const char *why)
{
    note_error(why);
    return ncclInvalidUsage;
}

bool covers(const range &all, const range &part)
{
    const char *begin = (const char *)all.memory, *at = (const char *)part.memory;
    return at >= begin && at + part.bytes <= begin + all.bytes;
}

} // namespace

bool find_registered(const state &s, operation &o)
{
    size_t found = 0;
    std::vector<range> ranges = ranges_of(s, o);
    for (const range &r : s.registered)
        if (!emulator_touchable(r.memory, r.bytes))
            return false;
    for (const range &part : ranges)
        found += std::any_of(s.registered.begin(), s.registered.end(), [&](const range &all) { return covers(all, part); });
    o.registered = !s.registered.empty();
    return !o.registered || found == ranges.size();
}

} // namespace emulated_nccl

using namespace emulated_nccl;

extern "C" {

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    if (cudaMalloc(memory, bytes) != cudaSuccess)
        return ncclUnhandledCudaError;
    std::lock_guard<std::mutex> hold(given_lock());
    given().insert(*memory);
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    if (!is_given(memory))
        return refuse("memory is freed that NCCL never gave");
    for (const auto &s : all_states())
        for (const range &r : s->registered)
            if (r.memory == memory && !s->aborted)
                emulator_fault(cudaErrorIllegalAddress, "memory at %p is freed while a communicator of %d ranks has it registered", memory,
                               s->size);
    std::lock_guard<std::mutex> hold(given_lock());
    given().erase(memory);
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    auto s = state_of(comm);
    auto same = [=](const range &r) { return r.memory == memory; };
    if (s->result != ncclSuccess)
        return refuse("a registration with a communicator that has failed, or is in progress");
    if (!is_given(memory) || !emulator_touchable(memory, bytes))
        return refuse("memory is registered that NCCL never gave");
    if (std::any_of(s->registered.begin(), s->registered.end(), same))
        return refuse("memory is registered twice");
    s->registered.push_back({memory, bytes});
    *handle = memory;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    auto s = state_of(comm);
    auto found = std::find_if(s->registered.begin(), s->registered.end(), [=](const range &r) { return r.memory == handle; });
    if (found == s->registered.end())
        return refuse("a registration ends that is none");
    s->registered.erase(found);
    return ncclSuccess;
}

} // extern "C"
