/* The tests that every communicator must pass, for any backend and size. Runs on each rank; counts
 * failures as test/check.h does. */
#pragma once

#include "lib/base/clock.h"
#include "lib/comm/backend.h"
#include "test/check.h"

#include <stdlib.h>

/* A device, its world, two streams. */
struct comm_body {
    struct dt_device *device;
    struct dt_comm *comm;
    struct dt_stream *first, *second;
    int rank, size;
    bool nccl; /* sums are NCCL's: see lib/comm/comm.h */
    bool slow; /* an emulated GPU: shorter loops */
};

/* Device memory, and the host's copy of it. */
struct body_buffer {
    struct dt_buffer buffer;
    char *data; /* on the device */
    void *host;
};

/* Ranks share GPUs where there are too few. */
static inline dt_status comm_body_init(struct comm_body *b, const char *kind, const struct dt_world *world,
                                       const struct dt_comm_options *options)
{
    bool cuda = strcmp(kind, "cuda") == 0, share = cuda && dt_device_count(kind) < world->local_size;
    struct dt_device_options device_options = {
        .threads = 1, .local_rank = world->local_rank, .local_size = world->local_size, .share = share};
    struct dt_comm_options comm_options = options ? *options : (struct dt_comm_options){0};
    comm_options.share_devices |= share;
    *b = (struct comm_body){.rank = world->rank, .size = world->size, .nccl = cuda && world->size > 1};
    DT_TRY(dt_device_create(kind, &device_options, &b->device));
    struct dt_device_info info;
    dt_device_info(b->device, &info);
    b->slow = strstr(info.name, "emulated") != NULL;
    dt_status status = dt_comm_create(b->device, world, &comm_options, &b->comm);
    if (status == DT_OK)
        status = dt_stream_create(b->device, "first", &b->first);
    if (status == DT_OK)
        status = dt_stream_create(b->device, "second", &b->second);
    return status;
}

static inline void comm_body_finish(struct comm_body *b)
{
    dt_stream_destroy(b->first);
    dt_stream_destroy(b->second);
    dt_comm_destroy(b->comm);
    dt_device_destroy(b->device);
}

/* Element `i` of rank `rank`: small integers, whose sums over a few ranks are exact in every
 * dtype. */
static inline float body_value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + i / 61) % 32) - 8;
}

static inline void body_write(void *to, size_t i, enum dt_dtype dtype, float value)
{
    if (dtype == DT_FP32)
        ((float *)to)[i] = value;
    else
        ((unsigned short *)to)[i] = dtype == DT_FP16 ? dt_fp32_to_fp16(value) : dt_fp32_to_bf16(value);
}

static inline float body_read(const void *from, size_t i, enum dt_dtype dtype)
{
    if (dtype == DT_FP32)
        return ((const float *)from)[i];
    unsigned short bits = ((const unsigned short *)from)[i];
    return dtype == DT_FP16 ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

/* `value` as the dtype holds it. */
static inline float body_rounded(float value, enum dt_dtype dtype)
{
    float bits;
    body_write(&bits, 0, dtype, value);
    return body_read(&bits, 0, dtype);
}

/* What element i of a reduction over `size` ranks must be. */
static inline float body_reduced(int size, size_t i, enum dt_dtype dtype, enum dt_reduction op)
{
    float sum = 0;
    for (int r = 0; r < size; r++)
        sum += body_value(r, i);
    return op == DT_AVG ? body_rounded(sum * (1.0f / (float)size), dtype) : sum;
}

/* Compare with body_reduced. NCCL multiplies by 1 / size before it adds, and rounds each time:
 * exact only where the size is a power of two. */
static inline bool body_is_reduced(const struct comm_body *b, float value, size_t i, enum dt_dtype dtype, enum dt_reduction op)
{
    float want = body_reduced(b->size, i, dtype, op), step = dtype == DT_FP32 ? 0x1p-23f : dtype == DT_FP16 ? 0x1p-10f : 0x1p-7f;
    bool rounds = b->nccl && op == DT_AVG && (b->size & (b->size - 1)) != 0;
    return rounds ? fabsf(value - want) <= 2 * 24 * step * (float)b->size : value == want;
}

static inline void body_fill(const struct comm_body *b, void *to, size_t count, size_t first, enum dt_dtype dtype)
{
    for (size_t i = 0; i < count; i++)
        body_write(to, i, dtype, body_value(b->rank, first + i));
}

static inline struct body_buffer body_alloc(struct comm_body *b, size_t elems, enum dt_dtype dtype)
{
    struct body_buffer x;
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, elems * dt_dtype_bytes(dtype), &x.buffer));
    CHECK_OK(dt_stream_synchronize(b->first));
    x.data = x.buffer.data;
    x.host = malloc(elems * dt_dtype_bytes(dtype));
    if (!x.host)
        abort();
    return x;
}

