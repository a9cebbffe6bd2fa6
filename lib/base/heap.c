#include "lib/base/heap.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void dt_heap_finish(struct dt_heap *heap)
{
    free(heap->entries);
    free(heap->place);
    *heap = (struct dt_heap){0};
}

static bool before(struct dt_heap_entry a, struct dt_heap_entry b)
{
    return a.time_s < b.time_s || (a.time_s == b.time_s && a.item < b.item);
}

static void put(struct dt_heap *heap, uint32_t at, struct dt_heap_entry entry)
{
    heap->entries[at] = entry;
    heap->place[entry.item] = at + 1;
}

/* Move the entry from the hole at `at` up or down to its place. */
static void settle(struct dt_heap *heap, uint32_t at, struct dt_heap_entry entry)
{
    while (at > 0 && before(entry, heap->entries[(at - 1) / 2])) {
        put(heap, at, heap->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child = 2 * at + 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && before(heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!before(heap->entries[child], entry))
            break;
        put(heap, at, heap->entries[child]);
        at = child;
    }
    put(heap, at, entry);
}

static dt_status make_room(struct dt_heap *heap, uint32_t item)
{
    if (item >= heap->item_room) {
        uint32_t room = item < 64 ? 128 : 2 * item;
        DT_TRY(dt_allocated(dt_resize(&heap->place, room * sizeof *heap->place), "no host memory for %u events", room));
        memset(heap->place + heap->item_room, 0, (room - heap->item_room) * sizeof *heap->place);
        heap->item_room = room;
    }
    DT_TRY(dt_allocated(DT_ROOM(heap->entries, heap->count, heap->room), "no host memory for %u events", heap->count + 1));
    return DT_OK;
}

dt_status dt_heap_set(struct dt_heap *heap, uint32_t item, double time_s)
{
    DT_TRY(make_room(heap, item));
    uint32_t at = heap->place[item] ? heap->place[item] - 1 : heap->count++;
    settle(heap, at, (struct dt_heap_entry){time_s, item});
    return DT_OK;
}

void dt_heap_remove(struct dt_heap *heap, uint32_t item)
{
    if (item >= heap->item_room || !heap->place[item])
        return;
    uint32_t at = heap->place[item] - 1;
    heap->place[item] = 0;
    heap->count--;
    if (at < heap->count)
        settle(heap, at, heap->entries[heap->count]);
}

void dt_heap_clear(struct dt_heap *heap)
{
    while (heap->count)
        heap->place[heap->entries[--heap->count].item] = 0;
}

double dt_heap_time(const struct dt_heap *heap)
{
    return heap->count ? heap->entries[0].time_s : INFINITY;
}

uint32_t dt_heap_pop(struct dt_heap *heap)
{
    uint32_t item = heap->entries[0].item;
    dt_heap_remove(heap, item);
    return item;
}
