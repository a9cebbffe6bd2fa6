/* Arrays without rows: initial weights, tokens, GELU and its gradient, sums, fills. The floor of each is the bytes it reads and writes over
 * the memory's bandwidth, and all but GELU in fp16 are far from any other limit; 16 bytes an access, and nothing is read twice. */
#include "gpt/cuda/columns.cuh"

namespace {

using namespace gpt_cuda;

enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 16 };

/* ---- one array into another: to[i] = op(to[i], from[i]) ---- */

/* The standard normal distribution at x. The left tail is Phi(-|x|) = exp(-x^2/2) * erfcx(|x| / sqrt(2)) / 2, which loses nothing where
 * 1 + erf would, and erfcx is t * polynomial(t) of t = 1 / (1 + 0.4 |x| / sqrt(2)), fitted to 1.3e-7 over all of t in (0, 1]: some 20
 * instructions without a branch, where the memory of an H100 leaves time for about 30 an element of fp16. */
struct normal {
    float density, cumulative;
};

__device__ inline normal normal_at(float x)
{
    float exponential = __expf(-0.5f * x * x), t = __fdividef(1.0f, fmaf(fabsf(x), 0.4f * 0.70710678f, 1.0f));
    float p = 0.050262132f;
    p = fmaf(p, t, -0.18290149f);
    p = fmaf(p, t, 0.16908546f);
    p = fmaf(p, t, -0.0056075597f);
    p = fmaf(p, t, 0.14143144f);
    p = fmaf(p, t, 0.16854198f);
    p = fmaf(p, t, 0.20784270f);
    p = fmaf(p, t, 0.22566960f);
    p = fmaf(p, t, 0.22567586f);
    float tail = 0.5f * exponential * (t * p);
    return {0.39894228f * exponential, x < 0 ? tail : 1 - tail};
}

/* The largest float: what stands for an infinity where it is multiplied by a zero of the distribution. A NaN becomes a number here, and
 * stays one in the distribution. */
constexpr float LARGEST = 3.40282347e38f;

/* Source  Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016: x * Phi(x), exact. */
struct gelu_op {
    static constexpr bool READS_TO = false;
    __device__ static float apply(float, float x)
    {
        return fmaxf(x, -LARGEST) * normal_at(x).cumulative;
    }
};

struct gelu_gradient_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float dy, float x)
    {
        normal n = normal_at(x);
        return dy * (n.cumulative + fminf(fmaxf(x, -LARGEST), LARGEST) * n.density);
    }
};

struct add_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float to, float from)
    {
        return to + from;
    }
};

template <typename Op, typename E, int N> __global__ void __launch_bounds__(THREADS) map_kernel(E *to, const E *from, size_t count)
{
    size_t first = blockIdx.x * (size_t)THREADS + threadIdx.x, stride = gridDim.x * (size_t)THREADS;
    for (size_t i = first; i < count / N; i += stride) {
        pack<E, N> x = load_pack<N>(from + i * N), y = Op::READS_TO ? load_pack<N>(to + i * N) : x;
#pragma unroll
        for (int j = 0; j < N; j++)
            y.at[j] = from_float<E>(Op::apply(to_float(y.at[j]), to_float(x.at[j])));
        store_pack<N>(to + i * N, y);
    }
    for (size_t i = count / N * N + first; i < count; i += stride)
        to[i] = from_float<E>(Op::apply(Op::READS_TO ? to_float(to[i]) : 0.0f, to_float(from[i])));
}

template <typename Op>
dt_status map(const char *name, struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        return for_pack<E>(
            0,
            [&](auto n) {
                constexpr int N = decltype(n)::value;
                unsigned blocks = blocks_for(k, count / N + 1, THREADS, BLOCKS_PER_MULTIPROCESSOR);
                return launch(name, map_kernel<Op, E, N>, dim3(blocks), dim3(THREADS), 0, stream, (E *)to, (const E *)from, count);
            },
            to, from);
    });
}

/* GELU's gradient by rows, which makes the sums of its columns (columns.cuh) as it goes. */
template <typename E, int N> struct gelu_gradient_rows {
    static constexpr int SUMS = 1;
    E *dy_to_dx;
    const E *x;
    size_t columns;
    __device__ void add(size_t row, size_t column, float (&sums)[SUMS][N]) const
    {
        pack<E, N> hidden = load_pack<N>(x + row * columns + column), d = load_pack<N>(dy_to_dx + row * columns + column);
#pragma unroll
        for (int j = 0; j < N; j++) {
            d.at[j] = from_float<E>(gelu_gradient_op::apply(to_float(d.at[j]), to_float(hidden.at[j])));
            sums[0][j] += to_float(d.at[j]);
        }
        store_pack<N>(dy_to_dx + row * columns + column, d);
    }
};

template <typename E, int N> __global__ void __launch_bounds__(THREADS) fill_kernel(E *to, size_t count, float value)
{
    size_t first = blockIdx.x * (size_t)THREADS + threadIdx.x, stride = gridDim.x * (size_t)THREADS;
    pack<E, N> all;
    for (int i = 0; i < N; i++)
        all.at[i] = from_float<E>(value);
    for (size_t i = first; i < count / N; i += stride)
        store_pack<N>(to + i * N, all);
    for (size_t i = count / N * N + first; i < count; i += stride)
        to[i] = all.at[0];
}

/* ---- random weights and tokens (lib/base/random.h) ---- */

/* Two normal deviates from two words, in fp32 and right to some units in the last place. Next to 1 the logarithm is taken of what is
 * missing there, and the angle is brought into [-pi/4, pi/4] as an integer: a float of either word would have lost the low bits that count.
 */
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