static inline void body_free(struct comm_body *b, struct body_buffer *x)
{
    dt_free(b->first, &x->buffer);
    free(x->host);
}

static inline void body_to_device(struct comm_body *b, const struct body_buffer *x)
{
    CHECK_OK(dt_copy_from_host(b->first, x->data, x->host, x->buffer.bytes));
    CHECK_OK(dt_stream_synchronize(b->first));
}

static inline void body_to_host(struct comm_body *b, const struct body_buffer *x)
{
    CHECK_OK(dt_copy_to_host(b->first, x->host, x->data, x->buffer.bytes));
    CHECK_OK(dt_stream_synchronize(b->first));
}

static inline void body_all_reduce(struct comm_body *b, size_t count, enum dt_dtype dtype, enum dt_reduction op)
{
    struct body_buffer x = body_alloc(b, count, dtype);
    body_fill(b, x.host, count, 0, dtype);
    body_to_device(b, &x);
    CHECK_OK(dt_all_reduce(b->comm, x.data, count, dtype, op, b->first));
    body_to_host(b, &x);
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += !body_is_reduced(b, body_read(x.host, i, dtype), i, dtype, op);
    CHECK(wrong == 0, "all_reduce of %zu %s: %d wrong", count, dt_dtype_name(dtype), wrong);
    body_free(b, &x);
}

static inline void body_reduce_scatter(struct comm_body *b, size_t count, enum dt_dtype dtype, enum dt_reduction op, bool alias)
{
    size_t all = count * (size_t)b->size, first = count * (size_t)b->rank;
    struct body_buffer x = body_alloc(b, all, dtype), y = body_alloc(b, count, dtype);
    body_fill(b, x.host, all, 0, dtype);
    body_to_device(b, &x);
    CHECK_OK(dt_reduce_scatter(b->comm, x.data, alias ? x.data + first * dt_dtype_bytes(dtype) : y.data, count, dtype, op, b->first));
    body_to_host(b, alias ? &x : &y);
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += !body_is_reduced(b, body_read(alias ? x.host : y.host, alias ? first + i : i, dtype), first + i, dtype, op);
    CHECK(wrong == 0, "reduce_scatter of %zu %s, alias %d: %d wrong", count, dt_dtype_name(dtype), alias, wrong);
    body_free(b, &x);
    body_free(b, &y);
}

static inline void body_all_gather(struct comm_body *b, size_t count, enum dt_dtype dtype, bool alias)
{
    size_t all = count * (size_t)b->size, first = count * (size_t)b->rank * dt_dtype_bytes(dtype);
    struct body_buffer x = body_alloc(b, count, dtype), y = body_alloc(b, all, dtype);
    memset(y.host, 0xFF, y.buffer.bytes);
    body_fill(b, alias ? (char *)y.host + first : x.host, count, 0, dtype);
    body_to_device(b, alias ? &y : &x);
    CHECK_OK(dt_all_gather(b->comm, alias ? y.data + first : x.data, y.data, count, dtype, b->first));
    body_to_host(b, &y);
    int wrong = 0;
    for (size_t i = 0; i < all; i++)
        wrong += body_read(y.host, i, dtype) != body_value((int)(i / count), i % count);
    CHECK(wrong == 0, "all_gather of %zu %s, alias %d: %d wrong", count, dt_dtype_name(dtype), alias, wrong);
    body_free(b, &x);
    body_free(b, &y);
}

/* all_to_all, and shift. */
static inline void body_exchanges(struct comm_body *b, size_t count, enum dt_dtype dtype)
{
    size_t all = count * (size_t)b->size, part = count * (size_t)b->rank;
    struct body_buffer x = body_alloc(b, all, dtype), y = body_alloc(b, all, dtype);
    int wrong = 0, shifted = 0, before = (b->rank + b->size - 1) % b->size;
    body_fill(b, x.host, all, 0, dtype);
    body_to_device(b, &x);
    memset(y.host, 0xFF, y.buffer.bytes);
    body_to_device(b, &y);
    CHECK_OK(dt_all_to_all(b->comm, x.data, y.data, count, dtype, b->first));
    body_to_host(b, &y);
    for (size_t i = 0; i < all; i++)
        wrong += body_read(y.host, i, dtype) != body_value((int)(i / count), part + i % count);
    CHECK(wrong == 0, "all_to_all of %zu %s: %d wrong", count, dt_dtype_name(dtype), wrong);
    CHECK_OK(dt_shift(b->comm, x.data, y.data, count, dtype, b->first));
    body_to_host(b, &y);
    for (size_t i = 0; i < count; i++)
        shifted += body_read(y.host, i, dtype) != body_value(before, i);
    CHECK(shifted == 0, "shift of %zu %s: %d wrong", count, dt_dtype_name(dtype), shifted);
    body_free(b, &x);
    body_free(b, &y);
}

