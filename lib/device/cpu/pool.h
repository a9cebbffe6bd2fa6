/* One of the cpu device's two memories: blocks that are mapped once and then reused. The smallest
 * free block that fits is used, its rest becomes free, and free neighbours are joined: best fit, in
 * Knuth, The Art of Computer Programming 1, section 2.5.
 *
 * Blocks are chosen on the host thread in program order, before the streams have reached that
 * point. This is correct because a block knows the entry of the stream after which it is free. The
 * same stream may reuse it at once (its later tasks run after that entry); another stream waits for
 * the entry. So a training step that repeats its allocations touches no new page after the first
 * step, and mapped memory stays near the ledger's peak although the host runs ahead.
 *
 * A wait added for reuse refers to earlier work of this rank's program, and collectives have the
 * same order on all their ranks: so such waits cause no deadlock. Messages between two ranks have
 * no such order (each may send before it receives), so no stream is made to wait for a stream that
 * exchanges messages: its memory is reused by others only after the free has been passed. */
#pragma once

#include "lib/device/cpu/stream.h"

#include <stdatomic.h>
#include <sys/queue.h>

struct cpu_block {
    void *data;
    size_t bytes;
    struct cpu_stream *freed_on; /* the stream, and the entry after which the block is free on it */
    uint64_t freed_number;
    uint64_t freed_order; /* number of the free, to find the oldest */
    LIST_ENTRY(cpu_block) in_list;
};

LIST_HEAD(cpu_blocks, cpu_block);

struct cpu_pool {
    const char *name;         /* "device" or "host", for error texts */
    struct cpu_blocks small;  /* free small blocks, from the C library, never divided; the last freed block is first */
    struct cpu_blocks pieces; /* free parts of mappings, by address */
    struct cpu_blocks live;
    uint64_t live_bytes, live_peak_bytes, cached_bytes; /* in program order */
    uint64_t frees;
    _Atomic uint64_t mapped_bytes; /* what the process really holds */
};

/* *out may be used by work that is queued on `stream` from now on. Errors: DT_ERR_OOM,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_cpu_pool_take(struct cpu_pool *pool, struct cpu_stream *stream, size_t bytes, struct cpu_block **out);
/* The block becomes free once `stream` has done all work queued so far. */
void dt_cpu_pool_give(struct cpu_pool *pool, struct cpu_stream *stream, struct cpu_block *block);
/* Unmap everything, including live blocks. All streams are stopped. */
void dt_cpu_pool_finish(struct cpu_pool *pool);
