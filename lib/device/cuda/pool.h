/* One of a cuda device's two memories, its own or the host's: segments that are allocated from the
 * driver once, and divided into blocks that are reused.
 *
 * Blocks are chosen on the host in program order, while the streams are still far behind. That is sound as a block carries the places that
 * its next user must come after (order.h); a stream that already comes after them takes it as it is, another is made to wait, and for a
 * stream that exchanges messages nobody is made to wait (see lib/device/cpu/pool.h: such waits could close a circle). The choice depends on
 * the program alone: a training step that repeats its allocations gets the same addresses again, which graphs build upon.
 *
 * Free neighbours join once nobody need be waited for, or where nothing else is large enough: joined memory comes after the places of all
 * its parts, and one part that has just been freed would make everybody wait. Requests below SMALL_BYTES have segments of their own, so
 * that a small block that lives long does not split a large place. Knows nothing of cuda: where memory comes from is the caller's. */
#ifndef LIB_DEVICE_CUDA_POOL_H
#define LIB_DEVICE_CUDA_POOL_H

#include "lib/base/status.h"
#include "lib/device/cuda/order.h"

#include <stddef.h>

enum cuda_pool_kind { CUDA_POOL_LARGE, CUDA_POOL_SMALL, CUDA_POOL_KINDS };

struct cuda_segment {
    char *data; /* aligned to 256 bytes */
    size_t bytes;
    enum cuda_pool_kind kind;
    struct cuda_block *first; /* by address */
    struct cuda_segment *next;
};

struct cuda_block {
    char *data;
    size_t bytes;
    bool taken;
    struct cuda_places after; /* free: what its next user must come after */
    struct cuda_segment *segment;
    struct cuda_block *previous, *next; /* its neighbours in the segment */
};

struct cuda_pool {
    const char *name; /* "device" or "host", for error texts; the caller sets these, the rest is zeroed */
    dt_status (*grow)(void *context, size_t bytes, void **out); /* DT_ERR_OOM: there is no more */
    void (*shrink)(void *context, void *data);
    void *context;
    bool separate; /* likewise: each block is a segment of its own, of as many bytes as asked for, and goes back at the next release */

    struct cuda_segment *segments;
    struct {
        struct cuda_block **blocks; /* [count] by size, then by address; room for as many as there are blocks */
        size_t count, capacity;
    } free[CUDA_POOL_KINDS];
    size_t block_count[CUDA_POOL_KINDS];
    uint64_t live_bytes[CUDA_POOL_KINDS], live_peak_bytes[CUDA_POOL_KINDS];
    uint64_t reserved_bytes;
    uint64_t settled_peak_bytes; /* the peak at which dt_cuda_pool_settle did its work last */
};

/* *out is usable on `stream` once that comes after *waits, which has only the places that it does not come after already.
 * Errors: DT_ERR_OOM and what `grow` says, DT_ERR_HOST_MEMORY. */
dt_status dt_cuda_pool_take(struct cuda_pool *pool, const struct cuda_order *order, int stream, size_t bytes, struct cuda_block **out,
                            struct cuda_places *waits);
/* The block is free for users that are ordered after *after. */
void dt_cuda_pool_give(struct cuda_pool *pool, const struct cuda_order *order, struct cuda_block *block, const struct cuda_places *after);
/* Between steps: join free blocks that need no waits any more, so that each step finds the same
 * blocks. */
void dt_cuda_pool_join(struct cuda_pool *pool, const struct cuda_order *order);

/* Give back the segments of which nothing is taken; returns their bytes. The streams are past everything that used them. */
uint64_t dt_cuda_pool_release(struct cuda_pool *pool);

/* Whether more is held than the peak needs: segments that came one by one, as a first step asked for them, do not fit together well. settle
 * then gives back what is free and asks for one large segment in its place. Once for each peak. Between steps: as for release. */
bool dt_cuda_pool_unsettled(const struct cuda_pool *pool);
void dt_cuda_pool_settle(struct cuda_pool *pool);

bool dt_cuda_pool_contains(const struct cuda_pool *pool, const void *address);

/* Give back everything, taken blocks too. As for release. */
void dt_cuda_pool_finish(struct cuda_pool *pool);

#endif