static inline void body_rooted(struct comm_body *b, size_t count, enum dt_dtype dtype, int root)
{
    struct body_buffer x = body_alloc(b, count, dtype);
    int wrong = 0;
    body_fill(b, x.host, count, 0, dtype);
    body_to_device(b, &x);
    CHECK_OK(dt_broadcast(b->comm, x.data, count, dtype, root, b->first));
    body_to_host(b, &x);
    for (size_t i = 0; i < count; i++)
        wrong += body_read(x.host, i, dtype) != body_value(root, i);
    CHECK(wrong == 0, "broadcast of %zu %s from %d: %d wrong", count, dt_dtype_name(dtype), root, wrong);

    wrong = 0;
    body_fill(b, x.host, count, 0, dtype);
    body_to_device(b, &x);
    CHECK_OK(dt_reduce(b->comm, x.data, count, dtype, DT_AVG, root, b->first));
    body_to_host(b, &x);
    for (size_t i = 0; i < count; i++) {
        float value = body_read(x.host, i, dtype);
        wrong += b->rank == root ? !body_is_reduced(b, value, i, dtype, DT_AVG) : value != body_value(b->rank, i);
    }
    CHECK(wrong == 0, "reduce of %zu %s to %d: %d wrong", count, dt_dtype_name(dtype), root, wrong);
    body_free(b, &x);
}

/* Sums that are not exact are close to double precision, and have the same bits on all ranks. */
static inline void body_same_bits(struct comm_body *b, size_t count, enum dt_dtype dtype)
{
    struct body_buffer x = body_alloc(b, count, dtype);
    float worst = 0, precision = dtype == DT_FP32 ? 0x1p-22f : dtype == DT_FP16 ? 0x1p-9f : 0x1p-6f;
    for (size_t i = 0; i < count; i++)
        body_write(x.host, i, dtype, sinf((float)(i * 5 + (size_t)b->rank * 3 + 1)));
    body_to_device(b, &x);
    CHECK_OK(dt_all_reduce(b->comm, x.data, count, dtype, DT_SUM, b->first));
    body_to_host(b, &x);
    unsigned long long hash = 1469598103934665603u, all[64];
    for (size_t i = 0; i < count * dt_dtype_bytes(dtype); i++)
        hash = (hash ^ ((const unsigned char *)x.host)[i]) * 1099511628211u;
    for (size_t i = 0; i < count; i++) {
        double want = 0;
        for (int r = 0; r < b->size; r++)
            want += (double)body_rounded(sinf((float)(i * 5 + (size_t)r * 3 + 1)), dtype);
        worst = fmaxf(worst, fabsf((float)(body_read(x.host, i, dtype) - want)));
    }
    CHECK(worst <= precision * (float)b->size, "%s: off by %g", dt_dtype_name(dtype), (double)worst);
    CHECK_OK(dt_host_all_gather(b->comm, &hash, sizeof hash, all));
    for (int r = 0; r < b->size; r++)
        CHECK(all[r] == hash, "%s: rank %d has other bits", dt_dtype_name(dtype), r);
    body_free(b, &x);
}

/* Numbers over the ranks' hosts: sums, the highest, and what halves of the ranks have. */
static inline void body_host_numbers(struct comm_body *b)
{
    double mine[3] = {b->rank + 1, -b->rank, b->rank == b->size - 1 ? NAN : 0}, all[6], size = b->size;
    for (int times = 0; times < 3; times++) {
        CHECK_OK(dt_host_reduce(b->comm, mine, 3, all));
        CHECK(all[0] == size * (size + 1) / 2 && all[1] == -size * (size - 1) / 2 && isnan(all[2]), "sums %g, %g, %g", all[0], all[1],
              all[2]);
        CHECK(all[3] == size && all[4] == 0 && isnan(all[5]), "highest %g, %g, %g", all[3], all[4], all[5]);
        int ranks[64], given[64], count = 0;
        for (int i = b->rank % 2; i < b->size; i += 2)
            ranks[count++] = i;
        int number = 100 * times + b->rank;
        CHECK_OK(dt_host_gather_among(b->comm, ranks, count, &number, sizeof number, given));
        for (int i = 0; i < count; i++)
            CHECK(given[i] == 100 * times + ranks[i], "rank %d gave %d", ranks[i], given[i]);
    }
}

