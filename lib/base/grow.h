/* Arrays that grow as items are added. */
#ifndef LIB_BASE_GROW_H
#define LIB_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* items: the address of a pointer to memory of realloc, or to none. False: no memory, and all is as it was. */
bool dt_resize(void *items, size_t bytes);

/* The room of an array whose room is used up. */
static inline size_t dt_next_room(size_t room)
{
    return room ? 2 * room : 16;
}

/* Whether `items` has room for one more than `count`; where it has not, it gets more, and `room` what it then has. */
#define DT_ROOM(items, count, room)                                                                                                        \
    ((size_t)(count) < (size_t)(room) || (dt_resize(&(items), dt_next_room((size_t)(room)) * sizeof *(items)) &&                           \
                                          ((room) = (__typeof__(room))dt_next_room((size_t)(room)), true)))

/* The same of an array that has no more room than items: few are added. */
#define DT_ONE_MORE(items, count) dt_resize(&(items), ((size_t)(count) + 1) * sizeof *(items))

#endif
