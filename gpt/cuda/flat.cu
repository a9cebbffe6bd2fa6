/* Kernels over arrays without rows: tokens, GELU and its gradient. The floor of each is the bytes
 * that it reads and writes, divided by the memory's bandwidth; only GELU in fp16 is near another
 * limit. Each access is 16 bytes, and nothing is read twice. */
#include "gpt/cuda/columns.cuh"
#include "gpt/cuda/gelu.cuh"
#include "lib/kernels/cuda/map.cuh"

namespace {

using namespace gpt_cuda;

enum { FLAT_THREADS = 256, FLAT_BLOCKS = 16 };

/* (1 + tanh(u)) / 2 for u = sqrt(2 / pi) (x + 0.044715 x^3), which is the logistic function of 2 u;
 * and its product with (1 - itself). */
struct half_tanh {
    float value, slope;
};

__device__ inline half_tanh half_tanh_at(float x)
{
    float value = __fdividef(1.0f, 1.0f + __expf(-x * fmaf(x * x, 0.0713548163f, 1.59576912f)));
    return {value, value * (1.0f - value)};
}

/* GELU's tanh form. Source: as above, section 2. */
struct gelu_new_op {
    static constexpr bool READS_TO = false;
    __device__ static float apply(float, float x)
    {
        float c = x < -9.9f ? -9.9f : x; /* below this the result is zero; NaN stays NaN */
        return c * half_tanh_at(c).value;
    }
};

struct gelu_new_gradient_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float dy, float x)
    {
        float c = x < -9.9f ? -9.9f : x > 9.9f ? 9.9f : x;
        half_tanh h = half_tanh_at(c);
        return dy * (h.value + c * h.slope * fmaf(c * c, 0.214064449f, 1.59576912f));
    }
};

/* max(x, 0), with derivative 0 at 0; NaN stays NaN. */
struct relu_op {
    static constexpr bool READS_TO = false;
    __device__ static float apply(float, float x)
    {
        return x <= 0 ? 0 : x;
    }
};

struct relu_gradient_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float dy, float x)
    {
        return x <= 0 ? 0 : x > 0 ? dy : x;
    }
};

/* GELU's gradient row by row. It also sums its columns (columns.cuh), and stores GELU again in
 * `active`. */
template <typename E, int N, typename Of> struct gelu_gradient_rows {
    static constexpr int SUMS = 1;
    E *dy_to_dx;
    const E *x;
    E *active; /* may be x, or NULL */
    size_t columns;
    __device__ void add(size_t row, size_t column, float (&sums)[SUMS][N]) const
    {
        pack<E, N> hidden = load_pack<N>(x + row * columns + column), d = load_pack<N>(dy_to_dx + row * columns + column);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float h = to_float(hidden.at[j]);
            d.at[j] = from_float<E>(Of::gradient::apply(to_float(d.at[j]), h));
            hidden.at[j] = from_float<E>(Of::value::apply(0.0f, h));
            sums[0][j] += to_float(d.at[j]);
        }
        store_pack<N>(dy_to_dx + row * columns + column, d);
        if (active)
            store_pack<N>(active + row * columns + column, hidden);
    }
};

/* ---- tokens (lib/base/random.h) ---- */

/* A thread makes the four tokens of one Philox call. inputs, targets [samples, where.count] */
__global__ void __launch_bounds__(FLAT_THREADS)
    tokens_kernel(int32_t *inputs, int32_t *targets, size_t samples, uint32_t T, uint32_t vocab, row_positions where, uint64_t seed,
                  uint32_t first_sample, const struct dt_cuda_step *step)
{
    wait_for_earlier();
    uint32_t per_sample = T / 4 + 1; /* a sample is T + 1 tokens */
    first_sample += step->first_sample;
    for (size_t i = blockIdx.x * (size_t)FLAT_THREADS + threadIdx.x; i < samples * per_sample; i += gridDim.x * (size_t)FLAT_THREADS) {
        size_t sample = i / per_sample;
        uint32_t block = (uint32_t)(i % per_sample);
        struct dt_philox random = dt_philox4x32(seed, block, 0, first_sample + (uint32_t)sample, (uint32_t)DT_RANDOM_TOKEN << 24);
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t position = block * 4 + j;
            int32_t token = (int32_t)((uint64_t)random.word[j] * vocab >> 32);
            uint32_t input = where.row_of(position), target = where.row_of(position - 1);
            if (input < where.count)
                inputs[sample * where.count + input] = token;
            if (target < where.count)
                targets[sample * where.count + target] = token;
        }
    }
}

} // namespace

template <typename Value, typename Gradient> struct activation {
    using value = Value;
    using gradient = Gradient;
};

/* Calls `body` with the model's activation. */
template <typename Body> static dt_status for_activation(const struct gpt_kernels *k, Body body)
{
    switch (gpt_of(&k->model)->mlp) {
    case GPT_MLP_GELU_NEW: return body(activation<gelu_new_op, gelu_new_gradient_op>());
    case GPT_MLP_RELU: return body(activation<relu_op, relu_gradient_op>());
    case GPT_MLP_GELU:
    case GPT_MLP_SWIGLU: break;
    }
    return body(activation<gelu_op, gelu_gradient_op>());
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_gelu, gpt_gelu)
{
    return for_activation(k, [&](auto of) { return map<typename decltype(of)::value>("gelu", k->base, stream, a->y, a->x, a->count); });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_gelu_gradient, gpt_gelu_gradient)
{
    return for_activation(
        k, [&](auto of) { return map<typename decltype(of)::gradient>("gelu gradient", k->base, stream, a->dy_to_dx, a->x, a->count); });
}

template <typename Of>
static dt_status gradient_sums(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x, void *sums, void *active,
                               size_t rows, size_t columns, bool accumulate)
{
    return for_packs(k->model.dtype, columns, {dy_to_dx, x, active}, [&]<typename E, int N>() {
        gelu_gradient_rows<E, N, Of> source = {(E *)dy_to_dx, (const E *)x, (E *)active, columns};
        return sum_columns<E, N>("gelu gradient", k, stream, source, rows, columns, {{(E *)sums}}, accumulate);
    });
}

extern "C" dt_status gpt_cuda_gelu_gradient_sums_of(struct gpt_kernels *k, struct dt_stream *stream, void *dy_to_dx, const void *x,
                                                    void *sums, void *active, size_t rows, size_t columns, bool accumulate)
{
    if (rows == 0 || columns == 0)
        return accumulate || !sums ? DT_OK : dt_cuda_fill(k->base, stream, sums, columns, 0);
    return for_activation(
        k, [&](auto of) { return gradient_sums<decltype(of)>(k, stream, dy_to_dx, x, sums, active, rows, columns, accumulate); });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_tokens, gpt_tokens)
{
    uint32_t T = (uint32_t)gpt_of(&k->model)->block_size;
    unsigned blocks = blocks_for(k, a->samples * (T / 4 + 1), FLAT_THREADS, FLAT_BLOCKS);
    return launch("tokens", tokens_kernel, dim3(blocks), dim3(FLAT_THREADS), 0, stream, a->inputs, a->targets, a->samples, T,
                  (uint32_t)gpt_of(&k->model)->vocab_size, positions_of(k, &a->positions), a->seed, a->first_sample, k->base->cuda_step);
}
