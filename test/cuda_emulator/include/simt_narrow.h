/* 16-bit floats of any split into exponent and mantissa, for cuda_fp16.h and cuda_bf16.h. */
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace simt {

/* Of `EXPONENT` and `MANTISSA` bits after the sign: the nearest to x, the even one of two. NaN
 * stays NaN; what is too large is infinite. */
template <int EXPONENT, int MANTISSA> unsigned short narrow(float x)
{
    constexpr int BIAS = (1 << (EXPONENT - 1)) - 1, DROPPED = 23 - MANTISSA;
    constexpr uint32_t INFINITE = ((1u << EXPONENT) - 1) << MANTISSA, LEAST_NORMAL = (uint32_t)(128 - BIAS) << 23;
    uint32_t all, magnitude, sign;
    memcpy(&all, &x, sizeof all);
    magnitude = all & 0x7fffffffu;
    sign = all >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u)
        return 0x7fff;
    if (magnitude < LEAST_NORMAL) {
        /* Added to a power of two whose last place is the smallest subnormal, the sum is rounded to
         * a multiple of that. */
        uint32_t power = (uint32_t)(128 - BIAS + DROPPED) << 23, sum_bits;
        float base, value, sum;
        memcpy(&base, &power, sizeof base);
        memcpy(&value, &magnitude, sizeof value);
        sum = base + value;
        memcpy(&sum_bits, &sum, sizeof sum_bits);
        return (unsigned short)(sign | (sum_bits - power));
    }
    /* Half of the last place kept, less one when that is even; a carry goes on into the
     * exponent. */
    uint32_t rounded = (magnitude + (1u << (DROPPED - 1)) - 1 + (magnitude >> DROPPED & 1)) >> DROPPED;
    rounded -= (uint32_t)(127 - BIAS) << MANTISSA;
    return (unsigned short)(sign | (rounded < INFINITE ? rounded : INFINITE));
}

constexpr float power_of_half(int exponent)
{
    float power = 1;
    for (; exponent > 0; exponent--)
        power /= 2;
    return power;
}

template <int EXPONENT, int MANTISSA> float widen(unsigned short bits)
{
    constexpr int BIAS = (1 << (EXPONENT - 1)) - 1, MOST = (1 << EXPONENT) - 1;
    uint32_t exponent = bits >> MANTISSA & MOST, mantissa = bits & ((1u << MANTISSA) - 1), wide;
    float value;
    if (exponent == 0) {
        constexpr float LEAST = power_of_half(BIAS + MANTISSA - 1); /* of this type above 0 */
        value = (float)mantissa * LEAST;
    } else {
        wide = (exponent == MOST ? 255u : exponent + 127 - BIAS) << 23 | mantissa << (23 - MANTISSA);
        memcpy(&value, &wide, sizeof value);
    }
    return bits & 0x8000 ? -value : value;
}

} // namespace simt

/* Sums, products and comparisons convert to float and back: 24 bits are enough that rounding twice
 * changes nothing. */
#define EMULATED_NARROW_FUNCTIONS(type, pair, name, from_pair_name, to_pair_name)                                                          \
    inline type __float2##name(float x)                                                                                                    \
    {                                                                                                                                      \
        return type(x);                                                                                                                    \
    }                                                                                                                                      \
    inline type __float2##name##_rn(float x)                                                                                               \
    {                                                                                                                                      \
        return type(x);                                                                                                                    \
    }                                                                                                                                      \
    inline float __##name##2float(type x)                                                                                                  \
    {                                                                                                                                      \
        return (float)x;                                                                                                                   \
    }                                                                                                                                      \
    inline pair __floats2##name##2_rn(float x, float y)                                                                                    \
    {                                                                                                                                      \
        return {type(x), type(y)};                                                                                                         \
    }                                                                                                                                      \
    inline pair from_pair_name(float2 x)                                                                                                   \
    {                                                                                                                                      \
        return {type(x.x), type(x.y)};                                                                                                     \
    }                                                                                                                                      \
    inline float2 to_pair_name(pair x)                                                                                                     \
    {                                                                                                                                      \
        return {(float)x.x, (float)x.y};                                                                                                   \
    }                                                                                                                                      \
    inline float __low2float(pair x)                                                                                                       \
    {                                                                                                                                      \
        return (float)x.x;                                                                                                                 \
    }                                                                                                                                      \
    inline float __high2float(pair x)                                                                                                      \
    {                                                                                                                                      \
        return (float)x.y;                                                                                                                 \
    }                                                                                                                                      \
    inline type __hadd(type x, type y)                                                                                                     \
    {                                                                                                                                      \
        return type((float)x + (float)y);                                                                                                  \
    }                                                                                                                                      \
    inline type __hmul(type x, type y)                                                                                                     \
    {                                                                                                                                      \
        return type((float)x * (float)y);                                                                                                  \
    }                                                                                                                                      \
    inline pair __hadd2(pair x, pair y)                                                                                                    \
    {                                                                                                                                      \
        return {__hadd(x.x, y.x), __hadd(x.y, y.y)};                                                                                       \
    }                                                                                                                                      \
    inline pair __hmul2(pair x, pair y)                                                                                                    \
    {                                                                                                                                      \
        return {__hmul(x.x, y.x), __hmul(x.y, y.y)};                                                                                       \
    }
