/* The emulated GPU's executor: that right kernels give the right result whatever the order, and
 * that wrong ones are found out. */
#include "device_side.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "gpt/cuda/mma.cuh"
#include "gpt/cuda/wgmma.cuh"

extern "C" {
#include "test/check.h"
}

#include <vector>

extern "C" __attribute__((weak)) const char simt_checks_alignment; /* alignment.cpp */

namespace {

enum { ROUNDS = 8 };

/* A launch that must go well. */
void launch(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()> &kernel)
{
    std::string problem = simt::run({"kernel", blocks, threads, shared_bytes}, kernel);
    CHECK(problem.empty(), "%s", problem.c_str());
}

/* A launch whose mistake must be found, and said with these words. */
#define CHECK_FOUND(blocks, threads, shared_bytes, words, ...)                                                                             \
    do {                                                                                                                                   \
        std::string found_ = simt::run({"broken", blocks, threads, shared_bytes}, __VA_ARGS__);                                            \
        CHECK(found_.find(words) != std::string::npos && found_.find("broken") != std::string::npos, "found: \"%s\"", found_.c_str());     \
    } while (0)

void every_thread_once()
{
    dim3 blocks(3, 2, 4), threads(5, 3, 2);
    std::vector<int> count(3 * 2 * 4 * 5 * 3 * 2);
    launch(blocks, threads, 0, [&] {
        unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        count[block * 30 + thread]++;
    });
    for (int c : count)
        CHECK(c == 1);
}

/* Sums a block's numbers through static shared memory; without its barriers it is wrong in some
 * order. */
template <bool BARRIERS> __global__ void tree_sum(const int *from, int *to)
{
    __shared__ int part[128];
    int t = (int)threadIdx.x;
    part[t] = from[blockIdx.x * 128 + t];
    for (int half = 64; half > 0; half /= 2) {
        if (BARRIERS)
            __syncthreads();
        if (t < half)
            part[t] += part[t + half];
    }
    if (t == 0)
        to[blockIdx.x] = part[0];
}

template <bool BARRIERS> int wrong_sums()
{
    std::vector<int> from(128 * ROUNDS), to(ROUNDS);
    int wrong = 0;
    for (size_t i = 0; i < from.size(); i++)
        from[i] = (int)(i * i % 1000);
    launch(ROUNDS, 128, 0, [&] { tree_sum<BARRIERS>(from.data(), to.data()); });
    for (int b = 0; b < ROUNDS; b++) {
        int want = 0;
        for (int i = 0; i < 128; i++)
            want += from[(size_t)(b * 128 + i)];
        wrong += to[(size_t)b] != want;
    }
    return wrong;
}

void barriers()
{
    CHECK(wrong_sums<true>() == 0);
}

void missing_barriers_show()
{
    CHECK(wrong_sums<false>() > 0);
}

/* One barrier a round: a warp that is ahead writes while another still reads what the round before
 * left, unless rounds take turns between two buffers. */
int wrong_rounds(int buffers)
{
    int wrong = 0;
    launch(ROUNDS, 128, 0, [&] {
        __shared__ int last[2];
        for (int round = 0; round < 4; round++) {
            if (threadIdx.x == 127)
                last[round % buffers] = round;
            __syncthreads();
            wrong += last[round % buffers] != round;
        }
    });
    return wrong;
}

void warps_run_ahead()
{
    CHECK(wrong_rounds(2) == 0);
    CHECK(wrong_rounds(1) > 0);
}

void shared_memory_is_poisoned()
{
    int poisoned = 0;
    launch(3, 64, 64 * sizeof(float), [&] {
        __shared__ float of_block[64];
        float *dynamic = (float *)simt::dynamic_shared();
        poisoned += isnan(of_block[threadIdx.x]) && isnan(dynamic[threadIdx.x]);
        of_block[threadIdx.x] = dynamic[threadIdx.x] = 1;
    });
    CHECK(poisoned == 3 * 64, "%d", poisoned);
}

void returned_threads_do_not_count()
{
    int passed = 0;
    launch(1, 96, 0, [&] {
        if (threadIdx.x >= 40)
            return;
        __syncthreads();
        passed++;
        __syncthreads();
        if (threadIdx.x == 7)
            return;
        passed += __popc(__ballot_sync(0xffffffffu, 1)) == (threadIdx.x < 32 ? 31 : 8);
    });
    CHECK(passed == 40 + 39, "%d", passed);
}

void stuck_barriers_are_found()
{
    CHECK_FOUND(2, 64, 0, "33 wait at __syncthreads", [] {
        if (threadIdx.x > 30)
            __syncthreads();
        else
            __syncwarp(0x80000000u | 1u << threadIdx.x);
    });
    CHECK_FOUND(1, 64, 0, "leaves itself out", [] { __shfl_sync(1, 0, 0); });
    CHECK_FOUND(1, 32, 0, "masks differ", [] { __shfl_sync(threadIdx.x < 16 ? 0xffffu : 0xffffffffu, 0, 0); });
    CHECK_FOUND(1, 32, 0, "of its warp is at", [] {
        if (threadIdx.x % 2)
            __syncwarp();
        else
            __shfl_sync(0xffffffffu, 0, 0);
    });
}

void shared_memory_ends()
{
    CHECK_FOUND(1, 32, 64, "past its 64 bytes", [] { ((int *)simt::dynamic_shared())[threadIdx.x] = 1; });
}

void misaligned_accesses()
{
    alignas(16) float some[8] = {};
    if (!&simt_checks_alignment)
        SKIP("the sanitizer of this build finds them itself");
    CHECK_FOUND(1, 1, 0, "multiple of 16", [&] {
        float4 *volatile at = (float4 *)(some + 1);
        *at = make_float4(1, 2, 3, 4);
    });
}

void impossible_launches()
{
    CHECK_FOUND(1, 1025, 0, "1025 threads", [] {});
    CHECK_FOUND(dim3(1, 65536), 32, 0, "65536", [] {});
    CHECK_FOUND(0, 32, 0, "blocks", [] {});
    CHECK_FOUND(1, 32, 1 << 20, "shared memory", [] {});
}

void shuffles()
{
    int right = 0;
    launch(1, 64, 0, [&] {
        int lane = (int)threadIdx.x % 32;
        bool good = __shfl_sync(0xffffffffu, lane * 3, 5) == 15;
        good &= __shfl_sync(0xffffffffu, lane, 2, 8) == lane / 8 * 8 + 2;
        good &= __shfl_xor_sync(0xffffffffu, (double)lane, 16) == (lane ^ 16);
        good &= __shfl_up_sync(0xffffffffu, lane, 3) == (lane < 3 ? lane : lane - 3);
        good &= __shfl_down_sync(0xffffffffu, lane, 3, 16) == (lane % 16 > 12 ? lane : lane + 3);
        good &= __ballot_sync(0xffffffffu, lane % 3 == 0) == 0x49249249u;
        good &= __any_sync(0xffffffffu, lane == 9) && !__any_sync(0xffffffffu, 0);
        good &= !__all_sync(0xffffffffu, lane != 9) && __all_sync(0xffffffffu, 1);
        /* half a warp by itself */
        if (lane < 16)
            good &= __shfl_xor_sync(0xffffu, lane, 1) == (lane ^ 1);
        right += good;
    });
    CHECK(right == 64, "%d", right);
}

void lanes_that_are_missing_give_poison()
{
    int poisoned = 0;
    launch(1, 20, 0, [&] { poisoned += __shfl_sync(0xffffffffu, 1, 25) == -1; });
    CHECK(poisoned == 20);
}

void atomics()
{
    float sum = 0;
    double wide = 0;
    int most = 0;
    unsigned long long count = 0;
    launch(7, 100, 0, [&] {
        atomicAdd(&sum, 1.0f);
        atomicAdd(&wide, 0.5);
        atomicMax(&most, (int)threadIdx.x);
        atomicAdd(&count, 1ull);
    });
    CHECK(sum == 700 && wide == 350 && most == 99 && count == 700);
}

/* Every 16-bit pattern there and back; every midpoint between two neighbours goes to the even one,
 * what lies next to it does not. */
template <typename E> void check_rounding(unsigned infinite)
{
    for (unsigned bits = 0; bits < infinite; bits++) {
        E low, high;
        low.bits = (unsigned short)bits;
        high.bits = (unsigned short)(bits + 1);
        double middle = bits + 1 == infinite ? 0 : ((double)(float)low + (double)(float)high) / 2;
        CHECK(E((float)low).bits == bits && E(-(float)low).bits == (bits | 0x8000));
        if (middle == 0)
            continue;
        E even = bits % 2 ? high : low;
        CHECK(E((float)middle).bits == even.bits, "%a", middle);
        CHECK(E(nextafterf((float)middle, 0)).bits == low.bits && E(nextafterf((float)middle, INFINITY)).bits == high.bits, "%a", middle);
    }
    CHECK(E(3.4e38f).bits == infinite && E(INFINITY).bits == infinite && isnan((float)E(NAN)) && E(0.0f).bits == 0);
}

void narrow_floats()
{
    check_rounding<__half>(0x7c00);
    check_rounding<__nv_bfloat16>(0x7f80);
    CHECK((float)__half(65519.0f) == 65504 && isinf((float)__half(65520.0f)));
    CHECK(__half(1.0f).bits == 0x3c00 && __nv_bfloat16(1.0f).bits == 0x3f80 && __half(0x1p-24f).bits == 1);
}

/* a [16, 16] times b [16, 8], from shared memory: a as it lies, b [k][n] transposed on the way, as
 * attention multiplies by v. */
template <typename E> void check_product()
{
    float a[16][16], b[16][8], d[16][8];
    for (int i = 0; i < 256; i++) {
        a[i / 16][i % 16] = (float)(i * 7 % 13) - 6;
        b[i / 8 % 16][i % 8] = (float)(i * 5 % 11) - 4;
    }
    launch(1, 32, 0, [&] {
        __shared__ __align__(16) E left[16][24], right[16][8]; /* rows are padded as kernels do it */
        int lane = (int)threadIdx.x;
        for (int i = lane; i < 256; i += 32)
            left[i / 16][i % 16] = a[i / 16][i % 16];
        for (int i = lane; i < 128; i += 32)
            right[i / 8][i % 8] = b[i / 8][i % 8];
        __syncwarp();
        uint32_t from_a[4], from_b[2];
        float sum[4] = {1, 1, 1, 1};
        gpt_cuda::load_matrices(from_a, &left[lane % 8 + lane / 8 % 2 * 8][lane / 16 * 8]);
        gpt_cuda::load_matrices_transposed(from_b, &right[lane % 16][0]);
        gpt_cuda::mma_16x8x16<E>(sum, from_a, from_b[0], from_b[1]);
        for (int i = 0; i < 4; i++)
            d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sum[i];
    });
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            float want = 1;
            for (int k = 0; k < 16; k++)
                want += a[r][k] * b[k][c];
            CHECK(d[r][c] == want, "row %d column %d: %g, not %g", r, c, d[r][c], want);
        }
}

