/* Things in the order of a key, to find those that are equal: a hash, and which of them has it. */
#ifndef LIB_BASE_PLACES_H
#define LIB_BASE_PLACES_H

#include <stdint.h>

struct dt_place {
    uint64_t key;
    int at;
};

/* By key, equal keys by `at`. */
void dt_places_sort(struct dt_place *places, int count);

/* Of sorted places: the index of the first with the key; `count` where there is none. */
int dt_places_find(const struct dt_place *places, int count, uint64_t key);

/* Of sorted places: one past the last that has the key of the one at `begin`. */
int dt_places_end(const struct dt_place *places, int count, int begin);

#endif
