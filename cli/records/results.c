#include "cli/records/results_store.h"

#include "lib/base/grow.h"
#include "lib/base/text.h"
#include "lib/config/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- columns ---- */

/* Split "config.model.dtype" into its part, the config, and its name, "model.dtype". */
static enum result_part part_of(const char *path, const char **name)
{
    static const struct {
        const char *prefix;
        enum result_part part;
    } parts[] = {{"config.", RESULT_OF_CONFIG}, {"metrics.", RESULT_OF_METRICS}, {"provenance.", RESULT_OF_PROVENANCE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t bytes = strlen(parts[i].prefix);
        if (strncmp(path, parts[i].prefix, bytes) == 0) {
            *name = path + bytes;
            return parts[i].part;
        }
    }
    *name = path;
    return RESULT_OF_RECORD;
}

static dt_status add_node(struct results *r, int parent, const char *key, size_t bytes, int *out)
{
    if (!DT_ROOM(r->nodes, r->node_count, r->node_capacity))
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the keys of records");
    struct node *node = &r->nodes[r->node_count];
    const char *before = parent == NONE ? "" : r->nodes[parent].path;
    size_t path_bytes = strlen(before) + bytes + 2;
    *node = (struct node){.key = strndup(key, bytes),
                          .key_bytes = bytes,
                          .path = malloc(path_bytes),
                          .parent = parent,
                          .child = NONE,
                          .next = NONE,
                          .expected = NONE,
                          .told_row = NONE};
    if (!node->key || !node->path) {
        free(node->key);
        free(node->path);
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the keys of records");
    }
    snprintf(node->path, path_bytes, "%s%s%s", before, *before ? "." : "", node->key);
    node->part = part_of(node->path, &node->name);
    node->is_number = node->part == RESULT_OF_METRICS;
    node->kept =
        parent != NONE && ((node->part != RESULT_OF_METRICS && node->part != RESULT_OF_PROVENANCE) || r->wish(r->context, node->name));
    node->value = node->is_number ? NAN : 0;
    for (int above = parent; node->kept && above != NONE; above = r->nodes[above].parent)
        r->nodes[above].leads = true;
    if (parent != NONE) {
        int *link = &r->nodes[parent].child;
        while (*link != NONE)
            link = &r->nodes[*link].next;
        *link = r->node_count;
    }
    *out = r->node_count++;
    return DT_OK;
}

dt_status results_key(struct results *r, int parent, const char *key, size_t bytes, int *out)
{
    int found = NONE;
    for (int child = r->nodes[parent].child; child != NONE && found == NONE; child = r->nodes[child].next)
        if (r->nodes[child].key_bytes == bytes && memcmp(r->nodes[child].key, key, bytes) == 0)
            found = child;
    if (found == NONE)
        DT_TRY(add_node(r, parent, key, bytes, &found));
    *out = found;
    return DT_OK;
}

/* Set the value of the current row in the column of `node`. Rows between the column's last value
 * and this one have no value. */
dt_status results_put(struct node *node, int row, double value)
{
    double none = node->is_number ? NAN : 0;
    if (node->differs && node->rows == row && row < node->capacity) {
        node->values[row] = value;
        node->rows++;
        return DT_OK;
    }
    if (!node->differs && node->rows == 0 && row > 0)
        node->value = none;
    bool first = row == 0 && !node->differs;
    bool same = memcmp(&value, &node->value, sizeof value) == 0 && (node->rows >= row || memcmp(&none, &node->value, sizeof none) == 0);
    if (first || (!node->differs && same)) {
        node->value = value;
        node->rows = row + 1;
        return DT_OK;
    }
    int was = node->capacity;
    while (node->capacity <= row) {
        if (!DT_ROOM(node->values, node->capacity, node->capacity))
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the values of records");
    }
    for (int i = was; !node->differs && i < row; i++)
        node->values[i] = i < node->rows ? node->value : none;
    for (int i = node->rows; node->differs && i < row; i++)
        node->values[i] = none;
    node->differs = true;
    node->values[row] = value;
    node->rows = row + 1;
    return DT_OK;
}

double results_raw(const struct results *r, int row, int column)
{
    const struct node *node = &r->nodes[column];
    if (row >= node->rows)
        return node->is_number ? NAN : 0;
    return node->differs ? node->values[row] : node->value;
}

/* ---- texts ---- */

bool results_is_text(const struct results *r, uint32_t text, const char *characters, size_t bytes, enum result_kind kind)
{
    const char *its = r->characters + r->texts[text].at;
    return r->texts[text].kind == kind && strncmp(its, characters, bytes) == 0 && !its[bytes];
}

static size_t slot_of(const struct results *r, const char *characters, size_t bytes, enum result_kind kind)
{
    size_t slot = dt_hash_fnv1a(characters, bytes) & (r->slot_count - 1);
    while (r->slots[slot] && !results_is_text(r, r->slots[slot], characters, bytes, kind))
        slot = (slot + 1) & (r->slot_count - 1);
    return slot;
}

/* Double the hash table. */
static bool grow_slots(struct results *r)
{
    size_t count = r->slot_count ? 2 * r->slot_count : 1024;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    free(r->slots);
    r->slots = slots;
    r->slot_count = count;
    for (uint32_t i = 1; i < r->text_count; i++) {
        const char *text = r->characters + r->texts[i].at;
        r->slots[slot_of(r, text, strlen(text), r->texts[i].kind)] = i;
    }
    return true;
}

static bool make_room(struct results *r, size_t bytes)
{
    if (!DT_ROOM(r->texts, r->text_count, r->text_capacity))
        return false;
    if (!DT_ROOM_FOR(r->characters, r->used, r->room, bytes))
        return false;
    return 2 * r->text_count < r->slot_count || grow_slots(r);
}

dt_status results_intern(struct results *r, const char *characters, size_t bytes, enum result_kind kind, uint32_t *out)
{
    if (!make_room(r, bytes + 1))
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the texts of records");
    size_t slot = slot_of(r, characters, bytes, kind);
    if (!r->slots[slot]) {
        memcpy(r->characters + r->used, characters, bytes);
        r->characters[r->used + bytes] = 0;
        r->texts[r->text_count] = (struct text){r->used, kind};
        r->used += bytes + 1;
        r->slots[slot] = (uint32_t)r->text_count++;
    }
    *out = r->slots[slot];
    return DT_OK;
}

/* ---- all of it ---- */

dt_status results_create(results_wish *wish, const void *context, struct results **out)
{
    DT_DESTROYED(results_destroy) struct results *r = calloc(1, sizeof *r);
    int root;
    uint32_t none;
    DT_TRY(dt_allocated(r, "no memory for records"));
    r->wish = wish;
    r->context = context;
    r->kept_source = r->config = r->hash = r->status = r->version = NONE;
    DT_TRY(add_node(r, NONE, "", 0, &root));
    DT_TRY(results_intern(r, "", 0, RESULT_NONE, &none)); /* the empty text gets number 0 */
    r->slots[slot_of(r, "", 0, RESULT_NONE)] = 0;
    *out = DT_PASSED_ON(r);
    return DT_OK;
}

void results_destroy(struct results *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->node_count; i++) {
        free(r->nodes[i].key);
        free(r->nodes[i].path);
        free(r->nodes[i].values);
    }
    for (int i = 0; i < r->source_count; i++) {
        free(r->sources[i].name);
        if (r->sources[i].fd >= 0)
            close(r->sources[i].fd);
    }
    free(r->nodes);
    free(r->sources);
    free(r->rows);
    free(r->texts);
    free(r->slots);
    free(r->characters);
    free(r->line);
    free(r);
}

