#include "test/cuda_emulator/simt/fiber.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *at, size_t bytes); /* in sanitizer builds */

namespace simt {

fiber_stacks::~fiber_stacks()
{
    if (memory)
        munmap(memory, (size_t)reserved * STACK_BYTES);
}

void fiber_stacks::reserve(int count)
{
    if (count <= reserved)
        return;
    if (memory)
        munmap(memory, (size_t)reserved * STACK_BYTES);
    void *fresh = mmap(nullptr, (size_t)count * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) {
        fprintf(stderr, "emulated GPU: no host memory for %d stacks\n", count);
        abort();
    }
    memory = (char *)fresh;
    reserved = count;
    for (int i = 0; i < count; i++)
        mprotect(memory + (size_t)i * STACK_BYTES, GUARD_BYTES, PROT_NONE);
}

/* Stacks begin on different lines of a page: otherwise the same few sets of a processor's cache
 * would hold all of them. */
void *fiber_stacks::end_of(int index)
{
    return memory + ((size_t)index + 1) * STACK_BYTES - (size_t)(index % LINES) * LINE_BYTES;
}

void fiber_stacks::forget()
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(memory, (size_t)reserved * STACK_BYTES);
}

} // namespace simt
