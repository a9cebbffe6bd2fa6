/* A binary heap of (time, item), earliest first, whose items can be moved and taken out. Equal times come in the order of the items'
 * numbers, so that what a simulation does never depends on how its heap happens to lie. */
#ifndef LIB_SIM_HEAP_H
#define LIB_SIM_HEAP_H

#include "lib/base/status.h"

#include <stdint.h>

struct dt_sim_heap_entry {
    double time_s;
    uint32_t item;
};

/* A zeroed heap is empty. */
struct dt_sim_heap {
    struct dt_sim_heap_entry *entries; /* [count] */
    uint32_t *place;                   /* [item_room] where an item is, counted from 1; 0: nowhere */
    uint32_t count, room, item_room;
};

void dt_sim_heap_finish(struct dt_sim_heap *heap);

/* Put an item in, or move it where it is in. Items are small numbers: memory grows with the largest. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_heap_set(struct dt_sim_heap *heap, uint32_t item, double time_s);
/* Take an item out; nothing happens where it is not in. */
void dt_sim_heap_remove(struct dt_sim_heap *heap, uint32_t item);

/* Take all items out. */
void dt_sim_heap_clear(struct dt_sim_heap *heap);

/* The earliest time, INFINITY when empty. */
double dt_sim_heap_time(const struct dt_sim_heap *heap);
/* Take the earliest out; the heap must not be empty. */
uint32_t dt_sim_heap_pop(struct dt_sim_heap *heap);

#endif
