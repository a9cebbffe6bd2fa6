#include "cli/records/records.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "schedules/config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is `path` equal to the key, or a key in the object of that name? */
static bool is_within(const char *path, const char *key, size_t key_bytes)
{
    return strncmp(path, key, key_bytes) == 0 && (path[key_bytes] == 0 || path[key_bytes] == '.');
}

static dt_status refuse(const char *keys, const char *key, size_t key_bytes)
{
    const struct dt_table *table = experiment_table();
    char asked[96];
    int best = 0;
    snprintf(asked, sizeof asked, "%.*s", (int)key_bytes, key);
    for (int i = 1; i < table->count; i++)
        if (dt_edit_distance(asked, table->fields[i].path) < dt_edit_distance(asked, table->fields[best].path))
            best = i;
    return dt_fail(DT_ERR_INVALID, "--by %s: '%s' is no key of a config; the nearest is %s", keys, asked, table->fields[best].path);
}

static dt_status name_key(struct pairing *pairing, const char *key, size_t key_bytes)
{
    const struct dt_table *table = experiment_table();
    bool found = false;
    for (int i = 0; i < table->count; i++) {
        if (!is_within(table->fields[i].path, key, key_bytes))
            continue;
        found = pairing->named[i] = true;
        for (int j = 0; j < table->count; j++) {
            const char *path = table->fields[j].path;
            pairing->named[j] |= dt_config_replaces(&table->fields[i], path) || experiment_field_follows(path, table->fields[i].path);
        }
    }
    return found ? DT_OK : refuse(pairing->keys, key, key_bytes);
}

dt_status pairing_parse(const char *keys, struct pairing *out)
{
    *out = (struct pairing){.keys = keys, .named = calloc((size_t)experiment_table()->count, sizeof *out->named)};
    DT_TRY(dt_allocated(out->named, "no memory for the keys of a config"));
    for (const char *key = keys;; key++) {
        size_t bytes = strcspn(key, ",");
        DT_TRY(name_key(out, key, bytes));
        key += bytes;
        if (!*key)
            return DT_OK;
    }
}

void pairing_finish(struct pairing *pairing)
{
    free(pairing->named);
    pairing->named = NULL;
}

bool pairing_names(const struct pairing *pairing, const char *path)
{
    int field = dt_config_find(experiment_table(), path);
    return field >= 0 && pairing->named[field]; /* a fact that no key sets has no field */
}

bool pairing_fits(const struct pairing *pairing, const struct experiment *a, const struct experiment *b)
{
    const struct dt_table *table = experiment_table();
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        bool matters = experiment_depends_on(a, field) && experiment_depends_on(b, field);
        if (!pairing->named[i] && matters && !dt_field_same(field, a, b))
            return false;
    }
    return true;
}

void pairing_describe(const struct pairing *pairing, const struct experiment *from, const struct experiment *e, char *text,
                      size_t text_bytes)
{
    const struct dt_table *table = experiment_table();
    struct experiment_columns changed = {0};
    struct experiment_differences both = {0};
    char label[LABEL_BYTES];
    experiment_differences_add(&both, from);
    experiment_differences_add(&both, e);
    experiment_columns_choose(&both, &changed);
    int kept = 0;
    for (int i = 0; i < changed.count; i++)
        if (pairing->named[changed.fields[i] - table->fields])
            changed.fields[kept++] = changed.fields[i];
    changed.count = kept;
    changed.worlds_differ &= pairing_names(pairing, "world_size");
    changed.batches_differ &= pairing_names(pairing, "batch_size");
    experiment_label(e, &changed, label, sizeof label);
    /* A label begins with the paradigm, which is only shown if it has changed. */
    const char *rest = strstr(label, ", ");
    if (from->paradigm != e->paradigm)
        snprintf(text, text_bytes, "%s", label);
    else
        snprintf(text, text_bytes, "%s", rest ? rest + 2 : "the same");
}
