/* A thread that fills a buffer for the next turn while this one's is in use. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>
#include <stdint.h>

struct dt_prefetch;

/* Fills `to` with the bytes of turn `turn`; called on the thread. */
typedef dt_status (*dt_prefetch_fill)(void *context, uint64_t turn, void *to);

/* Only the thread uses ahead [bytes], which outlives it, as the context does. The thread begins
 * with turn `first`. Errors: DT_ERR_HOST_MEMORY, also if no thread can be started. */
dt_status dt_prefetch_create(dt_prefetch_fill fill, void *context, void *ahead, size_t bytes, uint64_t first, struct dt_prefetch **out);
void dt_prefetch_destroy(struct dt_prefetch *prefetch); /* waits for a fill under way; takes NULL */

/* Wait until turn `turn` is filled, copy it to `to` [bytes], and have the thread begin the next.
 * Turns may be taken in any order, but an unexpected turn is only begun by this call. Errors: the
 * fill's. */
dt_status dt_prefetch_take(struct dt_prefetch *prefetch, uint64_t turn, void *to);
