/* Attention on the GPU: checks, sizes, and the choice of kernels. */
#include "gpt/cuda/attention/tile.cuh"

namespace {

using namespace gpt_cuda;

enum { DOTS_THREADS = 256, DOTS_LANES = 8 };

/* dots [samples, heads, queries] = sums of dout * out over each head's columns: eight lanes for
 * each (row, head), N elements for each access. For fp32; the tensor cores' kernel for dq computes
 * them itself.
 * Floor: dout and out are read once, 2 * rows * d elements. */
template <int N>
__global__ void __launch_bounds__(DOTS_THREADS)
    dots_kernel(float *dots, const float *dout, const float *out, size_t rows, attention_shape shape)
{
    wait_for_earlier();
    size_t heads = (size_t)shape.heads, count = (size_t)shape.queries.count, width = (size_t)shape.width;
    size_t item = (blockIdx.x * (size_t)DOTS_THREADS + threadIdx.x) / DOTS_LANES;
    bool valid = item < rows * heads;
    const float *a = dout + (valid ? item * width : 0), *b = out + (valid ? item * width : 0);
    float sum = 0;
    for (size_t i = threadIdx.x % DOTS_LANES * N; valid && i < width; i += DOTS_LANES * N) {
        pack<float, N> x = load_pack<N>(a + i), y = load_pack<N>(b + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += x.at[j] * y.at[j];
    }
#pragma unroll
    for (int distance = DOTS_LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (valid && threadIdx.x % DOTS_LANES == 0) {
        size_t row = item / heads, head = item % heads;
        dots[(row / count * heads + head) * count + row % count] = sum;
    }
}

dt_status queue_dots(struct dt_stream *stream, float *dots, const float *dout, const float *out, size_t rows, const attention_shape &shape)
{
    size_t items = rows * (size_t)shape.heads * DOTS_LANES;
    dim3 blocks((unsigned)((items + DOTS_THREADS - 1) / DOTS_THREADS)), threads(DOTS_THREADS);
    bool fit = packs_fit<float, pack_elems<float>>((size_t)shape.width, {dout, out});
    return launch("attention dots", fit ? dots_kernel<pack_elems<float>> : dots_kernel<1>, blocks, threads, 0, stream, dots, dout, out,
                  rows, shape);
}

/* The largest access of at most 16 bytes for rows that start at multiples of `elems` 2-byte
 * elements from these addresses. */
int access_bytes(size_t elems, const void *a, const void *b = nullptr, const void *c = nullptr)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)(elems * 2);
    for (int bytes = 16; bytes > 2; bytes /= 2)
        if (all % (uintptr_t)bytes == 0)
            return bytes;
    return 2;
}

/* Errors: DT_ERR_INVALID for shapes that the kernels do not support. */
dt_status shape_of(const struct gpt_kernels *k, const struct gpt_dropout *dropout, size_t samples, const struct gpt_part *heads,
                   const struct gpt_part *kv_heads, attention_shape *shape)
{
    const struct dt_model *m = &k->model;
    if (gpt_of(m)->heads < 1 || gpt_of(m)->block_size < 1 || gpt_of(m)->hidden % gpt_of(m)->heads != 0 ||
        gpt_of(m)->hidden / gpt_of(m)->heads > ATTENTION_MAX_WIDTH)
        return dt_fail(DT_ERR_INVALID, "attention: %d heads of hidden %d: the cuda kernels take heads of the same width, up to %d",
                       gpt_of(m)->heads, gpt_of(m)->hidden, (int)ATTENTION_MAX_WIDTH);
    if (gpt_kv_heads(m) < 1 || gpt_of(m)->heads % gpt_kv_heads(m) != 0)
        return dt_fail(DT_ERR_INVALID, "attention: %d heads for %d heads of keys and values, which must divide them", gpt_of(m)->heads,
                       gpt_kv_heads(m));
    size_t group = (size_t)(gpt_of(m)->heads / gpt_kv_heads(m)), last = heads->first + heads->count - 1;
    if (heads->count < 1 || heads->first / group != kv_heads->first || last / group != kv_heads->first + kv_heads->count - 1)
        return dt_fail(DT_ERR_INVALID, "attention: heads %zu to %zu read other kv heads than the %zu from %zu on", heads->first, last,
                       kv_heads->count, kv_heads->first);
    if (samples * heads->count * (size_t)gpt_of(m)->block_size > INT32_MAX)
        return dt_fail(DT_ERR_INVALID, "attention: %zu samples of %d rows and %zu heads are more than one call can take", samples,
                       gpt_of(m)->block_size, heads->count);
    int width = gpt_head_width(m), power = 0;
    for (int next = 1; gpt_of(m)->position == GPT_POSITION_ALIBI && next <= gpt_of(m)->heads; next *= 2)
        power = next;
    int T = gpt_of(m)->block_size;
    size_t keys = kv_heads->count * (size_t)width;
    *shape = {T,
              {T, T, {0, T}},
              {T, T, {0, T}},
              width,
              (int)heads->count,
              (uint32_t)heads->first,
              (int)kv_heads->count,
              (int)kv_heads->first,
              (int)group,
              power,
              heads->count * (size_t)width,
              heads->count * (size_t)width + 2 * keys,
              heads->count * (size_t)width + 2 * keys,
              2,
              2,
              1 / sqrtf((float)width),
              dropout_of(dropout),
              k->base->cuda_step};
    return DT_OK;
}

/* ---- the piece of a call whose ranks share samples (struct gpt_piece) ---- */

attention_rows rows_of(const struct gpt_positions &p)
{
    return {(int)p.count, (int)p.count / 2, {(int)p.first[0], (int)p.first[1]}};
}

/* Copy between the keys of all ranks, one rank after the other, and `ordered`, the keys by position
 * [samples, T, 2Kw]. */
dt_status order_keys(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_piece *piece, size_t samples,
                     const attention_shape &s, void *keys, void *ordered, bool back)
{
    size_t bytes = dt_dtype_bytes(k->model.dtype), count = piece->queries.count, half = count / 2 * s.key_row;
    for (int i = 0; i < 2 * piece->ranks; i++) {
        struct gpt_positions p = gpt_positions_of(&k->model, i / 2, piece->ranks, DT_CONTEXT_ALL_GATHER);
        char *there = (char *)keys + ((size_t)(i / 2) * samples * count * s.key_row + (size_t)(i % 2) * half) * bytes;
        char *here = (char *)ordered + p.first[i % 2] * s.key_row * bytes;
        size_t stride = count * s.key_row, ordered_stride = (size_t)s.T * s.key_row;
        struct gpt_move a = {there, here, samples, half, stride, ordered_stride};
        if (back)
            a = {here, there, samples, half, ordered_stride, stride};
        DT_TRY(gpt_cuda_move(k, stream, &a));
    }
    return DT_OK;
}

/* Rows and strides of a piece, whose keys are in a separate array. */
dt_status take_piece(const struct gpt_kernels *k, const struct gpt_piece *piece, attention_shape *s)
{
    if (gpt_of(&k->model)->attention != GPT_ATTENTION_FUSED)
        return dt_fail(DT_ERR_INVALID, "attention: ranks share samples in fused attention alone");
    s->queries = rows_of(piece->queries);
    s->key_row = 2 * (size_t)s->key_heads * (size_t)s->width;
    if (piece->key_ranks < piece->ranks)
        s->keys = rows_of(gpt_positions_of(&k->model, piece->key_rank, piece->ranks, DT_CONTEXT_RING));
    if (s->drop.threshold > 0 && s->keys.half < s->T && s->keys.half % 8 != 0)
        return dt_fail(DT_ERR_INVALID, "attention: pieces of %d positions: with dropout the cuda kernels take pieces in eights",
                       s->keys.half);
    return DT_OK;
}

} // namespace