void products()
{
    check_product<__half>();
    check_product<__nv_bfloat16>();
    CHECK_FOUND(1, 32, 0, "multiple of 16", [] {
        __shared__ __align__(16) __half some[8][10];
        uint32_t to[2];
        gpt_cuda::load_matrices(to, &some[threadIdx.x % 8][0]);
    });
    CHECK_FOUND(1, 31, 0, "all 32 lanes", [] {
        float d[4];
        uint32_t a[4] = {0, 0, 0, 0};
        gpt_cuda::mma_16x8x16<__half>(d, a, 0, 0);
    });
}

/* What was copied is there after the wait for its group, and not before; what is not valid is
 * zero. */
void copies()
{
    alignas(16) float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int right = 0;
    launch(1, 1, 0, [&] {
        __shared__ __align__(16) float to[12];
        gpt_cuda::copy_async<16>(to, from, true);
        gpt_cuda::copy_async_commit();
        gpt_cuda::copy_async<8>(to + 4, from + 4, true);
        gpt_cuda::copy_async<16>(to + 8, from, false);
        gpt_cuda::copy_async_commit();
        right += isnan(to[0]);
        gpt_cuda::copy_async_wait<1>();
        right += to[0] == 1 && to[3] == 4 && isnan(to[4]) && isnan(to[8]);
        gpt_cuda::copy_async_wait<0>();
        right += to[4] == 5 && to[5] == 6 && isnan(to[6]) && to[8] == 0 && to[11] == 0;
    });
    CHECK(right == 3, "%d", right);
    CHECK_FOUND(1, 1, 16, "under way", [&] { gpt_cuda::copy_async<16>(simt::dynamic_shared(), from, true); });
    CHECK_FOUND(1, 1, 32, "multiple of the copy's size", [&] { gpt_cuda::copy_async<16>(simt::dynamic_shared(), from + 1, true); });
}

