#include "schedules/config/hash.h"

#include "lib/config/canonical.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct experiment_hasher {
    struct dt_canonical *canonical;
    bool *changed, *wanted; /* [rows] */
    bool any;               /* `last` is one */
    struct experiment last;
    uint64_t hash; /* of the first `hashed` bytes of the last text, which are those that the one before it had as well */
    size_t hashed;
};

/* The hash of the text. Of a sweep the keys before the first that it changes are hashed once. */
static uint64_t hash_of(struct experiment_hasher *h, const char *text, size_t bytes, size_t same)
{
    if (same < h->hashed || h->hashed == 0) {
        h->hash = dt_hash_fnv1a(text, same);
        h->hashed = same;
    }
    h->hash = dt_hash_fnv1a_more(h->hash, text + h->hashed, same - h->hashed);
    h->hashed = same;
    return dt_hash_fnv1a_more(h->hash, text + same, bytes - same);
}

dt_status experiment_hasher_create(struct experiment_hasher **out)
{
    const struct dt_table *table = experiment_table();
    struct experiment_hasher *h = calloc(1, sizeof *h);
    dt_status status = DT_ERR_HOST_MEMORY;
    *out = NULL;
    if (!h)
        return dt_fail(status, "out of memory while writing a config");
    h->changed = calloc(2 * (size_t)table->count, sizeof *h->changed);
    if (!h->changed) {
        dt_fail(status, "out of memory while writing a config");
        goto fail;
    }
    h->wanted = h->changed + table->count;
    status = dt_canonical_create(table, &h->canonical);
    if (status < 0)
        goto fail;
    *out = h;
    return DT_OK;
fail:
    experiment_hasher_destroy(h);
    return status;
}

void experiment_hasher_destroy(struct experiment_hasher *h)
{
    if (!h)
        return;
    dt_canonical_destroy(h->canonical);
    free(h->changed);
    free(h);
}

dt_status experiment_hasher_set(struct experiment_hasher *h, struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    const char *text;
    size_t bytes, same;
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        h->changed[i] = !h->any || !dt_field_same(field, e, &h->last);
        h->wanted[i] = experiment_depends_on(e, field) && experiment_shows(e, field);
    }
    h->any = false; /* until this one is */
    DT_TRY(dt_canonical_write(h->canonical, e, h->changed, h->wanted, &text, &bytes, &same));
    memcpy(&h->last, e, sizeof h->last);
    h->any = true;
    snprintf(e->hash, sizeof e->hash, "%016" PRIx64, hash_of(h, text, bytes, same));
    return DT_OK;
}