static dt_status check_shared_memory(struct gpt_kernels *k)
{
    const struct dt_model *m = &k->model;
    struct gpt_part heads = {0, (size_t)gpt_of(m)->heads}, kv_heads = {0, (size_t)gpt_kv_heads(m)};
    struct gpt_dropout none = {};
    bool fused = gpt_of(m)->attention == GPT_ATTENTION_FUSED;
    attention_forward f = {};
    attention_backward b = {};
    b.weights = fused ? nullptr : k; /* any address: unfused attention needs shared memory for tiles of weights */
    if (shape_of(k, &none, 1, &heads, &kv_heads, &f.shape) < 0)
        return DT_OK; /* kernels of a model without attention, as in timing one kernel; a call that needs attention reports the error */
    b.shape = f.shape;
    switch (m->dtype) {
    case DT_FP16: DT_TRY(attention_forward_tensor<__half>(nullptr, 1, f)); return attention_backward_tensor<__half>(nullptr, 1, b);
    case DT_BF16:
        DT_TRY(attention_forward_tensor<__nv_bfloat16>(nullptr, 1, f));
        return attention_backward_tensor<__nv_bfloat16>(nullptr, 1, b);
    default: DT_TRY(attention_forward_fp32(nullptr, 1, f)); return attention_backward_fp32(nullptr, 1, b);
    }
}

