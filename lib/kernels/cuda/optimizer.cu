/* The optimizers, each over a whole range of parameters in one launch; the norm of gradients; and
 * the step's numbers. */
#include "lib/kernels/cuda/elements.cuh"

#define DT_HOST_DEVICE __host__ __device__
#include "lib/kernels/norm.h"

namespace {

using namespace dt_cuda;

enum { STEP_THREADS = 256, STEP_BLOCKS = 8, IN_FLIGHT = 2 };

/* One block: limited by the time of a launch. */
__global__ void __launch_bounds__(STEP_THREADS)
    begin_step_kernel(struct dt_cuda_step *step, uint32_t first_sample, int32_t number, float rate, bool first)
{
    wait_for_earlier();
    for (int i = threadIdx.x; i < DT_CUDA_SUMS; i += STEP_THREADS)
        step->squares[i] = 0.0;
    if (threadIdx.x > 0)
        return;
    if (first) {
        step->norm = {};
        step->norm.factor = step->norm.loss_scale = step->norm.used_scale = 1.0f;
    }
    step->first_sample = first_sample;
    step->number = number - (int32_t)step->norm.skipped;
    step->rate = rate;
    step->overflows = 0;
}

/* ---- the norm of the gradients ---- */

/* Each block adds to its own number, so that the sum is the same in every run. Limited by one pass
 * over x. */
template <typename E, int N>
__global__ void __launch_bounds__(STEP_THREADS) squares_kernel(const E *x, size_t count, struct dt_cuda_step *step)
{
    wait_for_earlier();
    __shared__ double warps[32];
    const size_t stride = gridDim.x * (size_t)STEP_THREADS, thread = blockIdx.x * (size_t)STEP_THREADS + threadIdx.x, packs = count / N;
    double sum = 0.0;
    for (size_t i = thread; i < packs; i += stride) {
        pack<E, N> all = load_pack<N>(x + i * N);
        float part = 0.0f;
        for (int j = 0; j < N; j++)
            part += to_float(all.at[j]) * to_float(all.at[j]);
        sum += part;
    }
    for (size_t i = packs * N + thread; i < count; i += stride)
        sum += (double)to_float(x[i]) * to_float(x[i]);
    sum = block_sum(sum, warps);
    if (threadIdx.x == 0)
        step->squares[blockIdx.x] += sum;
}

/* Runs in one block. */
__global__ void __launch_bounds__(STEP_THREADS) sum_squares_kernel(const struct dt_cuda_step *step, float *to)
{
    wait_for_earlier();
    __shared__ double warps[32];
    double sum = 0.0;
    for (int i = threadIdx.x; i < DT_CUDA_SUMS; i += STEP_THREADS)
        sum += step->squares[i];
    sum = block_sum(sum, warps);
    if (threadIdx.x == 0)
        *to = (float)sum;
}

/* Runs in one thread. */
__global__ void settle_norm_kernel(struct dt_cuda_step *step, struct dt_norm_rule rule, const float *squares)
{
    wait_for_earlier();
    dt_norm_settle(&step->norm, &rule, *squares);
}

/* ---- updates ---- */

/* Counts are integers, so the order of additions does not change the result. */
__device__ inline void count_overflows(struct dt_cuda_step *step, unsigned left_out)
{
    if (left_out)
        atomicAdd((unsigned long long *)&step->overflows, (unsigned long long)left_out);
}

__device__ inline bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* Limited by memory traffic of 3 elements for each parameter. */
template <typename E, int N>
__global__ void __launch_bounds__(STEP_THREADS)
    sgd_kernel(E *params, const E *grads, size_t count, float learning_rate, float gradient_scale, struct dt_cuda_step *step)
{
    wait_for_earlier();
    if (step->norm.skips)
        return;
    const float rate = learning_rate * step->rate * (gradient_scale * step->norm.factor);
    const size_t stride = gridDim.x * (size_t)STEP_THREADS, thread = blockIdx.x * (size_t)STEP_THREADS + threadIdx.x, packs = count / N;
    unsigned left_out = 0;
    auto update = [&](E &param, E grad) {
        float g = to_float(grad);
        if (is_finite(g))
            param = from_float<E>(to_float(param) - g * rate);
        else
            left_out++;
    };
    for (size_t first = thread; first < packs; first += IN_FLIGHT * stride) {
        pack<E, N> p[IN_FLIGHT], g[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * stride < packs) {
                g[u] = load_pack<N>(grads + (first + u * stride) * N);
                p[u] = load_pack<N>(params + (first + u * stride) * N);
            }
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * stride < packs) {
                for (int j = 0; j < N; j++)
                    update(p[u].at[j], g[u].at[j]);
                store_pack<N>(params + (first + u * stride) * N, p[u]);
            }
    }
    for (size_t i = packs * N + thread; i < count; i += stride)
        update(params[i], grads[i]);
    count_overflows(step, left_out);
}

