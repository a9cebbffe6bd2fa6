/* Pooling and resampling. A thread computes N adjacent channels of one position. Backward reads all
 * gradients of an element (gather) instead of adding to many elements (scatter), so that one thread
 * computes each element in a fixed order, and rounds once. Floor: the larger side is read or
 * written once. */
#include "vision/cuda/kernels.cuh"

namespace {

using namespace vision_cuda;

/* A thread's place among the positions of images, with N channels each. */
struct spot {
    size_t sample;
    int row, column, channel;
};

template <int N> __device__ inline spot spot_of(size_t i, struct vision_shape s)
{
    int packs = s.channels / N;
    size_t position = i / packs, line = position / s.width;
    return {line / s.height, (int)(line % s.height), (int)(position % s.width), (int)(i % packs) * N};
}

/* Index of the first channel of a position. */
__device__ inline size_t place(struct vision_shape s, size_t sample, int row, int column)
{
    return ((sample * s.height + row) * s.width + column) * s.channels;
}

inline size_t elems(size_t samples, struct vision_shape s)
{
    return samples * vision_shape_elems(s);
}

/* ---- the largest of each window ---- */

template <typename E, int N>
__global__ void __launch_bounds__(THREADS) max_pool_kernel(E *y, uint8_t *places, const E *x, struct vision_sliding o, size_t count)
{
    wait_for_earlier();
    struct vision_window w = o.window;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS) {
        spot at = spot_of<N>(i, o.out);
        float largest[N] = {}, value[N];
        uint8_t chosen[N] = {};
        bool found = false;
        for (int e = 0; e < w.kernel * w.kernel; e++) {
            int row = at.row * w.stride - w.padding + e / w.kernel, column = at.column * w.stride - w.padding + e % w.kernel;
            if (row < 0 || column < 0 || row >= o.in.height || column >= o.in.width)
                continue;
            load_floats<N>(x + place(o.in, at.sample, row, column) + at.channel, value);
#pragma unroll
            for (int j = 0; j < N; j++) {
                bool larger = !found || value[j] > largest[j];
                largest[j] = larger ? value[j] : largest[j];
                chosen[j] = larger ? (uint8_t)e : chosen[j];
            }
            found = true;
        }
        size_t to = place(o.out, at.sample, at.row, at.column) + at.channel;
        store_floats<N>(y + to, largest);
#pragma unroll
        for (int j = 0; j < N; j++)
            places[to + j] = chosen[j];
    }
}

/* The windows that contain position i along one side of the image. */
struct range {
    int first, last;
};

__device__ inline range windows_with(int i, int windows, const struct vision_window &w)
{
    int least = i + w.padding - w.kernel + 1, last = (i + w.padding) / w.stride;
    return {least <= 0 ? 0 : (least + w.stride - 1) / w.stride, last < windows - 1 ? last : windows - 1};
}

template <typename E, int N>
__global__ void __launch_bounds__(THREADS)
    max_pool_gradient_kernel(E *dx, const E *dy, const uint8_t *places, struct vision_sliding o, size_t count)
{
    wait_for_earlier();
    struct vision_window w = o.window;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS) {
        spot at = spot_of<N>(i, o.in);
        range rows = windows_with(at.row, o.out.height, w), columns = windows_with(at.column, o.out.width, w);
        float sums[N] = {}, value[N];
        for (int p = rows.first; p <= rows.last; p++)
            for (int q = columns.first; q <= columns.last; q++) {
                int mine = (at.row + w.padding - p * w.stride) * w.kernel + at.column + w.padding - q * w.stride;
                size_t from = place(o.out, at.sample, p, q) + at.channel;
                load_floats<N>(dy + from, value);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sums[j] += places[from + j] == mine ? value[j] : 0.0f;
            }
        store_floats<N>(dx + place(o.in, at.sample, at.row, at.column) + at.channel, sums);
    }
}

/* ---- the mean of all positions ---- */

enum { POOL_LANES = 32, POOL_ROWS = 8 };

/* Block (POOL_LANES, POOL_ROWS): POOL_LANES channels of sample blockIdx.x; its threads read every
 * POOL_ROWS-th position. */
template <typename E>
__global__ void __launch_bounds__(POOL_LANES *POOL_ROWS) mean_pool_kernel(E *to, const E *from, size_t positions, size_t channels)
{
    wait_for_earlier();
    auto parts = dynamic_shared<float[POOL_LANES]>(); /* [POOL_ROWS] */
    size_t channel = blockIdx.y * (size_t)POOL_LANES + threadIdx.x, sample = blockIdx.x;
    float sum = 0;
    if (channel < channels) {
#pragma unroll 4
        for (size_t p = threadIdx.y; p < positions; p += POOL_ROWS)
            sum += to_float(from[(sample * positions + p) * channels + channel]);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || channel >= channels)
        return;
    for (int y = 1; y < POOL_ROWS; y++)
        sum += parts[y][threadIdx.x];
    to[sample * channels + channel] = from_float<E>(sum / (float)positions);
}

template <typename E, int N>
__global__ void __launch_bounds__(THREADS)
    mean_pool_gradient_kernel(E *to, const E *from, size_t positions, size_t channels, float part, size_t count)
{
    wait_for_earlier();
    size_t packs = channels / N;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS) {
        float value[N];
        load_floats<N>(from + i / packs / positions * channels + i % packs * N, value);
#pragma unroll
        for (int j = 0; j < N; j++)
            value[j] *= part;
        store_floats<N>(to + i * N, value);
    }
}

/* ---- bilinear resampling ---- */

/* Position i of a side of `out` is between two positions of `in`: the second has the weight
 * `second`, the first 1 - second. */
struct between {
    int first, last;
    float second;
};

