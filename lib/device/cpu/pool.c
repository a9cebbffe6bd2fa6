#include "lib/device/cpu/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SMALL_BYTES = 64 << 10, /* smaller blocks come from the C library, larger ones are mapped */
    PAGE_BYTES = 4 << 10,
    HUGE_PAGE_BYTES = 2 << 20,
    SLACK_BYTES = 32 << 20 /* slack above the peak plus a tenth, before free blocks are returned */
};

static size_t block_bytes(size_t bytes)
{
    size_t unit = bytes < SMALL_BYTES ? DT_ALLOCATION_BYTES : PAGE_BYTES;
    return bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES ? 0 : (bytes + unit - 1) / unit * unit;
}

static size_t mapped_bytes_of(size_t bytes)
{
    return bytes < SMALL_BYTES ? bytes : (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

/* Linux often places a new mapping directly below the previous one; both are joined when free. A
 * mapping must begin on a huge page's border, or the kernel cannot use huge pages for all of it: if
 * it does not, map more, and cut both ends. bytes: whole huge pages. */
static void *map_pages(size_t bytes)
{
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if ((uintptr_t)start % HUGE_PAGE_BYTES) {
        munmap(start, bytes);
        start = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            return NULL;
        size_t head = HUGE_PAGE_BYTES - (uintptr_t)start % HUGE_PAGE_BYTES;
        munmap(start, head);
        start += head;
        if (head < HUGE_PAGE_BYTES)
            munmap(start + bytes, HUGE_PAGE_BYTES - head);
    }
    madvise(start, bytes, MADV_HUGEPAGE); /* a hint only: a kernel without huge pages refuses it */
    return start;
}

static void unmap(struct cpu_pool *pool, void *data, size_t bytes)
{
    if (bytes < SMALL_BYTES)
        free(data);
    else
        munmap(data, bytes);
    atomic_fetch_sub(&pool->mapped_bytes, bytes);
}

static struct cpu_blocks *list_of(struct cpu_pool *pool, size_t bytes)
{
    return bytes < SMALL_BYTES ? &pool->small : &pool->pieces;
}

/* ---- free blocks ---- */

/* The cost of giving a free block to a stream. */
enum cost { COST_NOTHING, COST_WAIT, COST_TOO_MUCH };

static bool is_free_by_now(const struct cpu_block *block)
{
    return dt_cpu_stream_has_passed(block->freed_on, block->freed_number);
}

static enum cost cost_of(const struct cpu_block *block, const struct cpu_stream *stream)
{
    if (block->freed_on == stream || is_free_by_now(block))
        return COST_NOTHING;
    return block->freed_on->exchanges ? COST_TOO_MUCH : COST_WAIT;
}

/* The free block of at least `bytes` with the lowest cost for `stream`, of those the smallest;
 * among equals the latest (warm in the caches), or if it must be waited for the one that has been
 * free for longest. Small blocks are not divided, so they may not be much larger. NULL: there is
 * none. */
static struct cpu_block *best_fit(struct cpu_pool *pool, const struct cpu_stream *stream, size_t bytes)
{
    size_t most = bytes < SMALL_BYTES ? bytes + bytes / 8 : SIZE_MAX;
    struct cpu_block *best = NULL;
    enum cost least = COST_TOO_MUCH;
    for (struct cpu_block *block = LIST_FIRST(list_of(pool, bytes)); block; block = LIST_NEXT(block, in_list)) {
        if (block->bytes < bytes || block->bytes > most || (best && least == COST_NOTHING && block->bytes > best->bytes))
            continue;
        enum cost cost = cost_of(block, stream);
        bool later = best && (block->freed_order > best->freed_order) == (cost == COST_NOTHING);
        if (cost > least || cost == COST_TOO_MUCH)
            continue;
        if (cost < least || block->bytes < best->bytes || (block->bytes == best->bytes && later)) {
            best = block;
            least = cost;
        }
    }
    return best;
}

/* Join a free block with the next one in memory, if that is known to be free at the same time. */
static bool join_next(struct cpu_block *block)
{
    struct cpu_block *next = LIST_NEXT(block, in_list);
    if (!next || (char *)block->data + block->bytes != next->data)
        return false;
    if (block->freed_on == next->freed_on) {
        if (next->freed_number > block->freed_number)
            block->freed_number = next->freed_number;
    } else if (is_free_by_now(block)) {
        block->freed_on = next->freed_on;
        block->freed_number = next->freed_number;
    } else if (!is_free_by_now(next)) {
        return false;
    }
    block->bytes += next->bytes;
    if (next->freed_order > block->freed_order)
        block->freed_order = next->freed_order;
    LIST_REMOVE(next, in_list);
    free(next);
    return true;
}

/* Pieces are sorted by address. */
static void add_free(struct cpu_pool *pool, struct cpu_block *block)
{
    struct cpu_block *before = NULL;
    pool->cached_bytes += block->bytes;
    if (block->bytes < SMALL_BYTES) {
        LIST_INSERT_HEAD(&pool->small, block, in_list);
        return;
    }
    for (struct cpu_block *other = LIST_FIRST(&pool->pieces); other && other->data < block->data; other = LIST_NEXT(other, in_list))
        before = other;
    if (before)
        LIST_INSERT_AFTER(before, block, in_list);
    else
        LIST_INSERT_HEAD(&pool->pieces, block, in_list);
    join_next(block);
    if (before)
        join_next(before);
}

/* Join all blocks that can be joined by now. */
static bool join_all(struct cpu_pool *pool)
{
    bool joined = false;
    for (struct cpu_block *block = LIST_FIRST(&pool->pieces); block;) {
        if (join_next(block))
            joined = true;
        else
            block = LIST_NEXT(block, in_list);
    }
    return joined;
}

/* Divide a block that is in no list: it keeps `bytes`, and the rest becomes a free block. Without
 * host memory for the new block it stays whole. */
static void divide(struct cpu_pool *pool, struct cpu_block *block, size_t bytes)
{
    struct cpu_block *rest = bytes < SMALL_BYTES || block->bytes - bytes < SMALL_BYTES ? NULL : malloc(sizeof *rest);
    if (!rest)
        return;
    *rest = *block;
    rest->data = (char *)block->data + bytes;
    rest->bytes = block->bytes - bytes;
    block->bytes = bytes;
    add_free(pool, rest);
}

static struct cpu_block *take_cached(struct cpu_pool *pool, struct cpu_stream *stream, size_t bytes)
{
    struct cpu_block *block = best_fit(pool, stream, bytes);
    if (!block && join_all(pool))
        block = best_fit(pool, stream, bytes);
    if (!block)
        return NULL;
    LIST_REMOVE(block, in_list);
    pool->cached_bytes -= block->bytes;
    divide(pool, block, bytes);
    dt_cpu_stream_wait_for(stream, block->freed_on, block->freed_number, false);
    return block;
}

struct release_arguments {
    struct cpu_pool *pool;
    void *data;
    size_t bytes;
};

static dt_status run_release(void *arguments)
{
    const struct release_arguments *a = arguments;
    unmap(a->pool, a->data, a->bytes);
    return DT_OK;
}

/* Return the block that has been free for the longest time to the system, once its stream has freed
 * it. */
static bool release_oldest(struct cpu_pool *pool, bool wait_for_it)
{
    struct cpu_block *oldest = NULL, *firsts[] = {LIST_FIRST(&pool->small), LIST_FIRST(&pool->pieces)};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
        for (struct cpu_block *block = firsts[i]; block; block = LIST_NEXT(block, in_list))
            if (!oldest || block->freed_order < oldest->freed_order)
                oldest = block;
    if (!oldest)
        return false;
    LIST_REMOVE(oldest, in_list);
    pool->cached_bytes -= oldest->bytes;
    struct release_arguments a = {pool, oldest->data, oldest->bytes};
    if (oldest->freed_on->running)
        dt_cpu_stream_push(oldest->freed_on, CPU_CLEANUP, "release memory", run_release, &a, sizeof a);
    else
        run_release(&a);
    if (wait_for_it)
        dt_cpu_stream_drain(oldest->freed_on);
    free(oldest);
    return true;
}

/* Only whole huge pages are mapped: the rest after `bytes` is free immediately. */
static struct cpu_block *map_block(struct cpu_pool *pool, struct cpu_stream *stream, size_t bytes)
{
    bool small = bytes < SMALL_BYTES;
    size_t mapped = mapped_bytes_of(bytes);
    struct cpu_block *block = calloc(1, sizeof *block);
    void *data = small ? aligned_alloc(DT_ALLOCATION_BYTES, bytes) : map_pages(mapped);
    if (!block || !data) {
        if (data && small)
            free(data);
        else if (data)
            munmap(data, mapped);
        free(block);
        return NULL;
    }
    *block = (struct cpu_block){.data = data, .bytes = mapped, .freed_on = stream, .freed_order = pool->frees};
    atomic_fetch_add(&pool->mapped_bytes, mapped);
    divide(pool, block, bytes);
    return block;
}

dt_status dt_cpu_pool_take(struct cpu_pool *pool, struct cpu_stream *stream, size_t asked_bytes, struct cpu_block **out)
{
    size_t bytes = block_bytes(asked_bytes), more = mapped_bytes_of(bytes);
    *out = NULL;
    if (bytes == 0)
        return dt_fail(DT_ERR_OOM, "out of %s memory: no machine has %zu bytes", pool->name, asked_bytes);
    struct cpu_block *block = take_cached(pool, stream, bytes);
    if (!block) {
        uint64_t peak = pool->live_peak_bytes > pool->live_bytes + bytes ? pool->live_peak_bytes : pool->live_bytes + bytes;
        while (pool->live_bytes + pool->cached_bytes + more > peak + peak / 10 + SLACK_BYTES && release_oldest(pool, false))
            ;
        block = map_block(pool, stream, bytes);
    }
    while (!block && release_oldest(pool, true)) /* the system refuses: return free blocks, and try again */
        block = map_block(pool, stream, bytes);
    if (!block)
        return dt_fail(DT_ERR_OOM, "out of %s memory: the system refuses %zu more bytes, %llu are in use", pool->name, bytes,
                       (unsigned long long)pool->live_bytes);
    LIST_INSERT_HEAD(&pool->live, block, in_list);
    pool->live_bytes += block->bytes;
    if (pool->live_peak_bytes < pool->live_bytes)
        pool->live_peak_bytes = pool->live_bytes;
    *out = block;
    return DT_OK;
}

void dt_cpu_pool_give(struct cpu_pool *pool, struct cpu_stream *stream, struct cpu_block *block)
{
    LIST_REMOVE(block, in_list);
    pool->live_bytes -= block->bytes;
    block->freed_on = stream;
    block->freed_number = stream->queued;
    block->freed_order = ++pool->frees;
    add_free(pool, block);
}

static void unmap_list(struct cpu_pool *pool, struct cpu_blocks *list)
{
    while (!LIST_EMPTY(list)) {
        struct cpu_block *block = LIST_FIRST(list);
        LIST_REMOVE(block, in_list);
        unmap(pool, block->data, block->bytes);
        free(block);
    }
}

void dt_cpu_pool_finish(struct cpu_pool *pool)
{
    unmap_list(pool, &pool->small);
    unmap_list(pool, &pool->pieces);
    unmap_list(pool, &pool->live);
    memset(pool, 0, sizeof *pool);
}
