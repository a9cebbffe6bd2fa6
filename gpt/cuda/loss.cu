/* The loss of a row of logits, and the gradient in the same memory. Each block computes a row. A
 * second kernel adds the rows' losses in their order, so that the sum is the same in every run. */
#include "gpt/cuda/kernels.cuh"

#include <cfloat>

namespace {

using namespace gpt_cuda;

enum { FEW = 128, MANY = 512, IN_FLIGHT = 4 };

/* A row of V elements: packs of N, and up to N - 1 elements at each end that are not in an aligned
 * pack, of which a thread has one. */
template <typename E, int N> struct row_view {
    E *at, *packs_at;
    int packs, head, edges;

    __device__ row_view(E *row, int vocab) : at(row)
    {
        int past = (int)((uintptr_t)row / sizeof(E) % N);
        head = past ? min(N - past, vocab) : 0;
        packs = (vocab - head) / N;
        packs_at = row + head;
        edges = vocab - packs * N;
    }
    /* This thread's element at an end; only for threads below `edges`. */
    __device__ E *edge() const
    {
        return at + ((int)threadIdx.x < head ? (int)threadIdx.x : packs * N + (int)threadIdx.x);
    }
};

/* The largest logit that one thread has read, and its sum of exp(logit - largest). NaN makes the
 * sum NaN. */
struct running {
    float largest = -FLT_MAX;
    double sum = 0.0;

    template <typename E, int N> __device__ void take(const pack<E, N> &x)
    {
        float most = to_float(x.at[0]), part = 0.0f;
        for (int j = 1; j < N; j++)
            most = fmaxf(most, to_float(x.at[j]));
        if (most > largest) {
            sum *= __expf(largest - most);
            largest = most;
        }
        for (int j = 0; j < N; j++)
            part += __expf(to_float(x.at[j]) - largest);
        sum += part;
    }
};

/* logits become (softmax - onehot) * gradient_scale, losses[row] becomes -log softmax[target]. With
 * KEEP the row stays in shared memory between its only read and its only write; without KEEP, if it
 * does not fit, it is read twice.
 * Floor: 2 (KEEP) or 3 passes over rows * V elements of memory traffic. The exponentials, two for
 * each element, take about half as long. */
template <typename E, bool KEEP>
__global__ void __launch_bounds__(MANY) cross_entropy_kernel(E *logits, const int32_t *targets, double *losses, int vocab,
                                                             float gradient_scale, const struct dt_cuda_step *of_step)
{
    wait_for_earlier();
    gradient_scale *= of_step->norm.loss_scale;
    constexpr int N = pack_elems<E>;
    __shared__ float warps[32];
    __shared__ double double_warps[32];
    E *kept = dynamic_shared<E>(), *row = logits + (size_t)blockIdx.x * (size_t)vocab;
    const row_view<E, N> view(row, vocab);
    const int step = (int)blockDim.x, thread = (int)threadIdx.x;
    const int32_t target = targets[blockIdx.x];
    const float at_target = to_float(row[target]);
    running r;

    pack<E, 1> edge{};
    if (thread < view.edges) {
        edge.at[0] = *view.edge();
        r.take(edge);
    }
    for (int first = thread; first < view.packs; first += IN_FLIGHT * step) {
        pack<E, N> x[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * step < view.packs)
                x[u] = load_pack<N>(view.packs_at + (size_t)(first + u * step) * N);
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (first + u * step < view.packs) {
                if (KEEP)
                    store_pack<N>(kept + (first + u * step) * N, x[u]);
                r.take(x[u]);
            }
    }

    float largest = block_max(r.largest, warps);
    double total = block_sum(r.sum * __expf(r.largest - largest), double_warps); /* every thread has read `at_target` before this sum */
    float scale = (float)(gradient_scale / total);

    /* Each thread reads only what it has stored itself. */
#pragma unroll 2
    for (int p = thread; p < view.packs; p += step) {
        pack<E, N> x = load_pack<N>(KEEP ? kept + p * N : view.packs_at + (size_t)p * N);
        for (int j = 0; j < N; j++)
            x.at[j] = from_float<E>(__expf(to_float(x.at[j]) - largest) * scale);
        store_pack<N>(view.packs_at + (size_t)p * N, x);
    }
    if (thread < view.edges)
        *view.edge() = from_float<E>(__expf(to_float(edge.at[0]) - largest) * scale);
    __syncthreads();
    if (thread == 0) {
        row[target] = from_float<E>((float)(gradient_scale * (exp((double)at_target - largest) / total - 1.0)));
        losses[blockIdx.x] = largest + log(total) - at_target;
    }
}

/* ---- the same if ranks have parts of the vocabulary: two kernels, with an exchange of all ranks'
 * numbers in between ---- */

/* out[row] = numbers of this rank's logits [vocab] of the row: the largest and the sum of exp(logit
 * - largest), or with SUM the plain sum; and the target's logit if it is among them. Floor: one
 * pass. */
template <typename E, bool SUM>
__global__ void __launch_bounds__(MANY)
    loss_part_kernel(struct gpt_logit_row *out, const E *logits, const int32_t *targets, int first, int vocab)
{
    wait_for_earlier();
    constexpr int N = pack_elems<E>;
    __shared__ float warps[32];
    __shared__ double double_warps[32];
    E *row = const_cast<E *>(logits) + (size_t)blockIdx.x * (size_t)vocab;
    const row_view<E, N> view(row, vocab);
    const int step = (int)blockDim.x, thread = (int)threadIdx.x;
    running r;
    double sum = 0.0;

    if (thread < view.edges) {
        pack<E, 1> edge{};
        edge.at[0] = *view.edge();
        if (SUM)
            sum = to_float(edge.at[0]);
        else
            r.take(edge);
    }
#pragma unroll 4
    for (int p = thread; p < view.packs; p += step) {
        pack<E, N> x = load_pack<N>(view.packs_at + (size_t)p * N);
        if (!SUM) {
            r.take(x);
            continue;
        }
        float part = 0.0f;
        for (int j = 0; j < N; j++)
            part += to_float(x.at[j]);
        sum += part;
    }
    float largest = SUM ? 0.0f : block_max(r.largest, warps);
    double total = block_sum(SUM ? sum : r.sum * __expf(r.largest - largest), double_warps);
    int place = targets[blockIdx.x] - first;
    if (thread == 0)
        out[blockIdx.x] = {largest, (float)total, !SUM && place >= 0 && place < vocab ? to_float(row[place]) : 0.0f};
}

/* The numbers of a row on all ranks [parts, rows], combined by each thread of its block. */
struct whole_row {
    float largest;
    double exponentials, at_target;

