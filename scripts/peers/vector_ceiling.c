/* Compiled once for each instruction set, with VECTOR_CEILING, the function's name. */
#include "scripts/peers/vector_ceiling.h"

#include "lib/kernels/cpu/simd.h"

enum { SUMS = 12 }; /* none waits for itself: two begin in a cycle, and each takes four or five */

double VECTOR_CEILING(int rounds)
{
    vfloat sums[SUMS], factor = v_set(0.999f);
    float rest = 0;
    for (int i = 0; i < SUMS; i++)
        sums[i] = v_set((float)i);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < SUMS; i++)
            sums[i] = sums[i] * factor + factor;
        __asm__ volatile("" : "+x"(factor)); /* no round is computed ahead */
    }
    for (int i = 0; i < SUMS; i++)
        rest += v_sum(sums[i]);
    return 2.0 * rounds * SUMS * V_LANES + (rest == 0); /* the sums are looked at, so that the loop is not left out */
}