/* Numbers that rank 0 alone gets. */
static inline void body_host_gather(struct comm_body *b)
{
    for (int turn = 0; turn < 3; turn++) {
        int mine[2] = {b->rank, turn}, all[2 * 64];
        CHECK(b->size <= 64);
        CHECK_OK(dt_host_gather(b->comm, mine, sizeof mine, b->rank == 0 ? all : NULL));
        for (int r = 0; b->rank == 0 && r < b->size; r++)
            CHECK(all[2 * r] == r && all[2 * r + 1] == turn, "rank %d gave %d, %d", r, all[2 * r], all[2 * r + 1]);
    }
}

/* Everybody sends to the next rank and receives from the previous one: a deadlock unless grouped.
 * Two messages each way, of a size that no buffer of the library takes, and received in the order
 * in which they were sent. */
static inline void body_group(struct comm_body *b, size_t count)
{
    int next = (b->rank + 1) % b->size, previous = (b->rank + b->size - 1) % b->size, wrong = 0;
    struct body_buffer x = body_alloc(b, 2 * count, DT_FP32), y = body_alloc(b, 2 * count, DT_FP32);
    char *out = x.data, *in = y.data;
    size_t bytes = count * sizeof(float);
    body_fill(b, x.host, 2 * count, 0, DT_FP32);
    body_to_device(b, &x);
    CHECK_OK(dt_group_start(b->comm));
    CHECK_OK(dt_send(b->comm, out, count, DT_FP32, next, b->first));
    CHECK_OK(dt_send(b->comm, out + bytes, count, DT_FP32, next, b->first));
    CHECK_OK(dt_recv(b->comm, in, count, DT_FP32, previous, b->first));
    CHECK_OK(dt_recv(b->comm, in + bytes, count, DT_FP32, previous, b->first));
    CHECK_OK(dt_group_end(b->comm));
    body_to_host(b, &y);
    for (size_t i = 0; i < 2 * count; i++)
        wrong += body_read(y.host, i, DT_FP32) != body_value(previous, i);
    CHECK(wrong == 0, "group of %zu: %d wrong", count, wrong);
    body_free(b, &x);
    body_free(b, &y);
}

/* A chain without a group, each direction on its own stream as a pipeline does it. */
static inline void body_chain(struct comm_body *b, size_t count)
{
    struct body_buffer x = body_alloc(b, count, DT_BF16), y = body_alloc(b, count, DT_BF16);
    int wrong = 0;
    body_fill(b, x.host, count, 0, DT_BF16);
    body_to_device(b, &x);
    for (int turn = 0; turn < 3; turn++) {
        if (b->rank > 0)
            CHECK_OK(dt_recv(b->comm, y.data, count, DT_BF16, b->rank - 1, b->first));
        if (b->rank < b->size - 1)
            CHECK_OK(dt_send(b->comm, x.data, count, DT_BF16, b->rank + 1, b->second));
    }
    CHECK_OK(dt_stream_synchronize(b->second));
    body_to_host(b, &y);
    for (size_t i = 0; i < count && b->rank > 0; i++)
        wrong += body_read(y.host, i, DT_BF16) != body_value(b->rank - 1, i);
    CHECK(wrong == 0, "chain of %zu: %d wrong", count, wrong);
    body_free(b, &x);
    body_free(b, &y);
}

/* Two communicators at once, on a stream each: the world and the even or odd ranks, whose order is
 * turned round. */