extern "C" dt_status gpt_cuda_attention_check(struct gpt_kernels *k)
{
    dt_status status = check_shared_memory(k);
    return status < 0 ? dt_fail(status, "%s, or more and narrower heads (model.heads)", dt_error_message()) : DT_OK;
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_attention, gpt_attention_forward)
{
    bool fused = gpt_of(&k->model)->attention == GPT_ATTENTION_FUSED;
    if (fused ? !a->lse : !a->weights)
        return dt_fail(DT_ERR_INVALID, "attention forward: fused needs lse, unfused needs weights");
    attention_forward f = {{}, a->qkv, a->piece.keys, a->out, fused ? a->lse : nullptr, fused ? nullptr : a->weights, a->piece.joins};
    DT_TRY(shape_of(k, &a->dropout, a->samples, &a->heads, &a->kv_heads, &f.shape));
    if (a->samples == 0)
        return DT_OK;
    struct dt_buffer ordered = {};
    size_t keys_bytes = gpt_ordered_bytes(&k->model, &a->piece, a->samples, a->kv_heads.count);
    if (!f.keys)
        f.keys = (const char *)a->qkv + f.shape.d * dt_dtype_bytes(k->model.dtype);
    else
        DT_TRY(take_piece(k, &a->piece, &f.shape));
    if (keys_bytes) {
        DT_TRY(dt_alloc(stream, DT_WORKSPACE, keys_bytes, &ordered));
        DT_TRY(order_keys(k, stream, &a->piece, a->samples, f.shape, (void *)f.keys, ordered.data, false));
        f.keys = ordered.data;
    }
    f.shape.row_bytes = access_bytes((size_t)f.shape.width, a->qkv, a->out, f.keys);
    bool hopper = (k->base->trials.in_use & GPT_CUDA_HOPPER_ATTENTION) && attention_fits_hopper(f.shape, fused);
    switch (k->model.dtype) {
    case DT_FP16: DT_TRY((hopper ? attention_forward_hopper<__half> : attention_forward_tensor<__half>)(stream, a->samples, f)); break;
    case DT_BF16:
        DT_TRY((hopper ? attention_forward_hopper<__nv_bfloat16> : attention_forward_tensor<__nv_bfloat16>)(stream, a->samples, f));
        break;
    default: DT_TRY(attention_forward_fp32(stream, a->samples, f));
    }
    dt_free(stream, &ordered);
    return DT_OK;
}