/* ---- what goes on in the background: barriers, copies of boxes, products of warpgroups ---- */

/* A matrix's descriptor, put together from the manual's table. */
uint64_t described(const void *at, uint64_t leading_bytes, uint64_t stride_bytes, unsigned span)
{
    return gpt_cuda::shared_address(at) / 16 | leading_bytes / 16 << 16 | stride_bytes / 16 << 32 |
           (uint64_t)(span == 128  ? 1
                      : span == 64 ? 2
                                   : 3)
               << 62;
}

/* Dynamic shared memory from a multiple of 1024 on. */
unsigned char *swizzle_base()
{
    unsigned char *at = (unsigned char *)simt::dynamic_shared();
    return at + (1024 - gpt_cuda::shared_address(at) % 1024) % 1024;
}

/* Where the elements of a row `row` of SPAN bytes, swizzled, begin: pieces of 16 bytes change
 * places by the row's number among 8 of 128 bytes. */
unsigned piece_at(unsigned span, unsigned row, unsigned piece)
{
    return row * span + 16 * (piece ^ row * span / 128 % (span / 16));
}

enum { ROOM = 48 << 10 };

/* a [64, 16] in the first 16 columns of rows of SPAN bytes; b [16, N] by its columns, or with
 * n_major by its rows, SPAN / 2 columns after the other. The whole of d against loops. */