    __device__ whole_row(const struct gpt_logit_row *all, size_t rows, int parts) : largest(-FLT_MAX), exponentials(0), at_target(0)
    {
        const struct gpt_logit_row *of_row = all + blockIdx.x;
        for (int part = 0; part < parts; part++)
            largest = fmaxf(largest, of_row[part * rows].largest);
        for (int part = 0; part < parts; part++) {
            exponentials += of_row[part * rows].exponentials * exp((double)of_row[part * rows].largest - largest);
            at_target += of_row[part * rows].at_target;
        }
    }
};

/* logits [vocab] of a row become their gradient; losses[row] becomes its loss. Floor: 2 passes;
 * with SUM one. */
template <typename E, bool SUM>
__global__ void __launch_bounds__(MANY)
    loss_gradient_kernel(E *logits, const int32_t *targets, const struct gpt_logit_row *all, int parts, double *losses, int first,
                         int vocab, float gradient_scale, const struct dt_cuda_step *of_step)
{
    wait_for_earlier();
    gradient_scale *= of_step->norm.loss_scale;
    constexpr int N = pack_elems<E>;
    E *row = logits + (size_t)blockIdx.x * (size_t)vocab;
    const row_view<E, N> view(row, vocab);
    const int step = (int)blockDim.x, thread = (int)threadIdx.x, place = targets[blockIdx.x] - first;
    const whole_row whole(all, gridDim.x, parts);
    const float scale = SUM ? gradient_scale : (float)(gradient_scale / whole.exponentials);

#pragma unroll 2
    for (int p = thread; p < view.packs; p += step) {
        pack<E, N> x{};
        if (!SUM)
            x = load_pack<N>(view.packs_at + (size_t)p * N);
        for (int j = 0; j < N; j++)
            x.at[j] = from_float<E>(SUM ? scale : __expf(to_float(x.at[j]) - whole.largest) * scale);
        store_pack<N>(view.packs_at + (size_t)p * N, x);
    }
    if (thread < view.edges)
        *view.edge() = from_float<E>(SUM ? scale : __expf(to_float(*view.edge()) - whole.largest) * scale);
    __syncthreads();
    if (thread != 0)
        return;
    if (!SUM && place >= 0 && place < vocab)
        row[place] = from_float<E>((float)(gradient_scale * (exp(whole.at_target - whole.largest) / whole.exponentials - 1.0)));
    losses[blockIdx.x] = SUM ? whole.exponentials : whole.largest + log(whole.exponentials) - whole.at_target;
}

/* losses[row] = sum of its logits, which become gradient_scale. Floor: 2 passes over the logits. */
template <typename E>
__global__ void __launch_bounds__(MANY)
    logit_sum_kernel(E *logits, double *losses, int vocab, float gradient_scale, const struct dt_cuda_step *of_step)
{
    wait_for_earlier();
    gradient_scale *= of_step->norm.loss_scale;
    constexpr int N = pack_elems<E>;
    __shared__ double warps[32];
    const row_view<E, N> view(logits + (size_t)blockIdx.x * (size_t)vocab, vocab);
    const int step = (int)blockDim.x, thread = (int)threadIdx.x;
    const E gradient = from_float<E>(gradient_scale);
    pack<E, N> gradients;
    double sum = 0.0;
    for (int j = 0; j < N; j++)
        gradients.at[j] = gradient;
    if (thread < view.edges) {
        sum = to_float(*view.edge());
        *view.edge() = gradient;
    }
#pragma unroll 4
    for (int p = thread; p < view.packs; p += step) {
        E *at = view.packs_at + (size_t)p * N;
        pack<E, N> x = load_pack<N>(at);
        float part = 0.0f;
        for (int j = 0; j < N; j++)
            part += to_float(x.at[j]);
        sum += part;
        store_pack<N>(at, gradients);
    }
    sum = block_sum(sum, warps);
    if (thread == 0)
        losses[blockIdx.x] = sum;
}

/* The shared memory that a block can have, without the part that the kernels above declare. */
dt_status most_kept_bytes(size_t *out)
{
    int gpu = 0, bytes = 0;
    DT_TRY(dt_cuda_status(cudaGetDevice(&gpu), "loss"));
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "loss"));
    *out = (size_t)bytes - 32 * (sizeof(float) + sizeof(double)) - 128;
    return DT_OK;
}

} // namespace

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_loss, gpt_loss)
{
    DT_TRY(gpt_cuda_scratch(k, a->rows * sizeof(double)));
    size_t most = 0;
    DT_TRY(most_kept_bytes(&most));
    DT_TRY(for_dtype(k->model.dtype, [&]<typename E>() {
        int vocab = gpt_of(&k->model)->vocab_size;
        size_t bytes = (size_t)vocab * sizeof(E);
        dim3 grid((unsigned)a->rows), block(vocab < MANY * pack_elems<E> ? FEW : MANY);
        double *losses = (double *)k->scratch.data;
        E *logits = (E *)a->logits;
        if (a->sum)
            return launch("logit sum", logit_sum_kernel<E>, grid, block, 0, stream, logits, losses, vocab, a->gradient_scale,
                          (const struct dt_cuda_step *)k->base->cuda_step);
        if (bytes <= most)
            return launch("cross-entropy", cross_entropy_kernel<E, true>, grid, block, bytes, stream, logits, a->targets, losses, vocab,
                          a->gradient_scale, (const struct dt_cuda_step *)k->base->cuda_step);
        return launch("cross-entropy", cross_entropy_kernel<E, false>, grid, block, 0, stream, logits, a->targets, losses, vocab,
                      a->gradient_scale, (const struct dt_cuda_step *)k->base->cuda_step);
    }));
    return dt_cuda_add_sum(stream, a->loss, (const double *)k->scratch.data, a->rows, a->loss_scale);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_loss_part, gpt_loss_part)
{
    return for_dtype(k->model.dtype, [&]<typename E>() {
        int first = (int)a->vocab.first, vocab = (int)a->vocab.count;
        dim3 grid((unsigned)a->rows), block(vocab < MANY * pack_elems<E> ? FEW : MANY);
        auto kernel = a->sum ? loss_part_kernel<E, true> : loss_part_kernel<E, false>;
        return launch("loss, one part", kernel, grid, block, 0, stream, a->out, (const E *)a->logits, a->targets, first, vocab);
    });
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_loss_gradient, gpt_loss_gradient)
{
    DT_TRY(gpt_cuda_scratch(k, a->rows * sizeof(double)));
    double *losses = (double *)k->scratch.data;
    DT_TRY(for_dtype(k->model.dtype, [&]<typename E>() {
        int first = (int)a->vocab.first, vocab = (int)a->vocab.count;
        dim3 grid((unsigned)a->rows), block(vocab < MANY * pack_elems<E> ? FEW : MANY);
        auto kernel = a->sum ? loss_gradient_kernel<E, true> : loss_gradient_kernel<E, false>;
        return launch("loss gradient", kernel, grid, block, 0, stream, (E *)a->logits, a->targets, a->all, (int)a->parts, losses, first,
                      vocab, a->gradient_scale, (const struct dt_cuda_step *)k->base->cuda_step);
    }));
    return dt_cuda_add_sum(stream, a->loss, losses, a->rows, a->loss_scale);
}
