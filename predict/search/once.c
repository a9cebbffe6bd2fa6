#include "predict/search/search.h"

#include "lib/config/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 512, KEY_BYTES = 64 };

/* A value that is known or being made. Only the thread that makes it writes it before `ready`. */
struct entry {
    struct entry *next; /* next entry of the same bucket */
    unsigned char key[KEY_BYTES];
    bool ready;
    dt_status status;
    _Alignas(max_align_t) unsigned char value[]; /* [value_bytes] */
};

struct once {
    size_t value_bytes;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ready;
    struct entry *buckets[BUCKETS];
};

dt_status once_create(size_t value_bytes, struct once **out)
{
    *out = calloc(1, sizeof **out);
    DT_TRY(dt_allocated(*out, "no host memory for a search"));
    **out = (struct once){.value_bytes = value_bytes, .lock = PTHREAD_MUTEX_INITIALIZER, .ready = PTHREAD_COND_INITIALIZER};
    return DT_OK;
}

void once_destroy(struct once *o)
{
    for (int i = 0; o && i < BUCKETS; i++)
        for (struct entry *one = o->buckets[i], *next; one; one = next) {
            next = one->next;
            free(one);
        }
    free(o);
}

/* The lock is held, except during `make`. */
static dt_status find_locked(struct once *o, const unsigned char key[KEY_BYTES], dt_status (*make)(void *context, void *value),
                             void *context, void *out)
{
    struct entry **bucket = &o->buckets[dt_hash_fnv1a(key, KEY_BYTES) % BUCKETS], *found = *bucket;
    while (found && memcmp(found->key, key, KEY_BYTES) != 0)
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found + o->value_bytes);
        DT_TRY(dt_allocated(found, "no host memory for a search"));
        memcpy(found->key, key, KEY_BYTES);
        found->next = *bucket;
        *bucket = found;
        pthread_mutex_unlock(&o->lock);
        dt_status status = make(context, found->value);
        pthread_mutex_lock(&o->lock);
        found->status = status;
        found->ready = true;
        pthread_cond_broadcast(&o->ready);
        DT_TRY(status);
    }
    while (!found->ready)
        pthread_cond_wait(&o->ready, &o->lock);
    memcpy(out, found->value, o->value_bytes);
    return found->status < 0 ? dt_fail(found->status, "a simulation failed") : DT_OK;
}

dt_status once_find(struct once *o, const void *key, size_t key_bytes, dt_status (*make)(void *context, void *value), void *context,
                    void *out)
{
    unsigned char padded[KEY_BYTES] = {0};
    memcpy(padded, key, key_bytes);
    pthread_mutex_lock(&o->lock);
    dt_status status = find_locked(o, padded, make, context, out);
    pthread_mutex_unlock(&o->lock);
    return status;
}
