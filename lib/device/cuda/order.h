/* The order of work between the streams of a cuda device, known from the host's program alone. The
 * GPU is never queried, so the same program always gets the same memory.
 *
 * A place on a stream is a count of the marks made on it. For each stream the order records the
 * places that its later work is ordered after: through waits for events, through synchronization by
 * the host, and through graphs, which are ordered after all earlier work and before all later
 * work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CUDA_STREAMS = 24 };

/* One place on every stream; 0: none. */
struct cuda_places {
    uint64_t at[CUDA_STREAMS];
};

struct cuda_order {
    struct cuda_places behind[CUDA_STREAMS]; /* places that each stream is ordered after; its entry for itself counts its marks */
    bool open[CUDA_STREAMS];
    bool exchanges[CUDA_STREAMS]; /* dt_cuda_stream_exchanges */
};

/* The cost of ordering `stream` after places: nothing, waits, or refused, if it would have to wait
 * for a stream that exchanges messages. */
enum cuda_order_cost { CUDA_ORDERED, CUDA_WAITS, CUDA_REFUSED };

/* open: a stream begins, and is ordered after all work queued on the others. close: it ends, after
 * the host has waited for it. */
void dt_cuda_order_open(struct cuda_order *order, int stream);
void dt_cuda_order_close(struct cuda_order *order, int stream);

void dt_cuda_places_merge(struct cuda_places *into, const struct cuda_places *from); /* take the later place of each stream */
uint64_t dt_cuda_order_mark(struct cuda_order *order, int stream);                   /* add a mark on `stream`: returns its place, from 1 */
enum cuda_order_cost dt_cuda_order_cost(const struct cuda_order *order, int stream, const struct cuda_places *places);
/* Clear the places that every stream is ordered after already. */
void dt_cuda_order_forget_passed(const struct cuda_order *order, struct cuda_places *places);
/* The host has waited for `stream`: every stream is now ordered after all its places, and after all
 * places that it is ordered after. */
void dt_cuda_order_after(struct cuda_order *order, int stream);
void dt_cuda_order_after_all(struct cuda_order *order); /* the same for all streams */
