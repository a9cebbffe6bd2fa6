/* Hopper's instructions for products, as plain device functions, one for each PTX instruction:
 * asynchronous products of a warpgroup, copies of boxes of a tensor to shared memory by one thread,
 * and barriers in shared memory that signal the end of such a copy. They are of sm_90a, which only
 * Hopper runs.
 *
 * A warpgroup is four warps, the first of which has a number divisible by four. Its warp w has rows
 * 16 w to 16 w + 15 of an operand or a result [64, ...], in the layouts of mma.cuh: a [64, 16] in
 * registers, and accumulators d [64, N], where d[i] has columns 8 i to 8 i + 7. All 128 threads
 * make the same calls with the same descriptors.
 *
 * A descriptor gives the place of a matrix in shared memory, in rows of SPAN bytes (32, 64 or 128)
 * in which pieces of 16 bytes are swizzled:
 *   bits 0 to 13   address / 16
 *   bits 16 to 29  leading offset / 16
 *   bits 32 to 45  stride / 16
 *   bits 49 to 51  base offset: 0 if matrices begin at multiples of 8 SPAN
 *   bits 62, 63    1: SPAN 128, 2: 64, 3: 32
 * K-major (of wgmma_shared): a row of the matrix for each row, its k in order; stride: from 8 rows
 * to the next 8; leading offset: not used. N-major (b of wgmma_registers and wgmma_shared_n_major):
 * a row of memory for each k; stride: from 8 k to the next 8; leading offset: from SPAN / 2 columns
 * to the next. Address bits from 4 on are swizzled with bits from 7 on: one bit for a SPAN of 32,
 * two for 64, three for 128. The boxes' copies do the same.
 *
 * Order: a fence; products; a commit, which makes them a group; a wait. Until then nothing else may
 * use the accumulators, and the registers that products read.
 *
 * Source  PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions",
 *         "Strides" and "Matrix Descriptor Format" there, "mbarrier", "cp.async.bulk.tensor"; CUDA
 *         Driver API, "Tensor Map Object Management".
 *
 * The tests have a file with the same name that does the same on a CPU (test/cuda_emulator). */
#ifndef GPT_CUDA_WGMMA_CUH
#define GPT_CUDA_WGMMA_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace gpt_cuda {

/* The address in shared memory of a pointer into it. */
__device__ inline uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* ---- barriers: 8 bytes of shared memory, 8-byte aligned ---- */

/* A phase ends when `count` threads have arrived and all expected bytes have been copied. */
__device__ inline void barrier_init(uint64_t *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

/* Copies can use barriers that the caller has initialised after this; the block's threads after
 * __syncthreads. */
__device__ inline void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* Arrive; this phase also waits until this number of bytes has been copied. */
__device__ inline void barrier_expect(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

/* Wait for the end of the phase of this parity: 0 for the first one, 1 for the second, and so
 * on. */
__device__ inline void barrier_wait(uint64_t *barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}\n" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* ---- copies ---- */

/* Start copying the box whose first element is at these coordinates, innermost dimension first, to
 * a 128-byte aligned address in shared memory; elements outside of the tensor are zeros. The
 * barrier counts all bytes of the box. One thread calls; the map is a __grid_constant__ argument of
 * the kernel. */
__device__ inline void copy_box(void *to, const CUtensorMap *map, uint64_t *barrier, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier))
                 : "memory");
}

/* ---- registers: a warpgroup releases or takes some, so that each of its threads has COUNT, a
 * multiple of 8 ---- */

template <int COUNT> __device__ inline void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
/* Waits until others have released enough. */
template <int COUNT> __device__ inline void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* ---- products ---- */

/* The compiler does not move accesses to these registers across this place. */
template <int COUNT> __device__ inline void keep_here(float (&d)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
}
template <int COUNT> __device__ inline void keep_here(uint32_t (&a)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
}

/* Products that follow see all writes to these registers, accumulators or left operands, before
 * this. */
