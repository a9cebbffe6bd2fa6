/* The greatest common divisor. */
#pragma once

#include <stdint.h>

/* Of two numbers from 0; of 0 and a number, that number. */
static inline int64_t dt_common_divisor(int64_t a, int64_t b)
{
    for (int64_t rest; b != 0; b = rest) {
        rest = a % b;
        a = b;
    }
    return a;
}