__device__ inline between between_of(int i, int in, int out)
{
    float place = fmaxf(((float)i + 0.5f) * ((float)in / (float)out) - 0.5f, 0.0f);
    int first = (int)place < in - 1 ? (int)place : in - 1;
    return {first, first < in - 1 ? first + 1 : first, place - (float)first};
}

template <typename E, int N>
__global__ void __launch_bounds__(THREADS)
    resize_kernel(E *to, const E *from, struct vision_shape in, struct vision_shape out, size_t count)
{
    wait_for_earlier();
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS) {
        spot at = spot_of<N>(i, out);
        between rows = between_of(at.row, in.height, out.height), columns = between_of(at.column, in.width, out.width);
        float sums[N] = {}, value[N];
#pragma unroll
        for (int corner = 0; corner < 4; corner++) {
            bool down = corner / 2, right = corner % 2;
            float part = (down ? rows.second : 1 - rows.second) * (right ? columns.second : 1 - columns.second);
            load_floats<N>(from + place(in, at.sample, down ? rows.last : rows.first, right ? columns.last : columns.first) + at.channel,
                           value);
#pragma unroll
            for (int j = 0; j < N; j++)
                sums[j] += value[j] * part;
        }
        store_floats<N>(to + place(out, at.sample, at.row, at.column) + at.channel, sums);
    }
}

/* The weight of position i of `in` in position p of `out`. */
__device__ inline float part_of(int i, int p, int in, int out)
{
    between b = between_of(p, in, out);
    return (b.first == i ? 1 - b.second : 0.0f) + (b.last == i ? b.second : 0.0f);
}

/* The positions of `out` in which position i of `in` may have a weight. */
__device__ inline range reach(int i, int in, int out)
{
    float scale = (float)out / (float)in;
    int low = (int)floorf(((float)i - 0.5f) * scale) - 1, high = (int)ceilf(((float)i + 1.5f) * scale);
    return {low > 0 ? low : 0, high < out - 1 ? high : out - 1};
}

template <typename E, int N>
__global__ void __launch_bounds__(THREADS)
    resize_gradient_kernel(E *to, const E *from, struct vision_shape in, struct vision_shape out, size_t count)
{
    wait_for_earlier();
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (size_t)THREADS) {
        spot at = spot_of<N>(i, in);
        range rows = reach(at.row, in.height, out.height), columns = reach(at.column, in.width, out.width);
        float sums[N] = {}, value[N];
        for (int p = rows.first; p <= rows.last; p++) {
            float down = part_of(at.row, p, in.height, out.height);
            for (int q = columns.first; q <= columns.last && down > 0; q++) {
                float part = down * part_of(at.column, q, in.width, out.width);
                if (part <= 0)
                    continue;
                load_floats<N>(from + place(out, at.sample, p, q) + at.channel, value);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sums[j] += value[j] * part;
            }
        }
        store_floats<N>(to + place(in, at.sample, at.row, at.column) + at.channel, sums);
    }
}

} // namespace

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_max_pool, vision_max_pool)
{
    return for_packs(k->base.dtype, (size_t)a->over.in.channels, {a->x, a->y}, [&]<typename E, int N>() {
        size_t count = elems(a->over.samples, a->over.out) / N;
        return launch("max pool", max_pool_kernel<E, N>, blocks_of(k, count), dim3(THREADS), 0, stream, (E *)a->y, a->places,
                      (const E *)a->x, a->over, count);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_max_pool_gradient, vision_max_pool_gradient)
{
    return for_packs(k->base.dtype, (size_t)a->over.in.channels, {a->dy, a->dx}, [&]<typename E, int N>() {
        size_t count = elems(a->over.samples, a->over.in) / N;
        return launch("max pool gradient", max_pool_gradient_kernel<E, N>, blocks_of(k, count), dim3(THREADS), 0, stream, (E *)a->dx,
                      (const E *)a->dy, a->places, a->over, count);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_mean_pool, vision_mean_pool)
{
    dim3 grid((unsigned)a->samples, (unsigned)((a->channels + POOL_LANES - 1) / POOL_LANES));
    return for_dtype(k->base.dtype, [&]<typename E>() {
        return launch("mean pool", mean_pool_kernel<E>, grid, dim3(POOL_LANES, POOL_ROWS), POOL_ROWS * POOL_LANES * sizeof(float), stream,
                      (E *)a->to, (const E *)a->from, a->positions, a->channels);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_mean_pool_gradient, vision_mean_pool)
{
    return for_packs(k->base.dtype, a->channels, {a->to, a->from}, [&]<typename E, int N>() {
        size_t count = a->samples * a->positions * a->channels / N;
        return launch("mean pool gradient", mean_pool_gradient_kernel<E, N>, blocks_of(k, count), dim3(THREADS), 0, stream, (E *)a->to,
                      (const E *)a->from, a->positions, a->channels, 1 / (float)a->positions, count);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_resize, vision_resize)
{
    return for_packs(k->base.dtype, (size_t)a->in.channels, {a->to, a->from}, [&]<typename E, int N>() {
        size_t count = elems(a->samples, a->out) / N;
        return launch("resize", resize_kernel<E, N>, blocks_of(k, count), dim3(THREADS), 0, stream, (E *)a->to, (const E *)a->from, a->in,
                      a->out, count);
    });
}

extern "C" VISION_KERNEL_FUNCTION(vision_cuda_resize_gradient, vision_resize)
{
    return for_packs(k->base.dtype, (size_t)a->in.channels, {a->to, a->from}, [&]<typename E, int N>() {
        size_t count = elems(a->samples, a->in) / N;
        return launch("resize gradient", resize_gradient_kernel<E, N>, blocks_of(k, count), dim3(THREADS), 0, stream, (E *)a->to,
                      (const E *)a->from, a->in, a->out, count);
    });
}
