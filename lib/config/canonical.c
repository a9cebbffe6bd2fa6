#include "lib/config/canonical.h"

#include "lib/config/json.h"

#include <stdlib.h>
#include <string.h>

/* A row of the table, with what its value was the last time. */
struct piece {
    const char *path;
    int field;
    bool wanted;
    char *value;      /* JSON; NULL: none yet */
    size_t bytes, at; /* of the value, and where it begins in the text */
};

struct dt_canonical {
    const struct dt_table *table;
    struct piece *pieces; /* [table->count], by path */
    char *text;
    size_t used, room;
    size_t same; /* this many bytes at the beginning are as the last time */
    bool whole;  /* the text is that of the pieces */
};

/* '.' comes before all characters of a key, so that this is the order of keys, object by object. */
static int by_path(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    return strcmp(a->path, b->path);
}

dt_status dt_canonical_create(const struct dt_table *table, struct dt_canonical **out)
{
    struct dt_canonical *c = calloc(1, sizeof *c);
    struct piece *pieces = calloc((size_t)table->count, sizeof *pieces);
    *out = c;
    if (!c || !pieces) {
        free(c);
        free(pieces);
        *out = NULL;
        return dt_fail(DT_ERR_HOST_MEMORY, "out of memory while writing a config");
    }
    *c = (struct dt_canonical){.table = table, .pieces = pieces};
    for (int i = 0; i < table->count; i++)
        pieces[i] = (struct piece){.path = table->fields[i].path, .field = i};
    qsort(pieces, (size_t)table->count, sizeof *pieces, by_path);
    return DT_OK;
}

void dt_canonical_destroy(struct dt_canonical *c)
{
    for (int i = 0; c && i < c->table->count; i++)
        free(c->pieces[i].value);
    free(c ? c->pieces : NULL);
    free(c ? c->text : NULL);
    free(c);
}

static dt_status grow(struct dt_canonical *c, size_t bytes)
{
    if (c->used + bytes <= c->room)
        return DT_OK;
    size_t room = 2 * (c->used + bytes);
    char *text = realloc(c->text, room);
    DT_TRY(dt_allocated(text, "out of memory while writing a config"));
    c->text = text;
    c->room = room;
    return DT_OK;
}

static dt_status put(struct dt_canonical *c, const char *bytes, size_t count)
{
    DT_TRY(grow(c, count));
    memcpy(c->text + c->used, bytes, count);
    c->used += count;
    return DT_OK;
}

/* Write what is between the value of `before` (NULL: the beginning) and that of `path`: the ends of objects, a comma, the beginnings of
 * others, and the key. */
static dt_status put_key(struct dt_canonical *c, const char *before, const char *path)
{
    size_t common = 0;
    for (size_t i = 0; before && before[i] && before[i] == path[i]; i++)
        if (path[i] == '.')
            common = i + 1;
    for (const char *end = before ? strchr(before + common, '.') : NULL; end; end = strchr(end + 1, '.'))
        DT_TRY(put(c, "}", 1));
    DT_TRY(put(c, before ? "," : "{", 1));
    for (const char *key = path + common;; key++) {
        size_t bytes = strcspn(key, ".");
        DT_TRY(put(c, "\"", 1));
        DT_TRY(put(c, key, bytes));
        key += bytes;
        DT_TRY(put(c, *key ? "\":{" : "\":", *key ? 3 : 2));
        if (!*key)
            return DT_OK;
    }
}

static dt_status write_whole(struct dt_canonical *c)
{
    const char *before = NULL;
    c->used = c->same = 0;
    for (int i = 0; i < c->table->count; i++) {
        struct piece *p = &c->pieces[i];
        if (!p->wanted)
            continue;
        DT_TRY(put_key(c, before, p->path));
        p->at = c->used;
        DT_TRY(put(c, p->value, p->bytes));
        before = p->path;
    }
    if (!before)
        return put(c, "{}", 2);
    for (const char *end = strchr(before, '.'); end; end = strchr(end + 1, '.'))
        DT_TRY(put(c, "}", 1));
    return put(c, "}", 1);
}

/* The value of piece `index` in the place of the one that was there, which had `old` bytes. */
static dt_status replace(struct dt_canonical *c, int index, size_t old)
{
    const struct piece *p = &c->pieces[index];
    DT_TRY(grow(c, p->bytes));
    c->same = p->at < c->same ? p->at : c->same;
    memmove(c->text + p->at + p->bytes, c->text + p->at + old, c->used - p->at - old);
    memcpy(c->text + p->at, p->value, p->bytes);
    c->used += p->bytes - old;
    for (int i = index + 1; i < c->table->count && p->bytes != old; i++)
        c->pieces[i].at += p->bytes - old;
    return DT_OK;
}

static dt_status set_value(struct dt_canonical *c, struct piece *p, const void *source)
{
    char *value;
    DT_TRY(dt_config_write_value(&c->table->fields[p->field], source, DT_JSON_SORTED, &value));
    free(p->value);
    p->value = value;
    p->bytes = strlen(value);
    return DT_OK;
}

static dt_status update(struct dt_canonical *c, const void *source, const bool *changed, const bool *wanted)
{
    for (int i = 0; i < c->table->count; i++) {
        struct piece *p = &c->pieces[i];
        size_t old = p->bytes;
        bool other = wanted[p->field] && (changed[p->field] || !p->value);
        c->whole &= p->wanted == wanted[p->field];
        p->wanted = wanted[p->field];
        if (other)
            DT_TRY(set_value(c, p, source));
        else if (changed[p->field]) { /* nobody wants it now */
            free(p->value);
            p->value = NULL;
        }
        if (other && c->whole)
            DT_TRY(replace(c, i, old));
    }
    return c->whole ? DT_OK : write_whole(c);
}

dt_status dt_canonical_write(struct dt_canonical *c, const void *source, const bool *changed, const bool *wanted, const char **out,
                             size_t *out_bytes, size_t *out_same)
{
    c->same = c->used;
    dt_status status = update(c, source, changed, wanted);
    c->whole = status == DT_OK;
    *out = c->text;
    *out_bytes = c->used;
    *out_same = c->same;
    return status;
}
