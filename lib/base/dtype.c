#include "lib/base/dtype.h"

#include <string.h>

size_t dt_dtype_bytes(enum dt_dtype dtype)
{
    return dtype == DT_FP32 ? 4 : 2;
}

const char *dt_dtype_name(int dtype)
{
    static const char *const names[DT_DTYPE_COUNT] = {[DT_FP32] = "fp32", [DT_FP16] = "fp16", [DT_BF16] = "bf16"};
    return (unsigned)dtype < DT_DTYPE_COUNT ? names[dtype] : NULL;
}

static unsigned bits_of(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float dt_bf16_to_fp32(unsigned short bits)
{
    return float_of((unsigned)bits << 16);
}

unsigned short dt_fp32_to_bf16(float value)
{
    unsigned bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (unsigned short)(bits >> 16 | 0x40u); /* a NaN must not round to infinity */
    return (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float dt_fp16_to_fp32(unsigned short bits)
{
    unsigned sign = (unsigned)(bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
    if (rest >= 0x7C00u) /* infinity and NaN */
        return float_of(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
    if (rest >= 0x0400u)
        return float_of(sign | ((rest << 13) + (112u << 23)));
    float magnitude = (float)rest * 0x1p-24f; /* subnormal: exact in fp32 */
    return float_of(sign | bits_of(magnitude));
}

unsigned short dt_fp32_to_fp16(float value)
{
    unsigned bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u)
        return (unsigned short)(sign | 0x7E00u);
    if (rest >= 0x477FF000u) /* 65520 and more round to infinity */
        return (unsigned short)(sign | 0x7C00u);
    if (rest < 0x38800000u) { /* below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits */
        unsigned rounded = bits_of(float_of(rest) + 0.5f) - 0x3F000000u;
        return (unsigned short)(sign | rounded);
    }
    return (unsigned short)(sign | ((rest - (112u << 23) + 0xFFFu + (rest >> 13 & 1u)) >> 13));
}
