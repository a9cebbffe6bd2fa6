/* One of a cuda device's two memories, its own or the host's: segments that are allocated from the
 * driver once, and divided into blocks that are reused.
 *
 * Blocks are chosen on the host in program order, before the streams have reached that point. This
 * is correct because a block records the places that its next user must be ordered after (order.h).
 * A stream that is already ordered after them uses the block at once; another one is made to wait;
 * but no stream is made to wait for a stream that exchanges messages (see lib/device/cpu/pool.h:
 * such waits could cause a deadlock). The choice depends only on the program: a training step that
 * repeats its allocations gets the same addresses again, which graphs need.
 *
 * Free neighbours are joined once they need no waits, or if nothing else is large enough: a joined
 * block is ordered after the places of all its parts, so one part that was just freed would make
 * every user wait. Requests below SMALL_BYTES have separate segments, so that a small block with a
 * long life does not split a large one. The pool does not call CUDA: the caller supplies memory. */
#pragma once

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
    struct cuda_places after; /* free blocks: places that the next user must be ordered after */
    struct cuda_segment *segment;
    struct cuda_block *previous, *next; /* its neighbours in the segment */
};

struct cuda_pool {
    const char *name; /* "device" or "host", for error texts; the caller sets the members up to `separate`, the rest is zeroed */
    dt_status (*grow)(void *context, size_t bytes, void **out); /* DT_ERR_OOM: no memory is left */
    void (*shrink)(void *context, void *data);
    void *context;
    bool separate; /* each block is a separate segment of exactly the requested bytes, returned at the next release */

    struct cuda_segment *segments;
    struct {
        struct cuda_block **blocks; /* [count] by size, then by address; with room for all blocks */
        size_t count, capacity;
    } free[CUDA_POOL_KINDS];
    size_t block_count[CUDA_POOL_KINDS];
    uint64_t live_bytes[CUDA_POOL_KINDS], live_peak_bytes[CUDA_POOL_KINDS];
    uint64_t reserved_bytes;
    uint64_t settled_peak_bytes; /* the peak at the last dt_cuda_pool_settle */
};

/* *out is usable on `stream` once that is ordered after *waits, which has only places that it is
 * not ordered after yet. Errors: DT_ERR_OOM and those of `grow`, DT_ERR_HOST_MEMORY. */
dt_status dt_cuda_pool_take(struct cuda_pool *pool, const struct cuda_order *order, int stream, size_t bytes, struct cuda_block **out,
                            struct cuda_places *waits);
/* The block is free for users that are ordered after *after. */
void dt_cuda_pool_give(struct cuda_pool *pool, const struct cuda_order *order, struct cuda_block *block, const struct cuda_places *after);
/* Between steps: join free blocks that need no waits any more, so that each step finds the same
 * blocks. */
void dt_cuda_pool_join(struct cuda_pool *pool, const struct cuda_order *order);

/* Return segments without live blocks to the driver; returns their bytes. All streams have finished
 * work that used them. */
uint64_t dt_cuda_pool_release(struct cuda_pool *pool);

/* unsettled: does the pool hold more than the peak needs? Segments that were added one by one
 * during a first step do not fit together well. settle returns free segments and allocates one
 * large segment instead, once for each peak. Call between steps, as release. */
bool dt_cuda_pool_unsettled(const struct cuda_pool *pool);
void dt_cuda_pool_settle(struct cuda_pool *pool);

bool dt_cuda_pool_contains(const struct cuda_pool *pool, const void *address);

/* Return all memory, live blocks too. Conditions as for release. */
void dt_cuda_pool_finish(struct cuda_pool *pool);
