/* Switching by hand for x86-64: what the System V calling convention says a function must preserve
 * is pushed, the stack pointer is the whole state. Ten times as fast as swapcontext, which asks the
 * kernel for its signal mask each time. */
#include "test/cuda_emulator/simt/fiber.h"

#include <cstdint>

extern "C" void simt_fiber_switch(void **from, void *to);
extern "C" void simt_fiber_start(void);

asm(R"(
    .text
    .globl simt_fiber_switch
    .type simt_fiber_switch, @function
simt_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simt_fiber_switch, . - simt_fiber_switch

    .globl simt_fiber_start
    .type simt_fiber_start, @function
simt_fiber_start:
    movq %r12, %rdi
    callq *%rbx
    ud2
    .size simt_fiber_start, . - simt_fiber_start
    .section .note.GNU-stack, "", @progbits
    .text
)");

namespace simt {

fiber_state *fiber_prepare(void *stack_end, void (*entry)(void *), void *argument)
{
    /* What the first switch pops, from the lowest address: r15, r14, r13, r12, rbx, rbp, the return
     * address; then the stack is aligned to 16 bytes as at any call. */
    uint64_t *top = (uint64_t *)((uintptr_t)stack_end & ~(uintptr_t)15) - 9;
    top[0] = top[1] = top[2] = 0;
    top[3] = (uint64_t)argument;
    top[4] = (uint64_t)entry;
    top[5] = 0;
    top[6] = (uint64_t)simt_fiber_start;
    top[7] = top[8] = 0;
    return (fiber_state *)top;
}

void fiber_switch(fiber_state **from, fiber_state *to)
{
    simt_fiber_switch((void **)from, to);
}

} // namespace simt
