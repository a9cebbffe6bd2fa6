/* Fibers: stacks that take turns on one host thread. Each CUDA thread of a block that is being run
 * has one. */
#pragma once

#include <cstddef>

namespace simt {

struct fiber_state; /* where a fiber that does not run goes on */

/* Stacks, with a page below each that may not be touched. Kept for the host thread's next
 * kernels. */
class fiber_stacks {
  public:
    ~fiber_stacks();
    void reserve(int count); /* stacks [0, count) exist afterwards; no fiber may be on them */
    void *end_of(int index); /* its highest address */
    /* Tell an address sanitizer that the contents of abandoned fibers' stacks are gone. */
    void forget();

  private:
    /* An odd number of pages: otherwise the same few entries of a processor's table of pages would
     * have to do for all of them. */
    enum : size_t { GUARD_BYTES = 4096, STACK_BYTES = 256 * 1024 + GUARD_BYTES, LINE_BYTES = 64, LINES = 4096 / LINE_BYTES };
    char *memory = nullptr;
    int reserved = 0;
};

/* A fiber that will run entry(argument) on the stack that ends at `stack_end`. entry never returns:
 * it switches away for good. The state lies on the stack itself. */
fiber_state *fiber_prepare(void *stack_end, void (*entry)(void *), void *argument);

/* Continue at `to`. *from gets the caller's state; switching to it makes this call return. */
void fiber_switch(fiber_state **from, fiber_state *to);

} // namespace simt
