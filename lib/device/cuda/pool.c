#include "lib/device/cuda/pool.h"

#include "lib/base/grow.h"
#include "lib/device/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 512 << 10, /* smaller requests come from small segments */
    SMALL_SEGMENT_BYTES = 4 << 20,
    SEGMENT_BYTES = 32 << 20,     /* for requests up to half of it; larger ones get their own segment */
    SEGMENT_UNIT_BYTES = 2 << 20, /* the driver's own pages */
    SPLIT_BYTES = 64 << 10,       /* a smaller rest stays with its block */
    SLACK_BYTES = 64 << 20        /* slack above the peak plus an eighth of it */
};

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t live_peak_bytes(const struct cuda_pool *pool)
{
    return pool->live_peak_bytes[CUDA_POOL_LARGE] + pool->live_peak_bytes[CUDA_POOL_SMALL];
}

/* ---- free blocks, by size and then by address ---- */

static bool comes_before(const struct cuda_block *block, size_t bytes, const char *data)
{
    return block->bytes != bytes ? block->bytes < bytes : block->data < data;
}

/* Index of the first free block that does not sort before (bytes, data). */
static size_t first_free(const struct cuda_pool *pool, enum cuda_pool_kind kind, size_t bytes, const char *data)
{
    size_t low = 0, high = pool->free[kind].count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (comes_before(pool->free[kind].blocks[middle], bytes, data))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_free(struct cuda_pool *pool, struct cuda_block *block)
{
    enum cuda_pool_kind kind = block->segment->kind;
    struct cuda_block **blocks = pool->free[kind].blocks;
    size_t at = first_free(pool, kind, block->bytes, block->data);
    memmove(&blocks[at + 1], &blocks[at], (pool->free[kind].count - at) * sizeof *blocks);
    blocks[at] = block;
    pool->free[kind].count++;
}

static void remove_free(struct cuda_pool *pool, struct cuda_block *block)
{
    enum cuda_pool_kind kind = block->segment->kind;
    struct cuda_block **blocks = pool->free[kind].blocks;
    size_t at = first_free(pool, kind, block->bytes, block->data);
    pool->free[kind].count--;
    memmove(&blocks[at], &blocks[at + 1], (pool->free[kind].count - at) * sizeof *blocks);
}

/* A new block, with room reserved for it in the list of free blocks, so that giving back cannot
 * fail. NULL without host memory. */
static struct cuda_block *new_block(struct cuda_pool *pool, enum cuda_pool_kind kind)
{
    if (!DT_ROOM(pool->free[kind].blocks, pool->block_count[kind], pool->free[kind].capacity))
        return NULL;
    struct cuda_block *block = calloc(1, sizeof *block);
    if (block)
        pool->block_count[kind]++;
    return block;
}

static void delete_block(struct cuda_pool *pool, struct cuda_block *block)
{
    pool->block_count[block->segment->kind]--;
    free(block);
}

/* ---- segments ---- */

/* Add a segment, free as a whole. */
static dt_status add_segment(struct cuda_pool *pool, enum cuda_pool_kind kind, size_t bytes)
{
    void *data;
    struct cuda_segment *segment = calloc(1, sizeof *segment);
    struct cuda_block *block = new_block(pool, kind);
    dt_status status = DT_ERR_HOST_MEMORY;
    if (!segment || !block)
        dt_fail(status, "%s memory: no host memory for its lists", pool->name);
    else
        status = pool->grow(pool->context, bytes, &data);
    if (status < 0) {
        pool->block_count[kind] -= block != NULL;
        free(block);
        free(segment);
        return status;
    }
    *segment = (struct cuda_segment){.data = data, .bytes = bytes, .kind = kind, .first = block, .next = pool->segments};
    *block = (struct cuda_block){.data = data, .bytes = bytes, .segment = segment};
    pool->segments = segment;
    pool->reserved_bytes += bytes;
    add_free(pool, block);
    return DT_OK;
}

/* Allocate a segment for `bytes`: large enough for further blocks, or if the driver refuses that,
 * as large as necessary. */
static dt_status grow(struct cuda_pool *pool, enum cuda_pool_kind kind, size_t bytes)
{
    size_t least = round_up(bytes, SEGMENT_UNIT_BYTES), usual = kind == CUDA_POOL_SMALL ? SMALL_SEGMENT_BYTES : SEGMENT_BYTES;
    if (bytes > usual / 2 && kind == CUDA_POOL_LARGE)
        usual = least;
    dt_status status = add_segment(pool, kind, usual);
    return status == DT_ERR_OOM && usual > least ? add_segment(pool, kind, least) : status;
}

static void remove_segment(struct cuda_pool *pool, struct cuda_segment **place)
{
    struct cuda_segment *segment = *place;
    *place = segment->next;
    while (segment->first) {
        struct cuda_block *next = segment->first->next;
        if (!segment->first->taken)
            remove_free(pool, segment->first);
        delete_block(pool, segment->first);
        segment->first = next;
    }
    pool->reserved_bytes -= segment->bytes;
    pool->shrink(pool->context, segment->data);
    free(segment);
}

/* ---- taking and giving ---- */

/* The smallest free block that fits and costs at most `cost`. */
static struct cuda_block *best_free(const struct cuda_pool *pool, enum cuda_pool_kind kind, const struct cuda_order *order, int stream,
                                    size_t bytes, enum cuda_order_cost most)
{
    for (size_t i = first_free(pool, kind, bytes, NULL); i < pool->free[kind].count; i++) {
        struct cuda_block *block = pool->free[kind].blocks[i];
        if (dt_cuda_order_cost(order, stream, &block->after) <= most)
            return block;
    }
    return NULL;
}

/* Merge the next block into `block`; both are free. */
static void join_next(struct cuda_pool *pool, struct cuda_block *block)
{
    struct cuda_block *next = block->next;
    remove_free(pool, block);
    remove_free(pool, next);
    block->bytes += next->bytes;
    dt_cuda_places_merge(&block->after, &next->after);
    block->next = next->next;
    if (block->next)
        block->next->previous = block;
    delete_block(pool, next);
    add_free(pool, block);
}

/* Join all free neighbours that cost `stream` at most this each. */
static bool join_for(struct cuda_pool *pool, enum cuda_pool_kind kind, const struct cuda_order *order, int stream,
                     enum cuda_order_cost most)
{
    bool joined = false;
    for (struct cuda_segment *segment = pool->segments; segment; segment = segment->next) {
        for (struct cuda_block *block = segment->kind == kind ? segment->first : NULL; block; block = block->next) {
            while (!block->taken && block->next && !block->next->taken && dt_cuda_order_cost(order, stream, &block->after) <= most &&
                   dt_cuda_order_cost(order, stream, &block->next->after) <= most) {
                join_next(pool, block);
                joined = true;
            }
        }
    }
    return joined;
}

/* First a block that needs no wait, even if blocks must be joined for it; then one that needs a
 * wait; then a new segment. */
static dt_status find_block(struct cuda_pool *pool, enum cuda_pool_kind kind, const struct cuda_order *order, int stream, size_t bytes,
                            struct cuda_block **out)
{
    for (int most = CUDA_ORDERED; most <= CUDA_WAITS; most++) {
        *out = best_free(pool, kind, order, stream, bytes, (enum cuda_order_cost)most);
        if (!*out && join_for(pool, kind, order, stream, (enum cuda_order_cost)most))
            *out = best_free(pool, kind, order, stream, bytes, (enum cuda_order_cost)most);
        if (*out)
            return DT_OK;
    }
    DT_TRY(grow(pool, kind, bytes));
    *out = best_free(pool, kind, order, stream, bytes, CUDA_ORDERED);
    return DT_OK;
}

/* Cut `bytes` off the front of a block that is not among the free ones; the rest becomes a free
 * block. Without host memory for it the block stays whole. */
static void split(struct cuda_pool *pool, struct cuda_block *block, size_t bytes)
{
    size_t left = block->bytes - bytes, least = block->segment->kind == CUDA_POOL_SMALL ? DT_ALLOCATION_BYTES : SPLIT_BYTES;
    struct cuda_block *rest = left >= least ? new_block(pool, block->segment->kind) : NULL;
    if (!rest)
        return;
    *rest = *block;
    rest->data += bytes;
    rest->bytes = left;
    rest->previous = block;
    if (rest->next)
        rest->next->previous = rest;
    block->next = rest;
    block->bytes = bytes;
    add_free(pool, rest);
}

/* Remove a block from the free list, or get one from the driver. */
static dt_status get_block(struct cuda_pool *pool, enum cuda_pool_kind kind, const struct cuda_order *order, int stream, size_t asked_bytes,
                           struct cuda_block **out)
{
    size_t bytes = round_up(asked_bytes, DT_ALLOCATION_BYTES);
    if (pool->separate) {
        DT_TRY(add_segment(pool, kind, asked_bytes));
        *out = pool->segments->first;
        remove_free(pool, *out);
        return DT_OK;
    }
    DT_TRY(find_block(pool, kind, order, stream, bytes, out));
    remove_free(pool, *out);
    split(pool, *out, bytes);
    return DT_OK;
}

dt_status dt_cuda_pool_take(struct cuda_pool *pool, const struct cuda_order *order, int stream, size_t asked_bytes, struct cuda_block **out,
                            struct cuda_places *waits)
{
    *out = NULL;
    *waits = (struct cuda_places){{0}};
    if (asked_bytes > SIZE_MAX - SEGMENT_UNIT_BYTES)
        return dt_fail(DT_ERR_OOM, "out of %s memory: no machine has %zu bytes", pool->name, asked_bytes);
    enum cuda_pool_kind kind = round_up(asked_bytes, DT_ALLOCATION_BYTES) < SMALL_BYTES ? CUDA_POOL_SMALL : CUDA_POOL_LARGE;
    struct cuda_block *block;
    DT_TRY(get_block(pool, kind, order, stream, asked_bytes, &block));
    block->taken = true;
    for (int i = 0; i < CUDA_STREAMS; i++)
        waits->at[i] = block->after.at[i] > order->behind[stream].at[i] ? block->after.at[i] : 0;
    pool->live_bytes[kind] += block->bytes;
    if (pool->live_peak_bytes[kind] < pool->live_bytes[kind])
        pool->live_peak_bytes[kind] = pool->live_bytes[kind];
    *out = block;
    return DT_OK;
}

/* Do both have the same places, after passed ones are cleared? Mostly there are none. */
static bool alike(const struct cuda_order *order, struct cuda_block *block, struct cuda_block *next)
{
    if (block->taken || next->taken)
        return false;
    dt_cuda_order_forget_passed(order, &block->after);
    dt_cuda_order_forget_passed(order, &next->after);
    return memcmp(&block->after, &next->after, sizeof block->after) == 0;
}

void dt_cuda_pool_give(struct cuda_pool *pool, const struct cuda_order *order, struct cuda_block *block, const struct cuda_places *after)
{
    pool->live_bytes[block->segment->kind] -= block->bytes;
    block->taken = false;
    block->after = *after;
    add_free(pool, block);
    if (block->next && alike(order, block, block->next))
        join_next(pool, block);
    if (block->previous && alike(order, block->previous, block))
        join_next(pool, block->previous);
}

void dt_cuda_pool_join(struct cuda_pool *pool, const struct cuda_order *order)
{
    for (struct cuda_segment *segment = pool->segments; segment; segment = segment->next) {
        for (struct cuda_block *block = segment->first; block; block = block->next) {
            while (block->next && alike(order, block, block->next))
                join_next(pool, block);
        }
    }
}

/* ---- giving back to the driver ---- */

uint64_t dt_cuda_pool_release(struct cuda_pool *pool)
{
    uint64_t before = pool->reserved_bytes;
    for (struct cuda_segment **place = &pool->segments; *place;) {
        bool taken = false;
        for (const struct cuda_block *block = (*place)->first; block; block = block->next)
            taken = taken || block->taken;
        if (!taken)
            remove_segment(pool, place);
        else
            place = &(*place)->next;
    }
    return before - pool->reserved_bytes;
}

bool dt_cuda_pool_unsettled(const struct cuda_pool *pool)
{
    uint64_t peak = live_peak_bytes(pool);
    if (pool->separate)
        return pool->free[CUDA_POOL_SMALL].count + pool->free[CUDA_POOL_LARGE].count > 0;
    return pool->settled_peak_bytes != peak && pool->reserved_bytes > peak + peak / 8 + SLACK_BYTES;
}

void dt_cuda_pool_settle(struct cuda_pool *pool)
{
    size_t bytes = round_up(pool->live_peak_bytes[CUDA_POOL_LARGE] - pool->live_bytes[CUDA_POOL_LARGE], SEGMENT_UNIT_BYTES);
    pool->settled_peak_bytes = live_peak_bytes(pool);
    uint64_t released = dt_cuda_pool_release(pool);
    if (bytes > 0 && bytes < released && !pool->separate) /* on refusal, later requests allocate as they need */
        add_segment(pool, CUDA_POOL_LARGE, bytes);
}

bool dt_cuda_pool_contains(const struct cuda_pool *pool, const void *address)
{
    for (const struct cuda_segment *segment = pool->segments; segment; segment = segment->next) {
        if ((uintptr_t)address - (uintptr_t)segment->data < segment->bytes)
            return true;
    }
    return false;
}

void dt_cuda_pool_finish(struct cuda_pool *pool)
{
    while (pool->segments)
        remove_segment(pool, &pool->segments);
    for (int kind = 0; kind < CUDA_POOL_KINDS; kind++) {
        free(pool->free[kind].blocks);
        pool->free[kind].blocks = NULL;
        pool->free[kind].count = pool->free[kind].capacity = 0;
    }
}
