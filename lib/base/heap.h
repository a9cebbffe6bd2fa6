/* A binary heap of (time, item), earliest first, whose items can be moved and taken out. Equal
 * times are ordered by the items' numbers, so that nothing depends on the heap's
 * layout. */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct dt_heap_entry {
    double time_s;
    uint32_t item;
};

/* A zeroed heap is empty. */
struct dt_heap {
    struct dt_heap_entry *entries; /* [count] */
    uint32_t *place;               /* [item_room] position of an item, counted from 1; 0: not in the heap */
    uint32_t count, room, item_room;
};

void dt_heap_finish(struct dt_heap *heap);

/* Insert an item, or move it if it is in the heap. Items are small numbers: memory grows with the
 * largest. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_heap_set(struct dt_heap *heap, uint32_t item, double time_s);
/* Remove an item; no effect if it is not in the heap. */
void dt_heap_remove(struct dt_heap *heap, uint32_t item);

/* Remove all items. */
void dt_heap_clear(struct dt_heap *heap);

/* The earliest time, INFINITY when empty. */
double dt_heap_time(const struct dt_heap *heap);
/* Remove the earliest item and return it; the heap must not be empty. */
uint32_t dt_heap_pop(struct dt_heap *heap);
