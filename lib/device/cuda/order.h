/* Which work of a cuda device's streams comes after which, by the host's program: the GPU is never asked, so that the same program always
 * gets the same memory.
 *
 * A place on a stream is a count of the marks made on it. For each stream the order knows the places that its later work comes after:
 * through waits for events, through the host having synchronized, and through graphs, which come after everything and before everything. */
#ifndef LIB_DEVICE_CUDA_ORDER_H
#define LIB_DEVICE_CUDA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum { CUDA_STREAMS = 16 };

/* One place on every stream; 0: none. */
struct cuda_places {
    uint64_t at[CUDA_STREAMS];
};

struct cuda_order {
    struct cuda_places behind[CUDA_STREAMS]; /* of each stream; its entry for itself counts the marks on it */
    bool open[CUDA_STREAMS];
    bool exchanges[CUDA_STREAMS]; /* dt_cuda_stream_exchanges */
};

/* What it costs `stream` to come after places: nothing, waits, or more than may be asked, as a stream that exchanges messages would have to
 * be waited for. */
enum cuda_order_cost { CUDA_ORDERED, CUDA_WAITS, CUDA_REFUSED };

/* A stream begins, and comes after all that is queued on the others; and it ends, when the host has waited for it. */
void dt_cuda_order_open(struct cuda_order *order, int stream);
void dt_cuda_order_close(struct cuda_order *order, int stream);

void dt_cuda_places_merge(struct cuda_places *into, const struct cuda_places *from); /* the later one of each */
uint64_t dt_cuda_order_mark(struct cuda_order *order, int stream);                   /* another mark on `stream`: its place, from 1 */
enum cuda_order_cost dt_cuda_order_cost(const struct cuda_order *order, int stream, const struct cuda_places *places);
/* Forget those places that every stream comes after anyway. */
void dt_cuda_order_forget_passed(const struct cuda_order *order, struct cuda_places *places);
/* Every stream comes after every place of `stream`, and every place that this comes after: the host has waited for it. */
void dt_cuda_order_after(struct cuda_order *order, int stream);
void dt_cuda_order_after_all(struct cuda_order *order); /* the same of all streams */

#endif
