/* The emulated GPU's executor: that right kernels give the right result whatever the order, and that wrong ones are found out. */
#include "device_side.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "gpt/cuda/mma.cuh"

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

/* Sums a block's numbers through static shared memory; without its barriers it is wrong in some order. */
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

/* One barrier a round: a warp that is ahead writes while another still reads what the round before left, unless rounds take turns between
 * two buffers. */
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

/* Every 16-bit pattern there and back; every midpoint between two neighbours goes to the even one, what lies next to it does not. */
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

/* a [16, 16] times b [16, 8], from shared memory: a as it lies, b [k][n] transposed on the way, as attention multiplies by v. */
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

/* What was copied is there after the wait for its group, and not before; what is not valid is zero. */
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
};
TEST_MAIN(cases)
