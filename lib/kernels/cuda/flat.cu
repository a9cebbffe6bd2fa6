/* Kernels over arrays without rows: initial weights, sums, fills. Each is limited by the bytes that
 * it reads and writes, divided by the memory's bandwidth; no other limit is near. */
#include "lib/kernels/cuda/map.cuh"

#define DT_HOST_DEVICE __host__ __device__
#include "lib/base/random.h"

namespace {

using namespace dt_cuda;

enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 16 };

struct add_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float to, float from)
    {
        return to + from;
    }
};

template <typename To, typename From, int N, bool ADDS>
__global__ void __launch_bounds__(THREADS) convert_kernel(To *to, const From *from, size_t count)
{
    wait_for_earlier();
    size_t first = blockIdx.x * (size_t)THREADS + threadIdx.x, stride = gridDim.x * (size_t)THREADS;
    for (size_t i = first; i < count / N; i += stride) {
        pack<From, N> x = load_pack<N>(from + i * N);
        pack<To, N> y;
        if (ADDS)
            y = load_pack<N>(to + i * N);
        for (int j = 0; j < N; j++)
            y.at[j] = from_float<To>(to_float(x.at[j]) + (ADDS ? to_float(y.at[j]) : 0.0f));
        store_pack<N>(to + i * N, y);
    }
    for (size_t i = count / N * N + first; i < count; i += stride)
        to[i] = from_float<To>(to_float(from[i]) + (ADDS ? to_float(to[i]) : 0.0f));
}

template <typename E, int N> __global__ void __launch_bounds__(THREADS) fill_kernel(E *to, size_t count, float value)
{
    wait_for_earlier();
    size_t first = blockIdx.x * (size_t)THREADS + threadIdx.x, stride = gridDim.x * (size_t)THREADS;
    pack<E, N> all;
    for (int i = 0; i < N; i++)
        all.at[i] = from_float<E>(value);
    for (size_t i = first; i < count / N; i += stride)
        store_pack<N>(to + i * N, all);
    for (size_t i = count / N * N + first; i < count; i += stride)
        to[i] = all.at[0];
}

/* Runs in one block. */
enum { SUM_THREADS = 512 };
__global__ void __launch_bounds__(SUM_THREADS) add_sum_kernel(double *to, const double *from, size_t count, float scale)
{
    wait_for_earlier();
    __shared__ double warps[32];
    double sum = 0.0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        sum += from[i];
    sum = block_sum(sum, warps);
    if (threadIdx.x == 0)
        *to += sum * scale;
}

/* ---- random weights (lib/base/random.h) ---- */

/* Two normal deviates from two words, in fp32, correct to a few units in the last place. Near 1 the
 * logarithm is computed from the distance to 1, and the angle is reduced to [-pi/4, pi/4] as an
 * integer, because a float of either word would lose the low bits that matter. */
__device__ inline void normal_pair(uint32_t first, uint32_t second, float pair[2])
{
    float logarithm = first >> 31 ? log1pf((float)~first * -0x1p-32f) : logf(((float)first + 1.0f) * 0x1p-32f);
    float radius = sqrtf(-2.0f * logarithm), sine, cosine;
    uint32_t quarter = (second + 0x20000000u) >> 30;
    sincospif((float)(int32_t)(second - (quarter << 30)) * 0x1p-31f, &sine, &cosine);
    float x = quarter % 2 ? -sine : cosine, y = quarter % 2 ? cosine : sine;
    pair[0] = quarter / 2 ? -radius * x : radius * x;
    pair[1] = quarter / 2 ? -radius * y : radius * y;
}

/* The elements to make: `runs` of run_elems elements, without the first `skipped`. */
struct random_runs {
    uint64_t first_element;
    size_t count, runs, run_elems, skipped, stride_elems;

    /* Philox calls that a run may need: it may begin and end inside of one. */
    __host__ __device__ size_t blocks() const
    {
        return run_elems / 4 + 2;
    }
};