/* rope: NULL, or the angles by which dq and dk are rotated back. */
static dt_status queue_gradient(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_attention_backward *a, const float *rope)
{
    bool fused = gpt_of(&k->model)->attention == GPT_ATTENTION_FUSED;
    if (!a->out || (fused ? !a->lse : !a->weights))
        return dt_fail(DT_ERR_INVALID, "attention backward: fused needs out and lse, unfused needs out and weights");
    const struct gpt_piece *piece = &a->piece;
    attention_backward b = {};
    b.dout = a->dout;
    b.out = a->out;
    b.qkv = a->qkv;
    b.lse = fused ? a->lse : nullptr;
    b.weights = fused ? nullptr : a->weights;
    b.dqkv = a->dqkv;
    b.joins = piece->joins;
    b.rope = rope;
    DT_TRY(shape_of(k, &a->dropout, a->samples, &a->heads, &a->kv_heads, &b.shape));
    if (a->samples == 0)
        return DT_OK;
    if (piece->keys)
        DT_TRY(take_piece(k, piece, &b.shape));
    size_t rows = a->samples * (size_t)b.shape.queries.count,
           keys_bytes = gpt_ordered_bytes(&k->model, piece, a->samples, a->kv_heads.count);
    DT_TRY(gpt_cuda_scratch(k, rows * (size_t)b.shape.heads * sizeof(float)));
    b.dots = (float *)k->scratch.data;
    struct dt_buffer ordered = {};
    if (!piece->keys) {
        size_t before = b.shape.d * dt_dtype_bytes(k->model.dtype);
        b.keys = (const char *)a->qkv + before;
        b.dkeys = (char *)a->dqkv + before;
    } else if (keys_bytes) {
        DT_TRY(dt_alloc(stream, DT_WORKSPACE, 2 * keys_bytes, &ordered));
        b.keys = ordered.data;
        b.dkeys = (char *)ordered.data + keys_bytes;
        DT_TRY(order_keys(k, stream, piece, a->samples, b.shape, (void *)piece->keys, (void *)b.keys, false));
    } else {
        b.keys = piece->keys;
        b.dkeys = a->dkeys;
    }
    b.shape.row_bytes = access_bytes((size_t)b.shape.width, a->dout, a->qkv, a->dqkv);
    int other_bytes = access_bytes((size_t)b.shape.width, a->out, b.keys, b.dkeys);
    b.shape.row_bytes = other_bytes < b.shape.row_bytes ? other_bytes : b.shape.row_bytes;
    b.shape.weight_bytes = access_bytes((size_t)b.shape.T, b.weights);
    b.keeps_bits = !piece->keys && b.shape.drop.threshold > 0 && b.shape.width <= ATTENTION_ONE_KERNEL_WIDTH && bits_fit(b.shape, a->dqkv);
    bool hopper = (k->base->trials.in_use & GPT_CUDA_HOPPER_ATTENTION_GRADIENT) && attention_fits_hopper(b.shape, fused);
    switch (k->model.dtype) {
    case DT_FP16: DT_TRY((hopper ? attention_backward_hopper<__half> : attention_backward_tensor<__half>)(stream, a->samples, b)); break;
    case DT_BF16:
        DT_TRY((hopper ? attention_backward_hopper<__nv_bfloat16> : attention_backward_tensor<__nv_bfloat16>)(stream, a->samples, b));
        break;
    default:
        DT_TRY(queue_dots(stream, b.dots, (const float *)a->dout, (const float *)a->out, rows, b.shape));
        DT_TRY(attention_backward_fp32(stream, a->samples, b));
    }
    if (keys_bytes)
        DT_TRY(order_keys(k, stream, piece, a->samples, b.shape, a->dkeys, b.dkeys, true));
    dt_free(stream, &ordered);
    return DT_OK;
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_attention_gradient, gpt_attention_backward)
{
    return queue_gradient(k, stream, a, nullptr);
}

extern "C" GPT_KERNEL_FUNCTION(gpt_cuda_attention_rope_gradient, gpt_attention_backward)
{
    if (!k->rope)
        return dt_fail(DT_ERR_INVALID, "rope: the kernels are of a model without");
    return queue_gradient(k, stream, a, k->rope);
}