/* ---- what is asked ---- */

int results_count(const struct results *r)
{
    return r->count;
}

int results_columns(const struct results *r)
{
    return r->node_count;
}

const char *results_name(const struct results *r, int column)
{
    return r->nodes[column].name;
}

enum result_part results_part(const struct results *r, int column)
{
    return r->nodes[column].part;
}

/* The child that stands for an object of numbers: step_s.median for step_s. */
static int main_value(const struct results *r, int column)
{
    for (int child = r->nodes[column].child; child != NONE; child = r->nodes[child].next)
        if (strcmp(r->nodes[child].key, "median") == 0 || strcmp(r->nodes[child].key, "total") == 0)
            return child;
    return column;
}

/* Find a column by its last word: a config key before a metric, and a metric before anything
 * else. */
int results_find(const struct results *r, const char *name)
{
    int found = NONE, part = RESULT_OF_RECORD + 1;
    static const int order[] = {[RESULT_OF_CONFIG] = 0, [RESULT_OF_METRICS] = 1, [RESULT_OF_RECORD] = 2, [RESULT_OF_PROVENANCE] = 3};
    for (int i = ROOT + 1; i < r->node_count; i++) {
        bool is = strcmp(r->nodes[i].name, name) == 0 || strcmp(r->nodes[i].path, name) == 0;
        if (!is || order[results_part(r, i)] >= part)
            continue;
        found = i;
        part = order[results_part(r, i)];
    }
    return found == NONE ? NONE : main_value(r, found);
}