template <typename E, int N, int SPAN> void check_warpgroup_product(bool from_registers)
{
    static float a[64][16], b[16][N], d[64][N];
    for (int i = 0; i < 64 * 16; i++)
        a[i / 16][i % 16] = (float)(i * 7 % 13) - 6;
    for (int i = 0; i < 16 * N; i++)
        b[i / N][i % N] = (float)(i * 5 % 11) - 4;
    launch(1, 128, ROOM, [&] {
        unsigned char *left = swizzle_base(), *right = left + 64 * SPAN;
        int t = (int)threadIdx.x, lane = t % 32;
        auto put = [](unsigned char *to, unsigned row, unsigned column, float value) {
            *(E *)(to + piece_at(SPAN, row, column * 2 / 16) + column * 2 % 16) = E(value);
        };
        for (int i = t; i < 64 * 16; i += 128)
            put(left, (unsigned)i / 16, (unsigned)i % 16, a[i / 16][i % 16]);
        for (int i = t; i < 16 * N; i += 128) {
            unsigned k = (unsigned)i / N, n = (unsigned)i % N, across = SPAN / 2;
            if (from_registers)
                put(right + n / across * 16 * SPAN, k, n % across, b[k][n]);
            else
                put(right, n, k, b[k][n]);
        }
        __syncthreads();
        float sum[N / 8][4];
        uint32_t rows[4];
        for (int i = 0; i < N / 2; i++)
            sum[i / 4][i % 4] = 1;
        for (int i = 0; i < 4; i++) {
            int row = t / 32 * 16 + lane / 4 + i % 2 * 8, column = lane % 4 * 2 + i / 2 * 8;
            rows[i] = gpt_cuda::two_of<E>(a[row][column], a[row][column + 1]);
        }
        gpt_cuda::wgmma_fence(sum);
        if (from_registers)
            gpt_cuda::wgmma_registers<E, N>(sum, rows, described(right, 16 * SPAN, 8 * SPAN, SPAN));
        else
            gpt_cuda::wgmma_shared<E, N>(sum, described(left, 16, 8 * SPAN, SPAN), described(right, 16, 8 * SPAN, SPAN), true);
        gpt_cuda::wgmma_commit();
        CHECK(isnan(sum[0][0]));
        gpt_cuda::wgmma_wait<0>(sum);
        for (int i = 0; i < N / 2; i++)
            d[t / 32 * 16 + lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = sum[i / 4][i % 4];
    });
    int wrong = 0;
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < N; c++) {
            float want = 1;
            for (int k = 0; k < 16; k++)
                want += a[r][k] * b[k][c];
            wrong += d[r][c] != want;
        }
    CHECK(wrong == 0, "N %d, span %d, left operand in %s: %d wrong", N, SPAN, from_registers ? "registers" : "shared memory", wrong);
}

void warpgroup_products()
{
    for (bool from_registers : {false, true}) {
        check_warpgroup_product<__half, 64, 128>(from_registers);
        check_warpgroup_product<__nv_bfloat16, 80, 32>(from_registers);
        check_warpgroup_product<__half, 96, 64>(from_registers);
        check_warpgroup_product<__nv_bfloat16, 128, 128>(from_registers);
    }
}

