/* dim3 and the short vectors of CUDA, with CUDA's alignments. For C and C++. */
#pragma once

#ifdef __cplusplus
#define EMULATED_ALIGN(bytes) alignas(bytes)
#else
#define EMULATED_ALIGN(bytes) __attribute__((aligned(bytes)))
#endif

/* align2 and align4: what CUDA aligns two and four of them to; three are aligned as one is. */
#define EMULATED_VECTORS(type, name, align2, align4)                                                                                       \
    struct name##1                                                                                                                         \
    {                                                                                                                                      \
        type x;                                                                                                                            \
    };                                                                                                                                     \
    struct EMULATED_ALIGN(align2) name##2                                                                                                  \
    {                                                                                                                                      \
        type x, y;                                                                                                                         \
    };                                                                                                                                     \
    struct name##3                                                                                                                         \
    {                                                                                                                                      \
        type x, y, z;                                                                                                                      \
    };                                                                                                                                     \
    struct EMULATED_ALIGN(align4) name##4                                                                                                  \
    {                                                                                                                                      \
        type x, y, z, w;                                                                                                                   \
    };                                                                                                                                     \
    typedef struct name##1 name##1;                                                                                                        \
    typedef struct name##2 name##2;                                                                                                        \
    typedef struct name##3 name##3;                                                                                                        \
    typedef struct name##4 name##4;

/* clang-format off */
EMULATED_VECTORS(signed char, char, 2, 4)
EMULATED_VECTORS(unsigned char, uchar, 2, 4)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(unsigned short, ushort, 4, 8)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(unsigned int, uint, 8, 16)
EMULATED_VECTORS(long long, longlong, 16, 16)
EMULATED_VECTORS(unsigned long long, ulonglong, 16, 16)
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(double, double, 16, 16)
/* clang-format on */

#ifdef __cplusplus
#define EMULATED_MAKERS(type, name)                                                                                                        \
    inline name##1 make_##name##1(type x)                                                                                                  \
    {                                                                                                                                      \
        return {x};                                                                                                                        \
    }                                                                                                                                      \
    inline name##2 make_##name##2(type x, type y)                                                                                          \
    {                                                                                                                                      \
        return {x, y};                                                                                                                     \
    }                                                                                                                                      \
    inline name##3 make_##name##3(type x, type y, type z)                                                                                  \
    {                                                                                                                                      \
        return {x, y, z};                                                                                                                  \
    }                                                                                                                                      \
    inline name##4 make_##name##4(type x, type y, type z, type w)                                                                          \
    {                                                                                                                                      \
        return {x, y, z, w};                                                                                                               \
    }

/* clang-format off */
EMULATED_MAKERS(signed char, char)
EMULATED_MAKERS(unsigned char, uchar)
EMULATED_MAKERS(short, short)
EMULATED_MAKERS(unsigned short, ushort)
EMULATED_MAKERS(int, int)
EMULATED_MAKERS(unsigned int, uint)
EMULATED_MAKERS(long long, longlong)
EMULATED_MAKERS(unsigned long long, ulonglong)
EMULATED_MAKERS(float, float)
EMULATED_MAKERS(double, double)
/* clang-format on */
#undef EMULATED_MAKERS
#endif
#undef EMULATED_VECTORS

/* A grid's or a block's shape; what is left out is 1. */
struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int width = 1, unsigned int height = 1, unsigned int depth = 1) : x(width), y(height), z(depth)
    {
    }
#endif
};
typedef struct dim3 dim3;
