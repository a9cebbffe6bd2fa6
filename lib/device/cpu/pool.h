/* One of the cpu device's two memories: blocks that are mapped once and then go from hand to hand. The smallest free one that fits is taken,
 * what it has too much is free again, and free neighbours become one: best fit, in Knuth, The Art of Computer Programming 1, section 2.5.
 *
 * Blocks are chosen on the host thread in program order, while the streams are still far behind; this is sound because a block carries the
 * place in the stream where it became free. The same stream may reuse it at once (its tasks come later anyway), another stream is made to
 * wait for that place. So a training step that repeats its allocations touches no new page after the first, and what is mapped stays near
 * the ledger's peak although the host runs ahead.
 *
 * A wait added for reuse refers to earlier work of this rank's program, and collectives come in the same order in the programs of all their
 * ranks: so such waits close no circle. Messages between two ranks do not have that order (each may send before it receives), so nobody is
 * made to wait for a stream that exchanges them: its memory goes to others once it has been passed. */
#ifndef LIB_DEVICE_CPU_POOL_H
#define LIB_DEVICE_CPU_POOL_H

#include "lib/device/cpu/stream.h"

#include <stdatomic.h>

struct cpu_block {
    void *data;
    size_t bytes;
    struct cpu_stream *freed_on; /* the stream, and the entry after which the block is free on it */
    uint64_t freed_number;
    uint64_t freed_order; /* count of frees, to find the oldest */
    struct cpu_block *previous, *next;
};

struct cpu_pool {
    const char *name;         /* "device" or "host", for error texts */
    struct cpu_block *small;  /* free small blocks, which come from the C library and are not divided; the block freed last is first */
    struct cpu_block *pieces; /* free parts of what is mapped, by address */
    struct cpu_block *live;
    uint64_t live_bytes, live_peak_bytes, cached_bytes; /* in program order */
    uint64_t frees;
    _Atomic uint64_t mapped_bytes; /* what the process really holds now */
};

/* *out may be used by work that `stream` is given from now on. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status dt_cpu_pool_take(struct cpu_pool *pool, struct cpu_stream *stream, size_t bytes, struct cpu_block **out);
/* The block becomes free once `stream` has done what it has been given so far. */
void dt_cpu_pool_give(struct cpu_pool *pool, struct cpu_stream *stream, struct cpu_block *block);
/* Unmap everything, live blocks too. All streams are stopped. */
void dt_cpu_pool_finish(struct cpu_pool *pool);

#endif