/* A product of zeros, with one mistake. */
enum class mistake { no_fence, no_wait, touched, operand_changed, registers_changed, other_products, base_offset, misplaced };

template <mistake WHICH> void faulty_product()
{
    unsigned char *at = swizzle_base();
    float sum[8][4] = {};
    uint32_t rows[4] = {0, 0, 0, 0};
    for (unsigned i = threadIdx.x; i < 8192; i += 128)
        at[i] = 0;
    __syncthreads();
    uint64_t b = described(at, 16, 1024, 128);
    if (WHICH == mistake::base_offset)
        b |= (uint64_t)1 << 49;
    if (WHICH == mistake::misplaced)
        b += 128 / 16;
    if (WHICH != mistake::no_fence)
        gpt_cuda::wgmma_fence(sum);
    if (WHICH != mistake::other_products || threadIdx.x < 96)
        gpt_cuda::wgmma_registers<__half, 64>(sum, rows, b);
    gpt_cuda::wgmma_commit();
    if (WHICH == mistake::registers_changed)
        rows[1]++;
    if (WHICH == mistake::operand_changed && threadIdx.x == 0)
        at[5] = 1;
    if (WHICH == mistake::touched)
        sum[1][2] = 0;
    if (WHICH != mistake::no_wait)
        gpt_cuda::wgmma_wait<0>(sum, rows);
}

void mistakes_around_products()
{
    CHECK_FOUND(1, 128, ROOM, "without a fence", faulty_product<mistake::no_fence>);
    CHECK_FOUND(1, 128, ROOM, "under way", faulty_product<mistake::no_wait>);
    CHECK_FOUND(1, 128, ROOM, "wrote to accumulators", faulty_product<mistake::touched>);
    CHECK_FOUND(1, 128, ROOM, "has changed", faulty_product<mistake::operand_changed>);
    CHECK_FOUND(1, 128, ROOM, "registers of a left operand", faulty_product<mistake::registers_changed>);
    CHECK_FOUND(1, 128, ROOM, "called different products", faulty_product<mistake::other_products>);
    CHECK_FOUND(1, 128, ROOM, "base offset", faulty_product<mistake::base_offset>);
    CHECK_FOUND(1, 128, ROOM, "first of eight rows", faulty_product<mistake::misplaced>);
}

enum { BOX_ROWS = 8, TENSOR_ROWS = 11 };

