/* Stands in for CUDA's header of this name: bfloat16 as far as the kernels use it, in software,
 * rounded to nearest even. */
#pragma once

#include "device_side.h"
#include "simt_narrow.h"

struct alignas(2) __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(simt::narrow<8, 7>(x))
    {
    }
    operator float() const
    {
        return simt::widen<8, 7>(bits);
    }
};
typedef __nv_bfloat16 nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;

EMULATED_NARROW_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, __float22bfloat162_rn, __bfloat1622float2)

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y)
{
    return {x, y};
}

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
    return x.bits;
}

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    __nv_bfloat16 x;
    x.bits = bits;
    return x;
}