static inline void body_concurrent(struct comm_body *b)
{
    enum { COUNT = 200001, TURNS = 5 };
    struct dt_comm *parity = NULL, *pair = NULL;
    int members = (b->size + 1 - b->rank % 2) / 2, ranks[64];
    CHECK(members <= 64);
    for (int i = 0; i < members && i < 64; i++)
        ranks[i] = b->rank % 2 + 2 * (members - 1 - i);
    const int stranger = b->rank == 0;
    CHECK(b->size == 1 ||
              (dt_comm_subset(b->comm, &stranger, 1, "other", &parity) == DT_ERR_INVALID && strstr(dt_error_message(), "itself")),
          "a list of one, without this rank: %s", dt_error_message());
    CHECK_OK(dt_comm_subset(b->comm, ranks, members, "parity", &parity));
    if (!parity)
        return;
    CHECK(dt_comm_size(parity) == members && dt_comm_rank(parity) == members - 1 - b->rank / 2, "%d of %d", dt_comm_rank(parity),
          dt_comm_size(parity));
    struct body_buffer x = body_alloc(b, COUNT, DT_FP32), y = body_alloc(b, COUNT, DT_FP32);
    const float *in = x.host, *other = y.host;
    for (int turn = 0; turn < TURNS; turn++) {
        int wrong = 0;
        body_fill(b, x.host, COUNT, (size_t)turn, DT_FP32);
        body_fill(b, y.host, COUNT, (size_t)turn, DT_FP32);
        body_to_device(b, &x);
        body_to_device(b, &y);
        CHECK_OK(dt_all_reduce(b->comm, x.data, COUNT, DT_FP32, DT_SUM, b->first));
        CHECK_OK(dt_all_reduce(parity, y.data, COUNT, DT_FP32, DT_SUM, b->second));
        CHECK_OK(dt_stream_synchronize(b->second));
        body_to_host(b, &x);
        body_to_host(b, &y);
        for (size_t i = 0; i < COUNT; i++) {
            float sum = 0;
            for (int r = b->rank % 2; r < b->size; r += 2)
                sum += body_value(r, i + (size_t)turn);
            wrong += in[i] != body_reduced(b->size, i + (size_t)turn, DT_FP32, DT_SUM) || other[i] != sum;
        }
        CHECK(wrong == 0, "two communicators, turn %d: %d wrong", turn, wrong);
    }
    /* One communicator, two streams: matched by the order of calls, whichever stream is faster. */
    body_fill(b, x.host, COUNT, 0, DT_FP32);
    body_fill(b, y.host, 999, 5, DT_FP32);
    body_to_device(b, &x);
    body_to_device(b, &y);
    CHECK_OK(dt_all_reduce(b->comm, x.data, COUNT, DT_FP32, DT_SUM, b->rank % 2 ? b->first : b->second));
    CHECK_OK(dt_all_reduce(b->comm, y.data, 999, DT_FP32, DT_SUM, b->rank % 2 ? b->second : b->first));
    CHECK_OK(dt_stream_synchronize(b->second));
    body_to_host(b, &x);
    body_to_host(b, &y);
    CHECK(in[COUNT - 1] == body_reduced(b->size, COUNT - 1, DT_FP32, DT_SUM));
    CHECK(other[998] == body_reduced(b->size, 1003, DT_FP32, DT_SUM));
    body_free(b, &y);

    /* Ranks 0 and 1, the other way round; the rest stays out. Made while operations of the world
     * are under way. */
    int pair_ranks[2] = {b->size > 1, 0};
    bool is_in = b->rank < 2;
    body_fill(b, x.host, COUNT, 0, DT_FP32);
    body_to_device(b, &x);
    CHECK_OK(dt_all_reduce(b->comm, x.data, COUNT, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_comm_subset(b->comm, is_in ? pair_ranks : NULL, is_in ? 1 + (b->size > 1) : 0, "pair", &pair));
    body_to_host(b, &x);
    CHECK(in[COUNT - 1] == body_reduced(b->size, COUNT - 1, DT_FP32, DT_SUM));
    CHECK(is_in == (pair != NULL));
    if (pair)
        CHECK(dt_comm_rank(pair) == (b->size > 1 ? 1 - b->rank : 0), "%d", dt_comm_rank(pair));
    body_free(b, &x);
    dt_comm_destroy(pair);
    dt_comm_destroy(parity);
}

/* No rank passes before the last one has arrived, and no bytes are counted. */
static inline void body_start_together(struct comm_body *b)
{
    double times[2], all[64][2], last = 0;
    CHECK(b->size <= 64);
    for (int i = 0; i < 3; i++) {
        uint64_t bytes = dt_comm_bytes(b->comm, DT_COMM_ALL_REDUCE);
        if (b->rank == i % b->size)
            dt_sleep_ms(20);
        times[0] = dt_clock_s();
        CHECK_OK(dt_comm_start_together(b->comm, b->first));
        times[1] = dt_clock_s();
        CHECK(dt_comm_bytes(b->comm, DT_COMM_ALL_REDUCE) == bytes);
        CHECK_OK(dt_host_all_gather(b->comm, times, sizeof times, all));
        for (int r = 0; r < b->size && r < 64; r++)
            last = fmax(last, all[r][0]);
        CHECK(times[1] >= last, "rank %d is through %g s before the last has come", b->rank, last - times[1]);
    }
}

/* Sums and maxima of numbers. The exchange is not counted as traffic, and a shorter list after a
 * longer one has no leftovers. */
static inline void body_numbers(struct comm_body *b)
{
    uint64_t bytes = dt_comm_bytes(b->comm, DT_COMM_ALL_GATHER);
    for (int count = 3; count > 0; count -= 2) {
        double mine[3] = {b->rank + 1 / 3.0, -b->rank, b->rank == b->size - 1 ? NAN : 1}, all[6];
        CHECK_OK(dt_comm_reduce_numbers(b->comm, mine, count, b->first, all));
        double sum = b->size * (b->size - 1) / 2.0;
        CHECK(fabs(all[0] - sum - b->size / 3.0) < 1e-14 * b->size * b->size && all[count] == b->size - 1 + 1 / 3.0, "%g, highest %g",
              all[0], all[count]);
        CHECK(count == 1 || (all[1] == -sum && all[4] == 0 && isnan(all[2]) && isnan(all[5])), "%g %g, %g %g", all[1], all[4], all[2],
              all[5]);
    }
    CHECK(dt_comm_bytes(b->comm, DT_COMM_ALL_GATHER) == bytes);
}

/* Take subsets: all ranks but the last, and each rank with a neighbour. Each subset transfers the
 * same number of bytes. */
static inline void body_take(struct comm_body *b, const char *names[2], struct dt_comm *out[2])
{
    int most[64], pair[2] = {b->rank / 2 * 2, b->rank / 2 * 2 + 1};
    struct body_buffer x = body_alloc(b, 16, DT_FP32);
    bool first = b->size == 1 || b->rank < b->size - 1;
    for (int i = 0; i < b->size && i < 64; i++)
        most[i] = i;
    CHECK_OK(dt_comm_subset(b->comm, most, first ? b->size - (b->size > 1) : 0, names[0], &out[0]));
    CHECK_OK(dt_comm_subset(b->comm, pair, pair[1] < b->size ? 2 : 1, names[1], &out[1]));
    for (int i = 0; i < 2; i++)
        if (out[i])
            CHECK_OK(dt_all_reduce(out[i], x.data, 16, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_stream_synchronize(b->first));
    body_free(b, &x);
    for (int i = 0; i < 2; i++)
        dt_comm_destroy(out[i]);
}

static int body_subsets; /* that the backend was asked for */
static const struct dt_comm_backend *body_backend;
static inline dt_status body_count_subset(struct dt_comm *parent, const struct dt_comm_members *members, const char *name,
                                          struct dt_comm **out)
{
    body_subsets++;
    return body_backend->subset(parent, members, name, out);
}

/* A subset with the same ranks is made once, also after others; other ranks give another subset. */
static inline void body_keep(struct comm_body *b)
{
    static const char *names[][2] = {{"most", "pair"}, {"pair", "pair"}};
    struct dt_comm_backend counting = *b->comm->backend;
    struct dt_comm *before[2], *now[2];
    body_backend = b->comm->backend;
    body_subsets = 0;
    counting.subset = body_count_subset;
    b->comm->backend = &counting;
    CHECK_OK(dt_comm_keep(b->comm, "a"));
    body_take(b, names[0], before);
    CHECK_OK(dt_comm_keep(b->comm, "a"));
    body_take(b, names[0], now);
    CHECK(body_subsets == 2 && now[0] == before[0] && now[1] == before[1], "%d subsets", body_subsets);
    body_take(b, names[0], now); /* without an end of those before */
    CHECK(body_subsets == 4 && (!now[0] || now[0] != before[0]) && now[1] != before[1], "%d subsets", body_subsets);
    CHECK_OK(dt_comm_keep(b->comm, "b"));
    body_take(b, names[1], now);
    CHECK(body_subsets == 6, "%d subsets", body_subsets);
    b->comm->backend = body_backend;
}

static inline void body_arguments_and_dump(struct comm_body *b)
{
    struct body_buffer x = body_alloc(b, 16, DT_FP32);
    CHECK(dt_broadcast(b->comm, x.data, 16, DT_FP32, b->size, b->first) == DT_ERR_INVALID);
    CHECK(dt_send(b->comm, x.data, 16, DT_FP32, -1, b->first) == DT_ERR_INVALID);
    CHECK(dt_send(b->comm, x.data, 16, DT_FP32, b->rank, b->first) == DT_ERR_INVALID);
    CHECK_OK(dt_all_reduce(b->comm, x.data, 0, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_zero(b->first, x.data, 64));
    for (int i = 0; i < 70; i++)
        CHECK_OK(dt_all_reduce(b->comm, x.data, 16, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_stream_synchronize(b->first));
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return;
    dt_comm_dump(b->comm, memory);
    fclose(memory);
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    CHECK(lines == 65 && strstr(text, "world") && strstr(text, "all_reduce") && strstr(text, "done"), "%d lines: %s", lines, text);
    free(text);
    body_free(b, &x);
}

/* Captured once and launched again: collectives of the world and of a part of it on two streams,
 * and a group of transfers. Each launch takes what is in the memory then. */
static inline void body_graph(struct comm_body *b)
{
    enum { COUNT = 5003, LAUNCHES = 3 };
    struct dt_comm *copy = NULL;
    struct dt_graph *graph = NULL;
    struct dt_event *ready = NULL, *done = NULL;
    struct body_buffer x = body_alloc(b, COUNT, DT_FP32), y = body_alloc(b, COUNT, DT_FP32), z = body_alloc(b, COUNT, DT_FP32);
    int next = (b->rank + 1) % b->size, previous = (b->rank + b->size - 1) % b->size;
    int ranks[64];
    CHECK(b->size <= 64);
    for (int i = 0; i < b->size && i < 64; i++)
        ranks[i] = i;
    CHECK_OK(dt_comm_subset(b->comm, ranks, b->size, "copy", &copy));
    CHECK_OK(dt_event_create(b->device, &ready));
    CHECK_OK(dt_event_create(b->device, &done));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        int wrong = 0;
        body_fill(b, x.host, COUNT, (size_t)launch, DT_FP32);
        body_fill(b, y.host, COUNT, (size_t)launch + 7, DT_FP32);
        body_to_device(b, &x);
        body_to_device(b, &y);
        if (launch == 0) {
            CHECK_OK(dt_graph_begin(b->first));
            CHECK_OK(dt_event_record(ready, b->first));
            CHECK_OK(dt_stream_wait(b->second, ready));
            CHECK_OK(dt_all_reduce(copy, y.data, COUNT, DT_FP32, DT_SUM, b->second));
            CHECK_OK(dt_group_start(b->comm));
            CHECK_OK(dt_send(b->comm, x.data, COUNT, DT_FP32, next, b->first));
            CHECK_OK(dt_recv(b->comm, z.data, COUNT, DT_FP32, previous, b->first));
            CHECK_OK(dt_group_end(b->comm));
            CHECK_OK(dt_all_reduce(b->comm, x.data, COUNT, DT_FP32, DT_SUM, b->first));
            CHECK_OK(dt_event_record(done, b->second));
            CHECK_OK(dt_stream_wait(b->first, done));
            CHECK_OK(dt_graph_end(b->first, &graph));
        } else {
            CHECK_OK(dt_graph_launch(graph, b->first));
        }
        body_to_host(b, &x);
        body_to_host(b, &y);
        body_to_host(b, &z);
        for (size_t i = 0; i < COUNT; i++) {
            size_t at = i + (size_t)launch;
            wrong += body_read(x.host, i, DT_FP32) != body_reduced(b->size, at, DT_FP32, DT_SUM) ||
                     body_read(y.host, i, DT_FP32) != body_reduced(b->size, at + 7, DT_FP32, DT_SUM) ||
                     body_read(z.host, i, DT_FP32) != body_value(previous, at);
        }
        CHECK(wrong == 0, "launch %d: %d wrong", launch, wrong);
    }
    dt_graph_destroy(graph);
    dt_event_destroy(ready);
    dt_event_destroy(done);
    dt_comm_destroy(copy);
    body_free(b, &x);
    body_free(b, &y);
    body_free(b, &z);
}

/* A short mixture, for repeating. */
static inline void comm_body_soak(struct comm_body *b)
{
    body_all_reduce(b, 300001, DT_BF16, DT_AVG);
    body_all_gather(b, 5001, DT_FP16, true);
    if (b->size > 1)
        body_group(b, 3001);
}

static inline void comm_body_run(struct comm_body *b)
{
    static const size_t counts[] = {1, 2, 3, 17, 1000, 4097, 70001, 700001};
    size_t most = sizeof counts / sizeof counts[0] - b->slow;
    CHECK(dt_comm_rank(b->comm) == b->rank && dt_comm_size(b->comm) == b->size);
    CHECK(b->size > 1 ? dt_comm_library(b->comm)[0] != 0 : strcmp(dt_comm_library(b->comm), "none") == 0, "%s", dt_comm_library(b->comm));
    body_host_numbers(b);
    body_host_gather(b);
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++) {
        for (size_t n = 0; n < most && !test_failures; n++) {
            enum dt_reduction op = n % 2 ? DT_AVG : DT_SUM;
            body_all_reduce(b, counts[n], (enum dt_dtype)dtype, op);
            body_reduce_scatter(b, counts[n], (enum dt_dtype)dtype, op, n % 2);
            body_reduce_scatter(b, counts[n], (enum dt_dtype)dtype, op, !(n % 2));
            body_all_gather(b, counts[n], (enum dt_dtype)dtype, n % 2);
            body_all_gather(b, counts[n], (enum dt_dtype)dtype, !(n % 2));
            body_exchanges(b, counts[n], (enum dt_dtype)dtype);
            for (int root = 0; root < b->size; root++)
                body_rooted(b, counts[n] > 100000 ? 140001 : counts[n], (enum dt_dtype)dtype, root);
        }
        body_same_bits(b, 50021, (enum dt_dtype)dtype);
    }
    if (test_failures)
        return; /* after a failure the ranks may not agree any more */
    if (b->size > 1) {
        body_group(b, 10);
        body_group(b, 300007);
        body_chain(b, 10);
        body_chain(b, b->slow ? 500011 : 9000011); /* more than one piece */
    }
    body_concurrent(b);
    if (b->size > 1 && dt_device_captures(b->device))
        body_graph(b);
    body_start_together(b);
    body_numbers(b);
    body_arguments_and_dump(b);
    body_keep(b);
}

/* sim accepts every operation that other devices do, and touches no memory: the addresses are
 * invalid. */
static inline void comm_body_run_sim(struct comm_body *b)
{
    struct dt_buffer x, y;
    struct dt_comm *part = NULL;
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, 4096, &x));
    CHECK_OK(dt_alloc(b->first, DT_COMMUNICATION, (size_t)b->size * 4096, &y));
    CHECK_OK(dt_all_reduce(b->comm, x.data, 1024, DT_FP32, DT_SUM, b->first));
    CHECK_OK(dt_reduce_scatter(b->comm, y.data, x.data, 1024, DT_FP32, DT_AVG, b->first));
    CHECK_OK(dt_all_gather(b->comm, x.data, y.data, 1024, DT_FP32, b->first));
    CHECK_OK(dt_broadcast(b->comm, x.data, 1024, DT_FP32, b->size - 1, b->first));
    CHECK_OK(dt_reduce(b->comm, x.data, 1024, DT_FP32, DT_SUM, 0, b->first));
    int peer = (b->rank + 1) % b->size;
    CHECK(dt_group_end(b->comm) == DT_ERR_INVALID && strstr(dt_error_message(), "never began"));
    CHECK_OK(dt_group_start(b->comm));
    CHECK(dt_group_start(b->comm) == DT_ERR_INVALID && strstr(dt_error_message(), "a group within a group"));
    CHECK(dt_all_reduce(b->comm, x.data, 1024, DT_FP32, DT_SUM, b->first) == DT_ERR_INVALID);
    CHECK(dt_send(b->comm, x.data, 1024, DT_FP32, b->rank, b->first) == DT_ERR_INVALID && strstr(dt_error_message(), "itself"));
    CHECK(b->size == 1 || dt_send(b->comm, x.data, 1024, DT_FP32, peer, b->first) == DT_OK);
    CHECK(b->size == 1 || dt_recv(b->comm, x.data, 1024, DT_FP32, peer, b->first) == DT_OK);
    CHECK(b->size == 1 || dt_recv(b->comm, x.data, 1024, DT_FP32, peer, b->second) == DT_ERR_INVALID);
    CHECK_OK(dt_group_end(b->comm));
    CHECK_OK(dt_stream_synchronize(b->first));
    int ranks[2] = {b->rank, b->size - 1};
    CHECK_OK(dt_comm_subset(b->comm, ranks, b->rank == b->size - 1 ? 1 : 2, "part", &part));
    CHECK(dt_comm_rank(part) == 0 && dt_comm_size(part) == (b->rank == b->size - 1 ? 1 : 2));
    dt_comm_destroy(part);
    static int all[4096];
    CHECK_OK(dt_host_all_gather(b->comm, &b->rank, sizeof b->rank, all));
    CHECK(all[0] == b->rank && all[b->size - 1] == b->rank);
    dt_free(b->first, &x);
    dt_free(b->first, &y);
}
