/* The tensor cores as plain device functions: products of 16x8x16 tiles, loads of their operands
 * from shared memory, and asynchronous copies to shared memory. All are instructions of sm_80,
 * which later GPUs have, too.
 *
 * All 32 lanes of a warp call a function on matrices together. r = lane / 4 and c = lane % 4 below.
 * A word contains two adjacent elements of fp16 or bf16, the one with the lower index in its low
 * half.
 *
 *   a [16, 16] row-major   a[0]: row r,   columns 2c, 2c+1      a[1]: row r+8, columns 2c, 2c+1
 *                          a[2]: row r,   columns 2c+8, 2c+9    a[3]: row r+8, columns 2c+8, 2c+9
 *   b [16, 8]              b0:   rows 2c, 2c+1 of column r      b1:   rows 2c+8, 2c+9 of column r
 *   d [16, 8] fp32         d[0], d[1]: row r, columns 2c, 2c+1
 *                          d[2], d[3]: row r+8, columns 2c, 2c+1
 *
 * So two adjacent d, packed, are the a of a following product, and 8 adjacent columns of a row of d
 * are in the 4 lanes of a quad.
 *
 * Source  PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix",
 *         "cp.async".
 *
 * The tests have a file with the same name that does the same on a CPU (test/cuda_emulator). */
#ifndef GPT_CUDA_MMA_CUH
#define GPT_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace gpt_cuda {

/* Two floats, each rounded to nearest, as a word of two elements. */
template <typename E> __device__ inline uint32_t two_of(float low, float high);
template <> __device__ inline uint32_t two_of<__half>(float low, float high)
{
    __half2 two = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&two);
}
template <> __device__ inline uint32_t two_of<__nv_bfloat16>(float low, float high)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&two);
}

/* The inverse: x is the low half. */
template <typename E> __device__ inline float2 floats_of(uint32_t word);
template <> __device__ inline float2 floats_of<__half>(uint32_t word)
{
    return __half22float2(*reinterpret_cast<__half2 *>(&word));
}
template <> __device__ inline float2 floats_of<__nv_bfloat16>(uint32_t word)
{
    return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&word));
}

/* d += a * b */
template <typename E> __device__ inline void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ inline void mma_16x8x16<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ inline void mma_16x8x16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Load 4 (or 2) matrices of 8x8 elements from shared memory. Lane i gives the address, 16-byte
 * aligned, of row i % 8 of matrix i / 8 (for 2 matrices lanes from 16 on give any readable
 * address). to[m] becomes, of matrix m, columns 2c and 2c+1 of row r; transposed: rows 2c and 2c+1
 * of column r. */
__device__ inline void load_matrices(uint32_t (&to)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
__device__ inline void load_matrices(uint32_t (&to)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Start copying BYTES (4, 8 or 16, to which both addresses are aligned) from global to shared
 * memory; if not valid, nothing is read and zeros are stored. Each lane copies for itself. The
 * caller can read the bytes after a commit and a wait, the block after a barrier that follows
 * these. */
template <int BYTES> __device__ inline void copy_async(void *to, const void *from, bool valid)
{
    static_assert(BYTES == 4 || BYTES == 8, "16 has its own");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "n"(BYTES),
                 "r"(valid ? BYTES : 0)
                 : "memory");
}
template <> __device__ inline void copy_async<16>(void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

/* All copies that this thread has started since the last commit become one group. */
__device__ inline void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until at most the PENDING newest groups of this thread have not ended. */
template <int PENDING> __device__ inline void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* 2^x with an error of about 2 units in the last place, denormals as zero; 2^-infinity is 0. */
__device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

} // namespace gpt_cuda

#endif