/* What is made: `runs` of run_elems elements, of which `skipped` are left out at the start. */
struct normal_runs {
    uint64_t first_element;
    size_t count, runs, run_elems, skipped, stride_elems;

    /* Calls of Philox that may serve a run: it may begin and end inside of one. */
    __host__ __device__ size_t blocks() const
    {
        return run_elems / 4 + 2;
    }
};

/* A thread makes the four elements of one call of Philox. */
template <typename E>
__global__ void __launch_bounds__(THREADS)
    init_normal_kernel(E *to, normal_runs r, uint64_t seed, uint32_t tensor_id, float standard_deviation)
{
    size_t blocks = r.blocks();
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < r.runs * blocks; i += gridDim.x * (size_t)THREADS) {
        size_t run = i / blocks;
        uint64_t begin = r.first_element + run * r.stride_elems, block = begin / 4 + i % blocks;
        struct dt_philox random =
            dt_philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), tensor_id, (uint32_t)DT_RANDOM_WEIGHT << 24);
        float normal[4];
        normal_pair(random.word[0], random.word[1], normal);
        normal_pair(random.word[2], random.word[3], normal + 2);
        for (int j = 0; j < 4; j++) {
            uint64_t element = block * 4 + j, in_run = element - begin, place = run * r.run_elems + in_run - r.skipped;
            if (element >= begin && in_run < r.run_elems && place < r.count) /* what is skipped wraps round */
                to[place] = from_float<E>(normal[j] * standard_deviation);
        }
    }
}

/* A thread makes the four tokens of one call of Philox. inputs, targets [samples, T] */
__global__ void __launch_bounds__(THREADS) tokens_kernel(int32_t *inputs, int32_t *targets, size_t samples, uint32_t T, uint32_t vocab,
                                                         uint64_t seed, uint32_t first_sample, const struct gpt_cuda_step *step)
{
    uint32_t per_sample = T / 4 + 1; /* a sample is T + 1 tokens */
    first_sample += step->first_sample;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < samples * per_sample; i += gridDim.x * (size_t)THREADS) {
        size_t sample = i / per_sample;
        uint32_t block = (uint32_t)(i % per_sample);
        struct dt_philox random = dt_philox4x32(seed, block, 0, first_sample + (uint32_t)sample, (uint32_t)DT_RANDOM_TOKEN << 24);
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t position = block * 4 + j;
            int32_t token = (int32_t)((uint64_t)random.word[j] * vocab >> 32);
            if (position < T)
                inputs[sample * T + position] = token;
            if (position > 0 && position <= T)
                targets[sample * T + position - 1] = token;
        }
    }
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_gelu, gpt_gelu)
{
    return map<gelu_op>("gelu", k, stream, a->y, a->x, a->count);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_gelu_gradient, gpt_gelu_gradient)
{
    return map<gelu_gradient_op>("gelu gradient", k, stream, a->dy_to_dx, a->x, a->count);
}

extern "C" dt_status gpt_cuda_gelu_gradient_sums_of(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x,
                                                    void *sums, size_t rows, size_t columns, bool accumulate)
{
    const struct gpt_fill zeros = {sums, columns, 0};
    if (rows == 0 || columns == 0)
        return accumulate ? DT_OK : gpt_cuda_fill(k, stream, &zeros);
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        return for_pack<E>(
            columns,
            [&](auto n) {
                constexpr int N = decltype(n)::value;
                gelu_gradient_rows<E, N> source = {(E *)dy_to_dx, (const E *)x, columns};
                return sum_columns<E, N>("gelu gradient", k, stream, source, rows, columns, {{(E *)sums}}, accumulate);
            },
            dy_to_dx, x);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_add, gpt_add)
{
    return map<add_op>("add", k, stream, a->to, a->from, a->count);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_fill, gpt_fill)
{
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        return for_pack<E>(
            0,
            [&](auto n) {
                constexpr int N = decltype(n)::value;
                unsigned blocks = blocks_for(k, a->count / N + 1, THREADS, BLOCKS_PER_MULTIPROCESSOR);
                return launch("fill", fill_kernel<E, N>, dim3(blocks), dim3(THREADS), 0, stream, (E *)a->to, a->count, a->value);
            },
            a->to);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_init_normal, gpt_init_normal)
{
    if (a->count == 0)
        return DT_OK;
    size_t run_elems = a->run_elems ? a->run_elems : a->run_done + a->count, runs = (a->run_done + a->count - 1) / run_elems + 1;
    normal_runs r = {a->first_element, a->count, runs, run_elems, a->run_done, a->stride_elems};
    return for_dtype(k->model.dtype, [&](auto element) {
        using E = decltype(element);
        unsigned blocks = blocks_for(k, r.runs * r.blocks(), THREADS, BLOCKS_PER_MULTIPROCESSOR);
        return launch("initial weights", init_normal_kernel<E>, dim3(blocks), dim3(THREADS), 0, stream, (E *)a->to, r, a->seed,
                      a->tensor_id, a->standard_deviation);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_tokens, gpt_tokens)
{
    uint32_t T = (uint32_t)gpt_of(&k->model)->block_size;
    unsigned blocks = blocks_for(k, a->samples * (T / 4 + 1), THREADS, BLOCKS_PER_MULTIPROCESSOR);
    return launch("tokens", tokens_kernel, dim3(blocks), dim3(THREADS), 0, stream, a->inputs, a->targets, a->samples, T,
                  (uint32_t)gpt_of(&k->model)->vocab_size, a->seed, a->first_sample, k->step);
}