const char *results_nearest(const struct results *r, const char *name)
{
    const char *best = NULL;
    for (int i = ROOT + 1; i < r->node_count; i++) {
        const char *other = r->nodes[i].name;
        bool near = dt_looks_like(name, other) || strstr(other, name);
        if ((r->nodes[i].child == NONE || main_value(r, i) != i) && near &&
            (!best || dt_edit_distance(name, other) < dt_edit_distance(name, best)))
            best = other;
    }
    return best;
}

bool results_has_values(const struct results *r, int column)
{
    const struct node *node = &r->nodes[column];
    return node->differs || (node->is_number ? !isnan(node->value) : node->value > 0);
}

bool results_differs(const struct results *r, int column)
{
    const struct node *node = &r->nodes[column];
    return node->differs || (node->rows < r->count && results_has_values(r, column));
}

enum result_kind results_kind(const struct results *r, int row, int column)
{
    double value = results_raw(r, row, column);
    if (r->nodes[column].is_number)
        return isnan(value) ? RESULT_NONE : RESULT_NUMBER;
    return r->texts[(size_t)value].kind;
}

double results_number(const struct results *r, int row, int column)
{
    double value = results_raw(r, row, column);
    if (r->nodes[column].is_number)
        return value;
    const struct text *text = &r->texts[(size_t)value];
    return text->kind == RESULT_NUMBER ? strtod(r->characters + text->at, NULL) : NAN;
}

const char *results_text(const struct results *r, int row, int column, char number[32])
{
    double value = results_raw(r, row, column);
    if (!r->nodes[column].is_number)
        return r->characters + r->texts[(size_t)value].at;
    *number = 0;
    if (!isnan(value))
        dt_format_double(value, number, 32);
    return number;
}

int results_id(const struct results *r, int row, int column)
{
    return r->nodes[column].is_number ? 0 : (int)results_raw(r, row, column);
}

int results_ids(const struct results *r)
{
    return (int)r->text_count;
}

bool results_same(const struct results *r, int left, int right, int column)
{
    double a = results_raw(r, left, column), b = results_raw(r, right, column);
    return a == b || (isnan(a) && isnan(b));
}

dt_status results_set(struct results *r, int row, int column, double value)
{
    struct node *node = &r->nodes[column];
    while (node->capacity < r->count)
        if (!DT_ROOM(node->values, node->capacity, node->capacity))
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the values of records");
    for (int i = node->differs ? node->rows : 0; i < r->count; i++)
        node->values[i] = i < node->rows ? node->value : NAN;
    node->differs = true;
    node->rows = r->count;
    node->values[row] = value;
    return DT_OK;
}

dt_status results_record(const struct results *r, int row, struct cJSON **out)
{
    if (r->rows[row].source == NONE)
        return dt_fail(DT_ERR_IO, "a record is no longer there");
    const struct row *place = &r->rows[row];
    const struct source *source = &r->sources[place->source];
    int fd = source->fd >= 0 ? source->fd : open(source->name, O_RDONLY | O_CLOEXEC);
    DT_FREED char *line = malloc((size_t)place->bytes + 1);
    ssize_t count = line && fd >= 0 ? pread(fd, line, place->bytes, (off_t)place->offset) : -1;
    dt_status status = dt_allocated(line, "no memory for a record of %s", source->name);
    if (status == DT_OK && count != (ssize_t)place->bytes)
        status = dt_fail(DT_ERR_IO, "cannot read a record of %s again: %s", source->name, count < 0 ? strerror(errno) : "it has changed");
    DT_THEN(status, dt_json_parse(line, place->bytes, source->name, out));
    if (source->fd < 0 && fd >= 0)
        close(fd);
    return status;
}