template <typename... R> __device__ inline void wgmma_fence(R &...registers)
{
    (keep_here(registers), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait until at most the PENDING newest groups have not ended; these registers belong to none of
 * them. */
template <int PENDING, typename... R> __device__ inline void wgmma_wait(R &...registers)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    (keep_here(registers), ...);
}

/* d [64, N] = a [64, 16] * b [16, N], or with accumulate d += that. wgmma_shared: a and b by
 * descriptors, both K-major; wgmma_shared_n_major: b N-major. wgmma_registers: a in registers, b by
 * a descriptor, N-major. N: 64, 80, 96 or 128. */
template <typename E, int N> struct wgmma_of;
template <typename E, int N> __device__ inline void wgmma_shared(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)
{
    wgmma_of<E, N>::shared(d, a, b, accumulate);
}
template <typename E, int N> __device__ inline void wgmma_shared_n_major(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)
{
    wgmma_of<E, N>::shared_n_major(d, a, b, accumulate);
}
template <typename E, int N> __device__ inline void wgmma_registers(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b)
{
    wgmma_of<E, N>::registers(d, a, b);
}

#define WGMMA_D1(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define WGMMA_D2(i) WGMMA_D1(i), WGMMA_D1(i + 1)
#define WGMMA_D4(i) WGMMA_D2(i), WGMMA_D2(i + 2)
#define WGMMA_D8(i) WGMMA_D4(i), WGMMA_D4(i + 4)
#define WGMMA_64                                                                                                                           \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "   \
    "%28, %29, %30, %31"
#define WGMMA_80 WGMMA_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_96 WGMMA_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_128 WGMMA_96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* The operands after the accumulators have the numbers p to t. */
#define WGMMA_SHARED(name, type, N, list, p, q, r, transposed, ...)                                                                        \
    static __device__ inline void name(float(&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)                                       \
    {                                                                                                                                      \
        asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " r ", 0;\n"                                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" list "}, " p ", " q                              \
                     ", more, 1, 1, 0, " transposed ";\n}"                                                                                 \
                     : __VA_ARGS__                                                                                                         \
                     : "l"(a), "l"(b), "r"((int)accumulate)                                                                                \
                     : "memory");                                                                                                          \
    }
#define WGMMA(E, type, N, list, p, q, r, s, t, ...)                                                                                        \
    template <> struct wgmma_of<E, N> {                                                                                                    \
        WGMMA_SHARED(shared, type, N, list, p, q, r, "0", __VA_ARGS__)                                                                     \
        WGMMA_SHARED(shared_n_major, type, N, list, p, q, r, "1", __VA_ARGS__)                                                             \
        static __device__ inline void registers(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b)                                  \
        {                                                                                                                                  \
            asm volatile("{\n.reg .pred more;\nsetp.eq.b32 more, 0, 0;\n"                                                                  \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" list "}, {" p ", " q ", " r ", " s "}, " t   \
                         ", more, 1, 1, 1;\n}"                                                                                             \
                         : __VA_ARGS__                                                                                                     \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                                              \
                         : "memory");                                                                                                      \
        }                                                                                                                                  \
    };
#define WGMMA_OF_ALL_WIDTHS(E, type)                                                                                                       \
    WGMMA(E, type, 64, WGMMA_64, "%32", "%33", "%34", "%35", "%36", WGMMA_D8(0))                                                           \
    WGMMA(E, type, 80, WGMMA_80, "%40", "%41", "%42", "%43", "%44", WGMMA_D8(0), WGMMA_D2(8))                                              \
    WGMMA(E, type, 96, WGMMA_96, "%48", "%49", "%50", "%51", "%52", WGMMA_D8(0), WGMMA_D4(8))                                              \
    WGMMA(E, type, 128, WGMMA_128, "%64", "%65", "%66", "%67", "%68", WGMMA_D8(0), WGMMA_D8(8))
WGMMA_OF_ALL_WIDTHS(__half, "f16")
WGMMA_OF_ALL_WIDTHS(__nv_bfloat16, "bf16")
#undef WGMMA_OF_ALL_WIDTHS
#undef WGMMA
#undef WGMMA_SHARED

} // namespace gpt_cuda

#endif
