#include "lib/base/grow.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

bool dt_resize(void *items, size_t bytes)
{
    void *old, *new;
    memcpy(&old, items, sizeof old);
    new = realloc(old, bytes);
    if (new)
        memcpy(items, &new, sizeof new);
    return new;
}

/* ---- items sorted by a key ---- */

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

/* ---- interned strings ---- */

static int compare_texts(const void *left, const void *right)
{
    return strcmp(left, right);
}

dt_status dt_intern_into(const char **to, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *all; /* tree of tsearch; a node begins with the address of a text */
    *to = "";
    if (!*text)
        return DT_OK;
    pthread_mutex_lock(&lock);
    char **found = tfind(text, &all, compare_texts);
    if (!found) {
        char *copy = strdup(text);
        found = copy ? tsearch(copy, &all, compare_texts) : NULL;
        if (!found)
            free(copy);
    }
    if (found)
        *to = *found;
    pthread_mutex_unlock(&lock);
    return dt_allocated(found, "no memory for a text");
}