/* Numbers that are the same for all parameters. */
struct sgd_numbers {
    float learning_rate, gradient_scale, momentum, weight_decay;
};

/* One pack of SGD with momentum, weight decay or a master copy. Returns the number of its elements
 * that were not updated. */
template <typename E, typename G, int N>
__device__ inline unsigned move_pack(E *params, const G *grads, float *moment, float *master, bool first, float rate, const sgd_numbers &c)
{
    pack<E, N> p = load_pack<N>(params);
    pack<G, N> g = load_pack<N>(grads);
    pack<float, N> m, whole;
    unsigned left_out = 0;
    for (int j = 0; j < N; j++) {
        m.at[j] = 0.0f;
        whole.at[j] = to_float(p.at[j]);
    }
    if (moment && !first)
        m = load_pack<N>(moment);
    if (master && !first)
        whole = load_pack<N>(master);
    for (int j = 0; j < N; j++) {
        float raw = to_float(g.at[j]), param = whole.at[j];
        if (!is_finite(raw)) {
            left_out++;
            continue;
        }
        m.at[j] = m.at[j] * c.momentum + (raw * c.gradient_scale + param * c.weight_decay);
        whole.at[j] = param - m.at[j] * rate;
        p.at[j] = from_float<E>(whole.at[j]);
    }
    store_pack<N>(params, p);
    if (master)
        store_pack<N>(master, whole);
    if (moment)
        store_pack<N>(moment, m);
    return left_out;
}

/* moment, master: may be NULL. Limited by memory traffic: for each parameter 3 elements, and 8
 * bytes each for moment and master. */
template <typename E, typename G, int N>
__global__ void __launch_bounds__(STEP_THREADS)
    momentum_kernel(E *params, const G *grads, float *moment, float *master, size_t count, sgd_numbers c, struct dt_cuda_step *step)
{
    wait_for_earlier();
    if (step->norm.skips)
        return;
    const size_t stride = gridDim.x * (size_t)STEP_THREADS, thread = blockIdx.x * (size_t)STEP_THREADS + threadIdx.x, packs = count / N;
    const bool first = step->number == 1;
    c.gradient_scale *= step->norm.factor;
    const float rate = c.learning_rate * step->rate;
    unsigned left_out = 0;
    for (size_t i = thread; i < packs; i += stride)
        left_out += move_pack<E, G, N>(params + i * N, grads + i * N, moment ? moment + i * N : moment, master ? master + i * N : master,
                                       first, rate, c);
    for (size_t i = packs * N + thread; i < count; i += stride)
        left_out += move_pack<E, G, 1>(params + i, grads + i, moment ? moment + i : moment, master ? master + i : master, first, rate, c);
    count_overflows(step, left_out);
}

struct adam_numbers {
    float learning_rate, beta1, beta2, epsilon, gradient_scale;
    float weight_decay; /* weight_decay * parameter is added to the gradient */
    float decay;        /* decay * learning rate * parameter is subtracted from the parameter */
};

template <typename E, typename G> struct adam_arrays {
    E *params;
    const G *grads;
    float *first_moment, *second_moment, *master;
};

/* A pack of parameters in fp32. */
template <int N> struct adam_state {
    pack<float, N> m, v, p;
};

template <typename E, typename G, int N>
__device__ inline void load_state(const adam_arrays<E, G> &a, size_t at, bool first, adam_state<N> &s)
{
    if (first) {
        for (int j = 0; j < N; j++)
            s.m.at[j] = s.v.at[j] = 0.0f;
    } else {
        s.m = load_pack<N>(a.first_moment + at);
        s.v = load_pack<N>(a.second_moment + at);
    }
    if (!first && a.master) {
        s.p = load_pack<N>(a.master + at);
    } else {
        pack<E, N> params = load_pack<N>(a.params + at);
        for (int j = 0; j < N; j++)
            s.p.at[j] = to_float(params.at[j]);
    }
}

