/* Switching by ucontext, for processors that have no file of their own. */
#include "test/cuda_emulator/simt/fiber.h"

#include <cstdint>
#include <new>
#include <ucontext.h>

namespace simt {

struct fiber_state {
    ucontext_t context;
};

enum : size_t { LEAST_STACK_BYTES = 128 * 1024 }; /* below the state; fiber_stacks gives more */

static void start(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low)
{
    auto entry = (void (*)(void *))((uintptr_t)entry_high << 32 | entry_low);
    entry((void *)((uintptr_t)argument_high << 32 | argument_low));
}

fiber_state *fiber_prepare(void *stack_end, void (*entry)(void *), void *argument)
{
    char *at = (char *)((uintptr_t)stack_end - sizeof(fiber_state));
    fiber_state *state = new ((void *)((uintptr_t)at & ~(uintptr_t)63)) fiber_state;
    getcontext(&state->context);
    state->context.uc_stack.ss_sp = (char *)state - LEAST_STACK_BYTES;
    state->context.uc_stack.ss_size = LEAST_STACK_BYTES;
    state->context.uc_link = nullptr;
    uint64_t e = (uint64_t)(uintptr_t)entry, a = (uint64_t)(uintptr_t)argument;
    makecontext(&state->context, (void (*)())start, 4, (unsigned)(e >> 32), (unsigned)e, (unsigned)(a >> 32), (unsigned)a);
    return state;
}

void fiber_switch(fiber_state **from, fiber_state *to)
{
    fiber_state here;
    *from = &here;
    swapcontext(&here.context, &to->context);
}

} // namespace simt
