/* Memory: arrays that grow as items are added, arrays sorted by a key, and strings that are kept
 * once. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The same for `more` items, such as the bytes of a text. */
#define DT_ROOM_FOR(items, count, room, more)                                                                                              \
    ((size_t)(count) + (more) <= (size_t)(room) || (dt_resize(&(items), (2 * (size_t)(room) + (more)) * sizeof *(items)) &&                \
                                                    ((room) = (__typeof__(room))(2 * (size_t)(room) + (more)), true)))

/* The same for an array without spare room: for arrays that seldom grow. */
#define DT_ONE_MORE(items, count) dt_resize(&(items), ((size_t)(count) + 1) * sizeof *(items))

/* ---- items sorted by a key (a hash), to find equal ones ---- */

struct dt_place {
    uint64_t key;
    int at;
};

/* Sort by key, equal keys by `at`. */
void dt_places_sort(struct dt_place *places, int count);

/* Index of the first of the sorted places with the key; `count` if there is none. */
int dt_places_find(const struct dt_place *places, int count, uint64_t key);

/* One past the last of the sorted places that has the same key as the one at `begin`. */
int dt_places_end(const struct dt_place *places, int count, int begin);

/* ---- interned strings ----
 *
 * Equal strings have one address, so that structs that contain them are small, own nothing, and are
 * copied and compared as bytes. */

/* Set *to to the only copy of `text`, which lives until the program ends. May be called on any
 * thread. Errors: DT_ERR_HOST_MEMORY, never for "". */
dt_status dt_intern_into(const char **to, const char *text);