/* Packs of 4: 16 bytes of the fp32 arrays, which are most of the traffic; a warp reads two whole
 * lines of 16-bit elements. Limited by memory traffic: for each parameter 3 elements and 24 bytes,
 * or 16 bytes without a master copy. */
template <typename E, typename G, int N>
__global__ void __launch_bounds__(STEP_THREADS) adam_kernel(adam_arrays<E, G> a, size_t count, adam_numbers c, struct dt_cuda_step *step)
{
    wait_for_earlier();
    if (step->norm.skips)
        return;
    c.gradient_scale *= step->norm.factor;
    __shared__ float corrections[2];
    const size_t stride = gridDim.x * (size_t)STEP_THREADS, thread = blockIdx.x * (size_t)STEP_THREADS + threadIdx.x, packs = count / N;
    const bool first_step = step->number == 1;
    unsigned left_out = 0;
    if (threadIdx.x < 2)
        corrections[threadIdx.x] = (float)(1.0 / (1.0 - pow((double)(threadIdx.x ? c.beta2 : c.beta1), (double)step->number)));
    __syncthreads();
    const float rate = c.learning_rate * step->rate * corrections[0], correction2 = corrections[1];
    const float decay = c.learning_rate * step->rate * c.decay;

    auto update = [&](float &m, float &v, float &p, G grad) {
        float raw = to_float(grad), g = raw * c.gradient_scale + p * c.weight_decay;
        if (!is_finite(raw)) {
            left_out++;
            return;
        }
        m = m + (g - m) * (1.0f - c.beta1);
        v = v + (g * g - v) * (1.0f - c.beta2);
        p = p - p * decay - m * rate / (sqrtf(v * correction2) + c.epsilon);
    };
    auto finish = [&](auto &s, auto &grads, size_t at) {
        constexpr int W = sizeof grads.at / sizeof grads.at[0];
        pack<E, W> params;
        for (int j = 0; j < W; j++) {
            update(s.m.at[j], s.v.at[j], s.p.at[j], grads.at[j]);
            params.at[j] = from_float<E>(s.p.at[j]);
        }
        store_pack<W>(a.first_moment + at, s.m);
        store_pack<W>(a.second_moment + at, s.v);
        if (a.master)
            store_pack<W>(a.master + at, s.p);
        store_pack<W>(a.params + at, params);
    };

    for (size_t first = thread; first < packs; first += IN_FLIGHT * stride) {
        pack<G, N> grads[IN_FLIGHT];
        adam_state<N> state[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * stride < packs) {
                grads[u] = load_pack<N>(a.grads + (first + u * stride) * N);
                load_state(a, (first + u * stride) * N, first_step, state[u]);
            }
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * stride < packs)
                finish(state[u], grads[u], (first + u * stride) * N);
    }
    for (size_t i = packs * N + thread; i < count; i += stride) {
        pack<G, 1> grad = load_pack<1>(a.grads + i);
        adam_state<1> state;
        load_state(a, i, first_step, state);
        finish(state, grad, i);
    }
    count_overflows(step, left_out);
}

} // namespace

static dt_status begin_step(struct dt_kernels *k, struct dt_stream *stream, int step, bool first)
{
    k->host.step = step - (int)k->host.norm.skipped;
    k->host.rate = k->rate;
    k->host.squares = 0;
    k->host.overflows = 0;
    return launch("begin step", begin_step_kernel, dim3(1), dim3(STEP_THREADS), 0, stream, k->cuda_step, k->first_sample, step, k->rate,
                  first);
}

extern "C" dt_status dt_cuda_begin_step(struct dt_kernels *k, struct dt_stream *stream, int step)
{
    return begin_step(k, stream, step, false);
}

extern "C" dt_status dt_cuda_begin_first_step(struct dt_kernels *k, struct dt_stream *stream)
{
    return begin_step(k, stream, 1, true);
}

