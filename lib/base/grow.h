/* Arrays that grow as items are added. */
#ifndef LIB_BASE_GROW_H
#define LIB_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* items: address of a pointer from realloc, or of NULL. False: no memory, and nothing is
 * changed. */
bool dt_resize(void *items, size_t bytes);

/* The next room of an array that is full. */
static inline size_t dt_next_room(size_t room)
{
    return room ? 2 * room : 16;
}

/* Make room in `items` for one more than `count` items; `room` is updated. False: no memory. */
#define DT_ROOM(items, count, room)                                                                                                        \
    ((size_t)(count) < (size_t)(room) || (dt_resize(&(items), dt_next_room((size_t)(room)) * sizeof *(items)) &&                           \
                                          ((room) = (__typeof__(room))dt_next_room((size_t)(room)), true)))

/* The same for an array without spare room: for arrays that seldom grow. */
#define DT_ONE_MORE(items, count) dt_resize(&(items), ((size_t)(count) + 1) * sizeof *(items))

#endif
