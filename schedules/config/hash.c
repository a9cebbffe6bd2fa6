#include "schedules/config/hash.h"

#include "lib/config/canonical.h"
#include "lib/config/json.h"
#include "schedules/config/parse.h"
#include "schedules/config/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Keys that decide which others an experiment shows and depends on: what experiment_shows and experiment_depends_on look at beside a key's own
 * value. */
static const char *const deciding[] = {"paradigm",     "pipeline.stages", "pipeline.paradigms",
                                       "model.preset", "model.position",  "model.rope.scaling"};
enum { DECIDING = sizeof deciding / sizeof *deciding };

struct experiment_hasher {
    struct dt_canonical *canonical;
    int deciding[DECIDING]; /* rows of the table */
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
    for (int i = 0; i < DECIDING; i++)
        h->deciding[i] = dt_config_find(table, deciding[i]);
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

/* Which fields are not as in the last experiment, and whether others may be wanted now. */
static bool find_changes(struct experiment_hasher *h, const struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    bool decides = !h->any;
    for (int i = 0; i < table->count; i++)
        h->changed[i] = !h->any || !dt_field_same(&table->fields[i], e, &h->last);
    for (int i = 0; i < DECIDING; i++)
        decides |= h->changed[h->deciding[i]];
    return decides;
}

dt_status experiment_hasher_set(struct experiment_hasher *h, struct experiment *e)
{
    const struct dt_table *table = experiment_table();
    const char *text;
    size_t bytes, same;
    bool decides = find_changes(h, e);
    h->any = false; /* until this one is */
    for (int i = 0; i < table->count; i++) {
        if (!decides && !h->changed[i])
            continue;
        DT_TRY(experiment_shows(e, &table->fields[i], &h->wanted[i]));
        h->wanted[i] &= experiment_depends_on(e, table->fields[i].path);
    }
    DT_TRY(dt_canonical_write(h->canonical, e, h->changed, h->wanted, &text, &bytes, &same));
    memcpy(&h->last, e, sizeof h->last);
    h->any = true;
    snprintf(e->hash, sizeof e->hash, "%016" PRIx64, hash_of(h, text, bytes, same));
    return DT_OK;
}
