/* Stands in for CUDA's header of this name: IEEE 754 half precision as far as the kernels use it,
 * in software, rounded to nearest even. */
#pragma once

#include "device_side.h"
#include "simt_narrow.h"

struct alignas(2) __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(simt::narrow<5, 10>(x))
    {
    }
    operator float() const
    {
        return simt::widen<5, 10>(bits);
    }
};
typedef __half half;

struct alignas(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

EMULATED_NARROW_FUNCTIONS(__half, __half2, half, __float22half2_rn, __half22float2)

inline __half2 __halves2half2(__half x, __half y)
{
    return {x, y};
}

inline unsigned short __half_as_ushort(__half x)
{
    return x.bits;
}

inline __half __ushort_as_half(unsigned short bits)
{
    __half x;
    x.bits = bits;
    return x;
}