/* A thread makes the four elements of one Philox call. */
template <typename E>
__global__ void __launch_bounds__(THREADS) draw_kernel(E *to, random_runs r, uint64_t seed, uint32_t tensor_id, bool uniform, float scale)
{
    wait_for_earlier();
    size_t blocks = r.blocks();
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < r.runs * blocks; i += gridDim.x * (size_t)THREADS) {
        size_t run = i / blocks;
        uint64_t begin = r.first_element + run * r.stride_elems, block = begin / 4 + i % blocks;
        struct dt_philox random =
            dt_philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
        float values[4];
        normal_pair(random.word[0], random.word[1], values);
        normal_pair(random.word[2], random.word[3], values + 2);
        for (int j = 0; j < 4; j++) {
            if (uniform)
                values[j] = (float)(int32_t)random.word[j] * 0x1p-31f;
            uint64_t element = block * 4 + j, in_run = element - begin, place = run * r.run_elems + in_run - r.skipped;
            if (element >= begin && in_run < r.run_elems && place < r.count) /* for skipped elements the unsigned difference wraps round */
                to[place] = from_float<E>(values[j] * scale);
        }
    }
}

} // namespace

extern "C" dt_status dt_cuda_add(struct dt_kernels *k, struct dt_stream *stream, bool /* on_host */, void *to, const void *from,
                                 size_t count)
{
    return map<add_op>("add", k, stream, to, from, count);
}

template <bool ADDS, typename To, typename From>
static dt_status convert(const char *name, struct dt_kernels *k, struct dt_stream *stream, To *to, const From *from, size_t count)
{
    constexpr int N = 4; /* 16 bytes of the fp32 side */
    bool fits = packs_fit<To, N>(0, {to}) && packs_fit<From, N>(0, {from});
    unsigned blocks = blocks_for(k->multiprocessors, count / (fits ? N : 1) + 1, THREADS, BLOCKS_PER_MULTIPROCESSOR);
    return launch(name, fits ? convert_kernel<To, From, N, ADDS> : convert_kernel<To, From, 1, ADDS>, dim3(blocks), dim3(THREADS), 0,
                  stream, to, from, count);
}

extern "C" dt_status dt_cuda_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                                     enum dt_dtype from_dtype, size_t count)
{
    bool widens = to_dtype == DT_FP32;
    return for_dtype(widens ? from_dtype : to_dtype, [&]<typename E>() {
        return widens ? convert<false>("widen", k, stream, (float *)to, (const E *)from, count)
                      : convert<false>("narrow", k, stream, (E *)to, (const float *)from, count);
    });
}

extern "C" dt_status dt_cuda_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool /* on_host */, float *to, enum dt_dtype dtype,
                                      const void *from, size_t count)
{
    return for_dtype(dtype, [&]<typename E>() { return convert<true>("add", k, stream, to, (const E *)from, count); });
}

extern "C" dt_status dt_cuda_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    return for_packs(k->dtype, 0, {to}, [&]<typename E, int N>() {
        unsigned blocks = blocks_for(k->multiprocessors, count / N + 1, THREADS, BLOCKS_PER_MULTIPROCESSOR);
        return launch("fill", fill_kernel<E, N>, dim3(blocks), dim3(THREADS), 0, stream, (E *)to, count, value);
    });
}

extern "C" dt_status dt_cuda_draw(struct dt_kernels *k, struct dt_stream *stream, const struct dt_initial *a)
{
    if (a->count == 0)
        return DT_OK;
    size_t run_elems = a->run_elems ? a->run_elems : a->run_done + a->count, runs = (a->run_done + a->count - 1) / run_elems + 1;
    random_runs r = {a->first_element, a->count, runs, run_elems, a->run_done, a->stride_elems};
    return for_dtype(k->dtype, [&]<typename E>() {
        unsigned blocks = blocks_for(k->multiprocessors, r.runs * r.blocks(), THREADS, BLOCKS_PER_MULTIPROCESSOR);
        return launch("initial weights", draw_kernel<E>, dim3(blocks), dim3(THREADS), 0, stream, (E *)a->to, r, a->seed, a->tensor_id,
                      a->init == DT_INIT_UNIFORM, a->scale);
    });
}

extern "C" dt_status dt_cuda_add_sum(struct dt_stream *stream, double *to, const double *from, size_t count, float scale)
{
    return launch("sum", add_sum_kernel, dim3(1), dim3(SUM_THREADS), 0, stream, to, from, count, scale);
}
