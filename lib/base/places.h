/* Items sorted by a key (a hash), to find equal ones: the key, and the item's index `at`. */
#ifndef LIB_BASE_PLACES_H
#define LIB_BASE_PLACES_H

#include <stdint.h>

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

#endif
