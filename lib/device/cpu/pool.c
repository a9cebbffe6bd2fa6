#include "lib/device/cpu/pool.h"

#include "lib/base/grow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SMALL_BYTES = 64 << 10, /* below: from the C library; from here on: mapped */
    PAGE_BYTES = 4 << 10,
    HUGE_PAGE_BYTES = 2 << 20,
    SLACK_BYTES = 32 << 20 /* what may be held above the peak and a tenth of it, before free blocks are given back */
};

static size_t block_bytes(size_t bytes)
{
    size_t unit = bytes < SMALL_BYTES ? DT_ALLOCATION_BYTES : PAGE_BYTES;
    return bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES ? 0 : (bytes + unit - 1) / unit * unit;
}

/* Big blocks begin on a huge page's border, or the kernel could not use huge pages for all of them: map more, and cut both ends. */
static void *map_pages(size_t bytes)
{
    size_t spare = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *start = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (spare == 0)
        return start;
    size_t head = (HUGE_PAGE_BYTES - (uintptr_t)start % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (head)
        munmap(start, head);
    if (spare > head)
        munmap(start + head + bytes, spare - head);
    madvise(start + head, bytes, MADV_HUGEPAGE); /* a wish; a kernel without huge pages refuses it */
    return start + head;
}

static void unmap(struct cpu_pool *pool, void *data, size_t bytes)
{
    if (bytes < SMALL_BYTES)
        free(data);
    else
        munmap(data, bytes);
    atomic_fetch_sub(&pool->mapped_bytes, bytes);
}

/* Lists are doubly linked through previous and next, with the first element in *list. */
static void push(struct cpu_block **list, struct cpu_block *block)
{
    block->previous = NULL;
    block->next = *list;
    if (*list)
        (*list)->previous = block;
    *list = block;
}

static void detach(struct cpu_block **list, struct cpu_block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        *list = block->next;
    if (block->next)
        block->next->previous = block->previous;
}

/* Index of the first bin of at least `bytes`. */
static size_t first_bin(const struct cpu_pool *pool, size_t bytes)
{
    size_t low = 0, high = pool->bin_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (pool->bins[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Make sure that blocks of this size have a bin to return to: giving back cannot fail. */
static dt_status add_bin(struct cpu_pool *pool, size_t bytes)
{
    size_t at = first_bin(pool, bytes);
    if (at < pool->bin_count && pool->bins[at].bytes == bytes)
        return DT_OK;
    DT_TRY(dt_allocated(DT_ROOM(pool->bins, pool->bin_count, pool->bin_capacity), "%s memory: no memory for %zu bins", pool->name,
                        pool->bin_count + 1));
    memmove(&pool->bins[at + 1], &pool->bins[at], (pool->bin_count - at) * sizeof pool->bins[0]);
    pool->bins[at] = (struct cpu_bin){.bytes = bytes};
    pool->bin_count++;
    return DT_OK;
}

/* The block of this bin that costs `stream` least: its own latest (warm in the caches, nothing to wait for), else one that its stream has
 * passed, else the oldest that may be waited for. NULL if there is none. */
static struct cpu_block *best_of_bin(const struct cpu_bin *bin, struct cpu_stream *stream)
{
    struct cpu_block *oldest = NULL, *pending = NULL;
    for (struct cpu_block *block = bin->newest; block; block = block->next) {
        if (block->freed_on == stream)
            return block;
        oldest = block;
    }
    for (struct cpu_block *block = oldest; block; block = block->previous) {
        if (dt_cpu_stream_has_passed(block->freed_on, block->freed_number))
            return block;
        if (!pending && !block->freed_on->exchanges)
            pending = block;
    }
    return pending;
}

static struct cpu_block *take_cached(struct cpu_pool *pool, struct cpu_stream *stream, size_t bytes)
{
    for (size_t i = first_bin(pool, bytes); i < pool->bin_count && pool->bins[i].bytes <= bytes + bytes / 8; i++) {
        struct cpu_block *block = best_of_bin(&pool->bins[i], stream);
        if (!block)
            continue;
        detach(&pool->bins[i].newest, block);
        pool->cached_bytes -= block->bytes;
        dt_cpu_stream_wait_for(stream, block->freed_on, block->freed_number, false);
        return block;
    }
    return NULL;
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

/* Give the block that has been free for the longest time back to the system, once its stream is there. */
static bool release_oldest(struct cpu_pool *pool, bool wait_for_it)
{
    struct cpu_bin *from = NULL;
    struct cpu_block *oldest = NULL;
    for (size_t i = 0; i < pool->bin_count; i++) {
        for (struct cpu_block *block = pool->bins[i].newest; block; block = block->next) {
            if (!oldest || block->freed_order < oldest->freed_order) {
                oldest = block;
                from = &pool->bins[i];
            }
        }
    }
    if (!oldest)
        return false;
    detach(&from->newest, oldest);
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

static struct cpu_block *map_block(struct cpu_pool *pool, size_t bytes)
{
    struct cpu_block *block = calloc(1, sizeof *block);
    void *data = bytes < SMALL_BYTES ? aligned_alloc(DT_ALLOCATION_BYTES, bytes) : map_pages(bytes);
    if (!block || !data) {
        if (data && bytes < SMALL_BYTES)
            free(data);
        else if (data)
            munmap(data, bytes);
        free(block);
        return NULL;
    }
    block->data = data;
    block->bytes = bytes;
    atomic_fetch_add(&pool->mapped_bytes, bytes);
    return block;
}

dt_status dt_cpu_pool_take(struct cpu_pool *pool, struct cpu_stream *stream, size_t asked_bytes, struct cpu_block **out)
{
    size_t bytes = block_bytes(asked_bytes);
    *out = NULL;
    if (bytes == 0)
        return dt_fail(DT_ERR_OOM, "out of %s memory: no machine has %zu bytes", pool->name, asked_bytes);
    DT_TRY(add_bin(pool, bytes));
    struct cpu_block *block = take_cached(pool, stream, bytes);
    if (!block) {
        uint64_t peak = pool->live_peak_bytes > pool->live_bytes + bytes ? pool->live_peak_bytes : pool->live_bytes + bytes;
        while (pool->live_bytes + pool->cached_bytes + bytes > peak + peak / 10 + SLACK_BYTES && release_oldest(pool, false))
            ;
        block = map_block(pool, bytes);
    }
    while (!block && release_oldest(pool, true)) /* the system refuses: perhaps with less of what we hold free it does not */
        block = map_block(pool, bytes);
    if (!block)
        return dt_fail(DT_ERR_OOM, "out of %s memory: the system refuses %zu more bytes, %llu are in use", pool->name, bytes,
                       (unsigned long long)pool->live_bytes);
    push(&pool->live, block);
    pool->live_bytes += block->bytes;
    if (pool->live_peak_bytes < pool->live_bytes)
        pool->live_peak_bytes = pool->live_bytes;
    *out = block;
    return DT_OK;
}

void dt_cpu_pool_give(struct cpu_pool *pool, struct cpu_stream *stream, struct cpu_block *block)
{
    detach(&pool->live, block);
    pool->live_bytes -= block->bytes;
    pool->cached_bytes += block->bytes;
    block->freed_on = stream;
    block->freed_number = stream->queued;
    block->freed_order = ++pool->frees;
    push(&pool->bins[first_bin(pool, block->bytes)].newest, block);
}

static void unmap_list(struct cpu_pool *pool, struct cpu_block *list)
{
    while (list) {
        struct cpu_block *next = list->next;
        unmap(pool, list->data, list->bytes);
        free(list);
        list = next;
    }
}

void dt_cpu_pool_finish(struct cpu_pool *pool)
{
    for (size_t i = 0; i < pool->bin_count; i++)
        unmap_list(pool, pool->bins[i].newest);
    unmap_list(pool, pool->live);
    free(pool->bins);
    memset(pool, 0, sizeof *pool);
}