extern "C" dt_status dt_cuda_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool /* on_host */, enum dt_dtype dtype,
                                         const void *x, size_t count)
{
    return for_packs(dtype, 0, {x}, [&]<typename E, int N>() {
        unsigned blocks = blocks_for(k->multiprocessors, count / N + 1, STEP_THREADS, STEP_BLOCKS);
        blocks = blocks < (unsigned)DT_CUDA_SUMS ? blocks : (unsigned)DT_CUDA_SUMS;
        return launch("squares", squares_kernel<E, N>, dim3(blocks), dim3(STEP_THREADS), 0, stream, (const E *)x, count, k->cuda_step);
    });
}

extern "C" dt_status dt_cuda_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool /* on_host */, float *to)
{
    return launch("sum of squares", sum_squares_kernel, dim3(1), dim3(STEP_THREADS), 0, stream, (const struct dt_cuda_step *)k->cuda_step,
                  to);
}

extern "C" dt_status dt_cuda_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool /* on_host */,
                                         const struct dt_norm_rule *rule, const float *squares)
{
    return launch("norm", settle_norm_kernel, dim3(1), dim3(1), 0, stream, k->cuda_step, *rule, squares);
}

static dt_status sgd(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *a)
{
    return for_packs(k->dtype, 0, {a->params, a->grads}, [&]<typename E, int N>() {
        unsigned blocks = blocks_for(k->multiprocessors, a->count / (size_t)(N * IN_FLIGHT) + 1, STEP_THREADS, STEP_BLOCKS);
        return launch("sgd", sgd_kernel<E, N>, dim3(blocks), dim3(STEP_THREADS), 0, stream, (E *)a->params, (const E *)a->grads, a->count,
                      a->learning_rate, a->gradient_scale, k->cuda_step);
    });
}

/* Calls f with the types of parameters and of gradients. */
template <typename F> static dt_status for_gradients(struct dt_kernels *k, const struct dt_update *a, F f)
{
    return for_dtype(k->dtype,
                     [&]<typename E>() { return a->wide_grads ? f.template operator()<E, float>() : f.template operator()<E, E>(); });
}

static dt_status momentum(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *a)
{
    return for_gradients(k, a, [&]<typename E, typename G>() {
        constexpr int N = 4;
        sgd_numbers numbers = {a->learning_rate, a->gradient_scale, a->momentum, a->weight_decay};
        bool fits =
            packs_fit<E, N>(0, {a->params}) && packs_fit<G, N>(0, {a->grads}) && packs_fit<float, N>(0, {a->first_moment, a->master});
        unsigned blocks = blocks_for(k->multiprocessors, a->count / (size_t)(fits ? N : 1) + 1, STEP_THREADS, STEP_BLOCKS);
        return launch("sgd", fits ? momentum_kernel<E, G, N> : momentum_kernel<E, G, 1>, dim3(blocks), dim3(STEP_THREADS), 0, stream,
                      (E *)a->params, (const G *)a->grads, a->first_moment, a->master, a->count, numbers, k->cuda_step);
    });
}

static dt_status adam(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *a)
{
    return for_gradients(k, a, [&]<typename E, typename G>() {
        constexpr int N = 4;
        adam_arrays<E, G> arrays = {(E *)a->params, (const G *)a->grads, a->first_moment, a->second_moment, a->master};
        adam_numbers numbers = {a->learning_rate,
                                a->beta1,
                                a->beta2,
                                a->epsilon,
                                a->gradient_scale,
                                a->decoupled ? 0 : a->weight_decay,
                                a->decoupled ? a->weight_decay : 0};
        bool fits = packs_fit<E, N>(0, {a->params}) && packs_fit<G, N>(0, {a->grads}) &&
                    packs_fit<float, N>(0, {a->first_moment, a->second_moment, a->master});
        unsigned blocks =
            blocks_for(k->multiprocessors, a->count / (size_t)(fits ? N * IN_FLIGHT : IN_FLIGHT) + 1, STEP_THREADS, STEP_BLOCKS);
        return launch("adam", fits ? adam_kernel<E, G, N> : adam_kernel<E, G, 1>, dim3(blocks), dim3(STEP_THREADS), 0, stream, arrays,
                      a->count, numbers, k->cuda_step);
    });
}

extern "C" dt_status dt_cuda_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    if (u->adam)
        return adam(k, stream, u);
    return u->first_moment || u->master || u->weight_decay > 0 || u->wide_grads ? momentum(k, stream, u) : sgd(k, stream, u);
}
