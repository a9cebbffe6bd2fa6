/* Pages are closed before each piece of work, and opened as they are touched: first for reading,
 * then for writing. */
#include "test/cuda_emulator/runtime/watch.h"

#include "test/cuda_emulator/runtime/runtime.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace emulator {

namespace {

std::atomic<bool> watching{false};
std::vector<emulator_touch> *seen; /* the last one is the work that runs */

/* Whether the access that faulted was to write. */
bool writes([[maybe_unused]] const void *context)
{
#if defined(__x86_64__)
    return static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    return false;
#endif
}

} // namespace

void watch_task(const char *name)
{
    if (!watching)
        return;
    seen->push_back({name, 0, 0});
    protect_live_memory(PROT_NONE);
}

bool watch_fault(void *address, const void *context)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = (char *)address - (uintptr_t)address % page;
    if (!watching || !in_live_region(address))
        return false;
    bool write = writes(context);
    (write ? seen->back().written_bytes : seen->back().read_bytes) += page;
    return mprotect(start, page, write ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

} // namespace emulator

using namespace emulator;

bool emulator_watch_begin(void)
{
    seen = new std::vector<emulator_touch>;
#if defined(__x86_64__)
    watching = true;
#endif
    return watching;
}

size_t emulator_watch_end(struct emulator_touch *out, size_t room)
{
    watching = false;
    protect_live_memory(PROT_READ | PROT_WRITE);
    size_t count = seen->size();
    for (size_t i = 0; i < count && i < room; i++)
        out[i] = (*seen)[i];
    delete seen;
    seen = nullptr;
    return count;
}