CUresult map_of(CUtensorMap *map, const uint16_t *from, cuuint64_t row_bytes, cuuint32_t box_columns, CUtensorMapSwizzle swizzle)
{
    cuuint64_t sizes[] = {40, 3, TENSOR_ROWS, 2}, strides[] = {80, row_bytes, row_bytes * TENSOR_ROWS};
    cuuint32_t box[] = {box_columns, 1, BOX_ROWS, 1}, steps[] = {1, 1, 1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)from, sizes, strides, box, steps,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Boxes of a tensor [2, 11, 3, 40] that end within it, and past it: what is there after the wait,
 * and that it is not there before. */
void boxes()
{
    alignas(16) static uint16_t from[2 * TENSOR_ROWS * 3 * 40];
    for (unsigned i = 0; i < sizeof from / sizeof *from; i++)
        from[i] = (uint16_t)(i + 1);
    CUtensorMap map;
    CHECK(map_of(&map, from + 1, 240, 32, CU_TENSOR_MAP_SWIZZLE_64B) != CUDA_SUCCESS, "an address that is not a multiple of 16");
    CHECK(map_of(&map, from, 248, 32, CU_TENSOR_MAP_SWIZZLE_64B) != CUDA_SUCCESS, "a stride that is not a multiple of 16");
    CHECK(map_of(&map, from, 240, 32, CU_TENSOR_MAP_SWIZZLE_32B) != CUDA_SUCCESS, "a box wider than its swizzle");
    CHECK(map_of(&map, from, 240, 32, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_SUCCESS);
    int wrong = 0, early = 0;
    launch(1, 64, ROOM, [&] {
        unsigned char *to = swizzle_base();
        uint64_t *barrier = (uint64_t *)(to + 4096);
        if (threadIdx.x == 0) {
            gpt_cuda::barrier_init(barrier, 1);
            gpt_cuda::barrier_init_fence();
        }
        __syncthreads();
        for (int round = 0; round < 3; round++) {
            int x = round * 16, row = round * 4;
            if (threadIdx.x == 0) {
                gpt_cuda::barrier_expect(barrier, BOX_ROWS * 64);
                gpt_cuda::copy_box(to, &map, barrier, x, 1, row, 1);
                early += *(uint16_t *)to != 0xFFFF;
            }
            gpt_cuda::barrier_wait(barrier, round & 1);
            for (unsigned i = threadIdx.x; i < BOX_ROWS * 32; i += 64) {
                unsigned r = i / 32, c = i % 32;
                bool inside = row + (int)r < TENSOR_ROWS && x + (int)c < 40;
                uint16_t want = inside ? from[((TENSOR_ROWS + row + (int)r) * 3 + 1) * 40 + x + (int)c] : 0;
                wrong += *(uint16_t *)(to + piece_at(64, r, c / 8) + c % 8 * 2) != want;
            }
            __syncthreads();
        }
    });
    CHECK(wrong == 0 && early == 0, "%d wrong, %d early", wrong, early);
    auto one = [&](bool fenced, bool expected, int offset, int arrivals) {
        unsigned char *to = swizzle_base();
        uint64_t *barrier = (uint64_t *)(to + 4096);
        gpt_cuda::barrier_init(barrier, arrivals);
        if (fenced)
            gpt_cuda::barrier_init_fence();
        if (expected)
            gpt_cuda::barrier_expect(barrier, BOX_ROWS * 64);
        gpt_cuda::copy_box(to + offset, &map, barrier, 0, 0, 0, 0);
        gpt_cuda::barrier_wait(barrier, 0);
    };
    launch(1, 1, ROOM, [&] { one(true, true, 0, 1); });
    CHECK_FOUND(1, 1, ROOM, "not fenced", [&] { one(false, true, 0, 1); });
    CHECK_FOUND(1, 1, ROOM, "at a barrier in shared memory", [&] { one(true, false, 0, 1); });
    CHECK_FOUND(1, 1, ROOM, "at a barrier in shared memory", [&] { one(true, true, 0, 2); });
    CHECK_FOUND(1, 1, ROOM, "multiple of 128", [&] { one(true, true, 64, 1); });
    CHECK_FOUND(1, 1, ROOM, "not initialised", [] { gpt_cuda::barrier_wait((uint64_t *)swizzle_base(), 0); });
    CHECK_FOUND(1, 1, ROOM, "written over", [] {
        uint64_t *barrier = (uint64_t *)swizzle_base();
        gpt_cuda::barrier_init(barrier, 1);
        *barrier = 7;
        gpt_cuda::barrier_arrive(barrier);
    });
    CHECK_FOUND(1, 1, ROOM, "ended while copies", [&] {
        uint64_t *barrier = (uint64_t *)(swizzle_base() + 4096);
        gpt_cuda::barrier_init(barrier, 1);
        gpt_cuda::barrier_init_fence();
        gpt_cuda::barrier_expect(barrier, BOX_ROWS * 64);
        gpt_cuda::copy_box(swizzle_base(), &map, barrier, 0, 0, 0, 0);
    });
}

} // namespace

static const struct test_case cases[] = {
    {"every thread of every block runs once", every_thread_once},
    {"barriers", barriers},
    {"a missing barrier shows", missing_barriers_show},
    {"a warp that runs ahead shows", warps_run_ahead},
    {"shared memory is poisoned for each block", shared_memory_is_poisoned},
    {"threads that returned do not count", returned_threads_do_not_count},
    {"barriers that nobody can pass are reported", stuck_barriers_are_found},
    {"writing past dynamic shared memory is reported", shared_memory_ends},
    {"misaligned accesses are reported", misaligned_accesses},
    {"launches that a GPU would refuse", impossible_launches},
    {"shuffles and votes", shuffles},
    {"lanes that are not there give poison", lanes_that_are_missing_give_poison},
    {"atomics", atomics},
    {"fp16 and bf16 round to nearest, ties to even", narrow_floats},
    {"products of tiles, and loads of their operands", products},
    {"copies into shared memory in the background", copies},
    {"products of warpgroups", warpgroup_products},
    {"mistakes around products of warpgroups", mistakes_around_products},
    {"copies of boxes, and barriers in shared memory", boxes},
};
TEST_MAIN(cases)
