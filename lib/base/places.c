#include "lib/base/places.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const struct dt_place *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

void dt_places_sort(struct dt_place *places, int count)
{
    qsort(places, (size_t)count, sizeof *places, compare);
}

int dt_places_find(const struct dt_place *places, int count, uint64_t key)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (places[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && places[low].key == key ? low : count;
}

int dt_places_end(const struct dt_place *places, int count, int begin)
{
    int end = begin;
    while (end < count && places[end].key == places[begin].key)
        end++;
    return end;
}
