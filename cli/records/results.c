#include "cli/records/results.h"

#include "cli/records/records.h"
#include "lib/base/text.h"
#include "lib/config/json.h"
#include "lib/record/record.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE = -1, ROOT = 0, TOKEN_BYTES = 32, DEPTH_MAX = 64 };

/* A key of the records: of an object, whose keys are its children, or of a value in each row. */
struct node {
    char *key, *path; /* owned; path: "config.model.dtype" */
    const char *name; /* in path, after the part that goes without saying */
    int parent;       /* NONE: the record itself */
    int child, next;  /* first child, next sibling */
    int expected;     /* the child that comes next if this record is like the last one */
    bool kept;        /* its value is; a list's only in its children */
    bool is_number;   /* kept as numbers; else as numbers of texts, 0: none */
    bool differs;     /* `values` has them; else all rows have `value` */
    int rows;         /* that have a value, or none after one that has; later rows have none */
    double value;     /* see above */
    double *values;   /* [capacity] owned */
    int capacity;
    char last[TOKEN_BYTES]; /* a number's text in the last record, and what it is: most come again */
    int last_bytes;
    double last_number;
    bool leads; /* to a value that is kept */
    /* "key": value in the line of row `told_row`, at that byte: what stands there again in the next line is not read again */
    int told_row;
    uint32_t told_at, told_bytes;
};

/* A text that some record has, once. */
struct text {
    size_t at; /* in `characters` */
    enum result_kind kind;
};

struct source {
    char *name; /* owned */
    int fd;     /* of a temporary file that is nobody else's; -1: to be opened */
};

struct row {
    uint64_t offset;
    uint32_t bytes;
    int source;
};

struct results {
    results_wish *wish;
    const void *context;
    struct node *nodes; /* [node_count]; nodes[ROOT] is the record */
    int node_count, node_capacity;
    struct row *rows;
    int count, capacity;
    struct source *sources;
    int source_count;
    struct text *texts; /* [text_count]; texts[0] is none */
    uint32_t *slots;    /* [slot_count] a hash table of them */
    size_t text_count, text_capacity, slot_count;
    char *characters;
    size_t used, room;
    int hash, status, version; /* columns; NONE: not yet seen */
    int kept_source;           /* of results_add; NONE: there is none yet */
    uint64_t kept_bytes;
    char *line; /* of the last row */
    size_t line_room;
};

/* Room for one more of `items`; false when memory is out. */
static bool grow(void *items, size_t size, int count, int *capacity)
{
    if (count < *capacity)
        return true;
    int more = 2 * *capacity + 64;
    void *grown = realloc(*(void **)items, (size_t)more * size);
    if (!grown)
        return false;
    *(void **)items = grown;
    *capacity = more;
    return true;
}

/* ---- columns ---- */

/* "config.model.dtype" as "model.dtype". */
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

static bool is_wanted(const struct results *r, const char *path)
{
    const char *name;
    enum result_part part = part_of(path, &name);
    return (part != RESULT_OF_METRICS && part != RESULT_OF_PROVENANCE) || r->wish(r->context, name);
}

static dt_status add_node(struct results *r, int parent, const char *key, size_t bytes, int *out)
{
    const char *before = parent == NONE ? "" : r->nodes[parent].path;
    if (!grow(&r->nodes, sizeof *r->nodes, r->node_count, &r->node_capacity))
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for the keys of records");
    struct node *node = &r->nodes[r->node_count];
    before = parent == NONE ? "" : r->nodes[parent].path; /* the nodes may have moved, their texts have not */
    size_t path_bytes = strlen(before) + bytes + 2;
    *node = (struct node){.key = strndup(key, bytes),
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
    node->is_number = part_of(node->path, &node->name) == RESULT_OF_METRICS;
    node->kept = parent != NONE && is_wanted(r, node->path);
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

/* The column of a key of `parent`; a new one where no record had it before. */
static dt_status find_node(struct results *r, int parent, const char *key, size_t bytes, int *out)
{
    int expected = r->nodes[parent].expected, found = NONE;
    if (expected != NONE && strncmp(r->nodes[expected].key, key, bytes) == 0 && !r->nodes[expected].key[bytes])
        found = expected;
    for (int child = r->nodes[parent].child; child != NONE && found == NONE; child = r->nodes[child].next)
        if (strncmp(r->nodes[child].key, key, bytes) == 0 && !r->nodes[child].key[bytes])
            found = child;
    if (found == NONE)
        DT_TRY(add_node(r, parent, key, bytes, &found));
    r->nodes[parent].expected = r->nodes[found].next;
    *out = found;
    return DT_OK;
}

/* Give the row of `node` a value; rows between the last one that has a value and this one have none. */
static dt_status put(struct node *node, int row, double value)
{
    double none = node->is_number ? NAN : 0;
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
        if (!grow(&node->values, sizeof *node->values, node->capacity, &node->capacity))
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

static double raw_value(const struct results *r, int row, int column)
{
    const struct node *node = &r->nodes[column];
    if (row >= node->rows)
        return node->is_number ? NAN : 0;
    return node->differs ? node->values[row] : node->value;
}

/* ---- texts ---- */

static bool is_text(const struct results *r, uint32_t text, const char *characters, size_t bytes, enum result_kind kind)
{
    const char *its = r->characters + r->texts[text].at;
    return r->texts[text].kind == kind && strncmp(its, characters, bytes) == 0 && !its[bytes];
}

static size_t slot_of(const struct results *r, const char *characters, size_t bytes, enum result_kind kind)
{
    size_t slot = dt_hash_fnv1a(characters, bytes) & (r->slot_count - 1);
    while (r->slots[slot] && !is_text(r, r->slots[slot], characters, bytes, kind))
        slot = (slot + 1) & (r->slot_count - 1);
    return slot;
}

/* Twice the slots. */
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
    if (r->text_count == r->text_capacity) {
        size_t capacity = 2 * r->text_capacity + 256;
        struct text *texts = realloc(r->texts, capacity * sizeof *texts);
        if (!texts)
            return false;
        r->texts = texts;
        r->text_capacity = capacity;
    }
    if (r->room - r->used < bytes) {
        size_t room = 2 * r->room + bytes + 4096;
        char *characters = realloc(r->characters, room);
        if (!characters)
            return false;
        r->characters = characters;
        r->room = room;
    }
    return 2 * r->text_count < r->slot_count || grow_slots(r);
}

/* The number of a text, the same for the same one. */
static dt_status intern(struct results *r, const char *characters, size_t bytes, enum result_kind kind, uint32_t *out)
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

/* ---- one line ---- */

/* Where the scanner is; a NUL ends the line. What is no record ends the scan with DT_ERR_INVALID, without a text: it is counted, and left out. */
struct scan {
    struct results *results;
    const char *line, *at;
    int depth;
    bool has_config;
};

static void skip_blanks(struct scan *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\r')
        s->at++;
}

/* At a quote: the characters up to the next one, which is passed. */
static bool take_string(struct scan *s, const char **begin, size_t *bytes, bool *escaped)
{
    const char *c = s->at + 1;
    *escaped = false;
    for (; *c != '"'; c++) {
        if ((unsigned char)*c < ' ')
            return false;
        if (*c == '\\') {
            *escaped = true;
            c++;
            if ((unsigned char)*c < ' ')
                return false;
        }
    }
    *begin = s->at + 1;
    *bytes = (size_t)(c - *begin);
    s->at = c + 1;
    return true;
}

/* At an opening bracket: to what comes after its closing one. Brackets are counted, not paired. */
static bool skip_brackets(struct scan *s)
{
    static const bool stops[256] = {[0] = true, ['"'] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true};
    const char *begin;
    size_t bytes;
    bool escaped;
    for (int depth = 0;;) {
        while (!stops[(unsigned char)*s->at])
            s->at++;
        if (*s->at == '"') {
            if (!take_string(s, &begin, &bytes, &escaped))
                return false;
            continue;
        }
        if (!*s->at)
            return false;
        depth += *s->at == '{' || *s->at == '[' ? 1 : -1;
        s->at++;
        if (depth == 0)
            return true;
    }
}

/* At a number or a word: its end. */
static size_t token_bytes(const struct scan *s)
{
    const char *c = s->at;
    while ((unsigned char)*c > ' ' && *c != ',' && *c != '}' && *c != ']')
        c++;
    return (size_t)(c - s->at);
}

static bool skip_value(struct scan *s)
{
    const char *begin;
    size_t bytes;
    bool escaped;
    if (*s->at == '"')
        return take_string(s, &begin, &bytes, &escaped);
    if (*s->at == '{' || *s->at == '[')
        return skip_brackets(s);
    bytes = token_bytes(s);
    s->at += bytes;
    return bytes > 0;
}

static dt_status take_value(struct scan *s, int column);

/* A text with escapes, as JSON reads it. */
static dt_status put_escaped(struct results *r, int column, const char *quoted, size_t bytes)
{
    cJSON *value;
    uint32_t text;
    DT_TRY(dt_json_parse(quoted, bytes, "", &value));
    const char *characters = cJSON_IsString(value) ? value->valuestring : "";
    dt_status status = intern(r, characters, strlen(characters), RESULT_TEXT, &text);
    dt_json_destroy(value);
    return status == DT_OK ? put(&r->nodes[column], r->count, text) : status;
}

static dt_status put_text(struct results *r, int column, const char *characters, size_t bytes, enum result_kind kind)
{
    struct node *node = &r->nodes[column];
    uint32_t text = r->count > 0 ? (uint32_t)raw_value(r, r->count - 1, column) : 0;
    if (!text || !is_text(r, text, characters, bytes, kind))
        DT_TRY(intern(r, characters, bytes, kind, &text));
    return put(node, r->count, text);
}

static dt_status put_number(struct node *node, int row, const char *token, size_t bytes)
{
    if (bytes != (size_t)node->last_bytes || memcmp(node->last, token, bytes) != 0) {
        char *end;
        node->last_number = strtod(token, &end);
        if (end != token + bytes || !isfinite(node->last_number))
            return DT_ERR_INVALID;
        node->last_bytes = bytes < sizeof node->last ? (int)bytes : 0;
        memcpy(node->last, token, (size_t)node->last_bytes);
    }
    return put(node, row, node->last_number);
}

/* Where the member that comes next is the same text as in the last row, so is its value. */
static dt_status take_told(struct scan *s, int column, bool *told)
{
    struct results *r = s->results;
    int expected = r->nodes[column].expected;
    if (expected == NONE || r->nodes[expected].told_row != r->count - 1 || r->count == 0)
        return DT_OK;
    struct node *node = &r->nodes[expected];
    char after = *s->at == '"' && strncmp(s->at, r->line + node->told_at, node->told_bytes) == 0 ? s->at[node->told_bytes] : 0;
    *told = after == ',' || after == '}';
    if (!*told)
        return DT_OK;
    node->told_row = r->count;
    node->told_at = (uint32_t)(s->at - s->line);
    s->at += node->told_bytes;
    r->nodes[column].expected = node->next;
    return node->kept && node->rows == r->count ? put(node, r->count, raw_value(r, r->count - 1, expected)) : DT_OK;
}

/* "key": value. It is told again if none of its parts has a column of its own. */
static dt_status take_member(struct scan *s, int column)
{
    struct results *r = s->results;
    const char *begin = s->at, *key;
    size_t bytes;
    bool escaped;
    int child;
    if (*s->at != '"' || !take_string(s, &key, &bytes, &escaped))
        return DT_ERR_INVALID;
    skip_blanks(s);
    if (*s->at++ != ':')
        return DT_ERR_INVALID;
    skip_blanks(s);
    DT_TRY(find_node(r, column, key, bytes, &child));
    DT_TRY(take_value(s, child));
    struct node *node = &r->nodes[child];
    node->told_row = node->leads ? NONE : r->count;
    node->told_at = (uint32_t)(begin - s->line);
    node->told_bytes = (uint32_t)(s->at - begin);
    return DT_OK;
}

static dt_status take_object(struct scan *s, int column)
{
    struct results *r = s->results;
    r->nodes[column].expected = r->nodes[column].child;
    s->has_config |= r->nodes[column].parent == ROOT && strcmp(r->nodes[column].key, "config") == 0;
    s->at++;
    skip_blanks(s);
    if (*s->at == '}') {
        s->at++;
        return DT_OK;
    }
    for (;; s->at++) {
        skip_blanks(s);
        bool told = false;
        DT_TRY(take_told(s, column, &told));
        if (!told)
            DT_TRY(take_member(s, column));
        skip_blanks(s);
        if (*s->at == '}') {
            s->at++;
            return DT_OK;
        }
        if (*s->at != ',')
            return DT_ERR_INVALID;
    }
}

/* A list of what each step has has columns for its first and its last one. */
static dt_status take_ends(struct scan *s, int column)
{
    struct scan first = *s, last;
    int child;
    first.at++;
    skip_blanks(&first);
    if (*first.at == ']')
        return skip_value(s) ? DT_OK : DT_ERR_INVALID;
    for (*s = last = first; *s->at != ']';) {
        last = *s;
        if (!skip_value(s))
            return DT_ERR_INVALID;
        skip_blanks(s);
        s->at += *s->at == ',';
        skip_blanks(s);
    }
    s->at++;
    DT_TRY(find_node(s->results, column, "first", 5, &child));
    DT_TRY(take_value(&first, child));
    DT_TRY(find_node(s->results, column, "last", 4, &child));
    return take_value(&last, child);
}

static bool is_of_steps(const char *path)
{
    static const char *const lists[] = {"losses", "learning_rates", "gradient_norms", "loss_scales"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(path, lists[i]) == 0)
            return true;
    return false;
}

/* Of the config a list is a text; of other lists but those of steps nobody wants anything here. */
static dt_status take_list(struct scan *s, int column)
{
    const struct node *node = &s->results->nodes[column];
    const char *begin = s->at, *name;
    if (is_of_steps(node->path))
        return take_ends(s, column);
    if (!skip_value(s))
        return DT_ERR_INVALID;
    if (part_of(node->path, &name) != RESULT_OF_CONFIG)
        return DT_OK;
    return put_text(s->results, column, begin, (size_t)(s->at - begin), RESULT_TEXT);
}

static dt_status take_token(struct scan *s, int column)
{
    struct results *r = s->results;
    const char *token = s->at;
    size_t bytes = token_bytes(s);
    bool is_null = bytes == 4 && memcmp(token, "null", 4) == 0, truth = *token == 't' || *token == 'f';
    if (bytes == 0 || (!is_null && !truth && *token != '-' && (*token < '0' || *token > '9')))
        return DT_ERR_INVALID;
    s->at += bytes;
    if (!r->nodes[column].kept || is_null)
        return DT_OK;
    if (r->nodes[column].is_number)
        return truth ? DT_OK : put_number(&r->nodes[column], r->count, token, bytes);
    return put_text(r, column, token, bytes, truth ? RESULT_TRUTH : RESULT_NUMBER);
}

static dt_status take_text(struct scan *s, int column)
{
    const struct node *node = &s->results->nodes[column];
    const char *begin;
    size_t bytes;
    bool escaped;
    if (!take_string(s, &begin, &bytes, &escaped))
        return DT_ERR_INVALID;
    if (!node->kept || node->is_number)
        return DT_OK;
    return escaped ? put_escaped(s->results, column, begin - 1, bytes + 2) : put_text(s->results, column, begin, bytes, RESULT_TEXT);
}

static dt_status take_value(struct scan *s, int column)
{
    dt_status status;
    switch (*s->at) {
    case '{':
        if (++s->depth > DEPTH_MAX)
            return DT_ERR_INVALID;
        status = take_object(s, column);
        s->depth--;
        return status;
    case '[': return take_list(s, column);
    case '"': return take_text(s, column);
    default: return take_token(s, column);
    }
}

/* ---- rows ---- */

/* What a line that is no record has left in the row that comes next. */
static void forget_row(struct results *r)
{
    for (int i = 0; i < r->node_count; i++) {
        struct node *node = &r->nodes[i];
        if (node->rows > r->count)
            node->rows = r->count;
        node->told_row = NONE;
    }
}

enum line_is { IS_RECORD, IS_NEWER, IS_TORN };

/* The record's own key, kept where it was found last. */
static int find_own(const struct results *r, const char *key, int *column)
{
    for (int child = r->nodes[ROOT].child; *column == NONE && child != NONE; child = r->nodes[child].next)
        if (strcmp(r->nodes[child].key, key) == 0)
            *column = child;
    return *column;
}

static bool has_text(const struct results *r, const char *key, int *column)
{
    return find_own(r, key, column) != NONE && results_kind(r, r->count, *column) == RESULT_TEXT;
}

/* The line of the row that comes next, for the one after it. */
static dt_status keep_text(struct results *r, const char *line, const char *end)
{
    size_t bytes = (size_t)(end - line) + 1;
    if (r->line_room < bytes) {
        char *grown = realloc(r->line, 2 * bytes);
        DT_TRY(dt_allocated(grown, "no memory for a record"));
        r->line = grown;
        r->line_room = 2 * bytes;
    }
    memcpy(r->line, line, bytes);
    return DT_OK;
}

/* The values of a line become the next row, if it is a record. Errors: DT_ERR_HOST_MEMORY. */
static dt_status scan_line(struct results *r, const char *line, struct row place, enum line_is *is)
{
    struct scan scan = {.results = r, .line = line, .at = line};
    skip_blanks(&scan);
    dt_status status = *scan.at == '{' ? take_value(&scan, ROOT) : DT_ERR_INVALID;
    skip_blanks(&scan);
    *is = IS_TORN;
    if (status == DT_OK && !*scan.at && scan.has_config && has_text(r, "config_hash", &r->hash) && has_text(r, "status", &r->status)) {
        bool told = find_own(r, "schema_version", &r->version) != NONE;
        *is = told && results_number(r, r->count, r->version) > DT_RECORD_SCHEMA_VERSION ? IS_NEWER : IS_RECORD;
    }
    if (status == DT_OK && *is == IS_RECORD && !grow(&r->rows, sizeof *r->rows, r->count, &r->capacity))
        status = dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d records", r->count);
    if (status == DT_OK && *is == IS_RECORD)
        status = keep_text(r, line, scan.at);
    if (status == DT_OK && *is == IS_RECORD)
        r->rows[r->count++] = place;
    else
        forget_row(r);
    return status == DT_ERR_INVALID ? DT_OK : status;
}

static dt_status add_source(struct results *r, const char *name, int fd)
{
    struct source *sources = realloc(r->sources, ((size_t)r->source_count + 1) * sizeof *sources);
    DT_TRY(dt_allocated(sources, "no memory for the records of %s", name));
    r->sources = sources;
    sources[r->source_count] = (struct source){strdup(name), fd};
    DT_TRY(dt_allocated(sources[r->source_count].name, "no memory for the records of %s", name));
    r->source_count++;
    return DT_OK;
}

/* A line that is kept in a temporary file, where results_record finds it. */
static dt_status keep_line(struct results *r, const char *line, size_t bytes, struct row *place)
{
    if (r->kept_source == NONE) {
        char name[PATH_MAX];
        const char *folder = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/dtbench.XXXXXX", folder && *folder ? folder : "/tmp");
        int fd = mkostemp(name, O_CLOEXEC);
        if (fd < 0)
            return dt_fail(DT_ERR_IO, "cannot write the temporary file %s: %s", name, strerror(errno));
        unlink(name);
        int source = r->source_count;
        DT_TRY(add_source(r, "standard input", fd));
        r->kept_source = source;
    }
    *place = (struct row){r->kept_bytes, (uint32_t)bytes, r->kept_source};
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(r->sources[r->kept_source].fd, line + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return dt_fail(DT_ERR_IO, "cannot write a temporary file: %s; TMPDIR chooses another folder", strerror(errno));
        done += count > 0 ? (size_t)count : 0;
    }
    r->kept_bytes += bytes;
    return DT_OK;
}

dt_status results_add(struct results *r, const char *line, int *row)
{
    enum line_is is;
    DT_TRY(scan_line(r, line, (struct row){.source = NONE}, &is));
    *row = is == IS_RECORD ? r->count - 1 : NONE;
    return DT_OK;
}

struct reader {
    struct results *results;
    const char *command;
    bool standard; /* standard input, which cannot be read again */
    int torn, newer;
};

static dt_status read_line(void *context, char *line, size_t bytes, uint64_t offset)
{
    struct reader *reader = context;
    struct results *r = reader->results;
    struct row place = {offset, (uint32_t)bytes, r->source_count - 1};
    enum line_is is;
    if (strspn(line, " \t\r") == bytes)
        return DT_OK;
    if (reader->standard)
        DT_TRY(keep_line(r, line, bytes, &place));
    DT_TRY(scan_line(r, line, place, &is));
    reader->torn += is == IS_TORN;
    reader->newer += is == IS_NEWER;
    return DT_OK;
}

static dt_status read_source(void *context, const char *path)
{
    struct reader *reader = context;
    reader->standard = strcmp(path, "-") == 0;
    reader->torn = reader->newer = 0;
    const char *opened = reader->standard ? "/dev/stdin" : path, *name = reader->standard ? "standard input" : path;
    if (access(opened, R_OK) < 0)
        return dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    if (!reader->standard)
        DT_TRY(add_source(reader->results, path, -1));
    DT_TRY(dt_record_lines_visit(opened, read_line, reader));
    records_warn_of_left_out(reader->command, name, reader->torn, reader->newer, DT_RECORD_SCHEMA_VERSION + 1);
    return DT_OK;
}

dt_status results_read(struct results *r, const char *command, const char *const *arguments, int argument_count)
{
    struct reader reader = {.results = r, .command = command};
    return record_files_visit(arguments, argument_count, read_source, &reader);
}

dt_status results_create(results_wish *wish, const void *context, struct results **out)
{
    struct results *r = calloc(1, sizeof *r);
    int root;
    uint32_t none;
    DT_TRY(dt_allocated(r, "no memory for records"));
    r->wish = wish;
    r->context = context;
    r->kept_source = r->hash = r->status = r->version = NONE;
    dt_status status = add_node(r, NONE, "", 0, &root);
    if (status == DT_OK)
        status = intern(r, "", 0, RESULT_NONE, &none); /* number 0 */
    if (status < 0) {
        results_destroy(r);
        return status;
    }
    r->slots[slot_of(r, "", 0, RESULT_NONE)] = 0;
    *out = r;
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
    const char *name;
    return part_of(r->nodes[column].path, &name);
}

/* The child that stands for an object of numbers. */
static int main_value(const struct results *r, int column)
{
    for (int child = r->nodes[column].child; child != NONE; child = r->nodes[child].next)
        if (strcmp(r->nodes[child].key, "median") == 0 || strcmp(r->nodes[child].key, "total") == 0)
            return child;
    return column;
}

/* A config's key comes before a metric, and that before what else has the name. */
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
    double value = raw_value(r, row, column);
    if (r->nodes[column].is_number)
        return isnan(value) ? RESULT_NONE : RESULT_NUMBER;
    return r->texts[(size_t)value].kind;
}

double results_number(const struct results *r, int row, int column)
{
    double value = raw_value(r, row, column);
    if (r->nodes[column].is_number)
        return value;
    const struct text *text = &r->texts[(size_t)value];
    return text->kind == RESULT_NUMBER ? strtod(r->characters + text->at, NULL) : NAN;
}

const char *results_text(const struct results *r, int row, int column, char number[32])
{
    double value = raw_value(r, row, column);
    if (!r->nodes[column].is_number)
        return r->characters + r->texts[(size_t)value].at;
    *number = 0;
    if (!isnan(value))
        dt_format_double(value, number, 32);
    return number;
}

int results_id(const struct results *r, int row, int column)
{
    return r->nodes[column].is_number ? 0 : (int)raw_value(r, row, column);
}

int results_ids(const struct results *r)
{
    return (int)r->text_count;
}

bool results_same(const struct results *r, int left, int right, int column)
{
    double a = raw_value(r, left, column), b = raw_value(r, right, column);
    return a == b || (isnan(a) && isnan(b));
}

dt_status results_set(struct results *r, int row, int column, double value)
{
    struct node *node = &r->nodes[column];
    while (node->capacity < r->count)
        if (!grow(&node->values, sizeof *node->values, node->capacity, &node->capacity))
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
    char *line = malloc((size_t)place->bytes + 1);
    ssize_t count = line && fd >= 0 ? pread(fd, line, place->bytes, (off_t)place->offset) : -1;
    dt_status status = dt_allocated(line, "no memory for a record of %s", source->name);
    if (status == DT_OK && count != (ssize_t)place->bytes)
        status = dt_fail(DT_ERR_IO, "cannot read a record of %s again: %s", source->name, count < 0 ? strerror(errno) : "it has changed");
    if (status == DT_OK)
        status = dt_json_parse(line, place->bytes, source->name, out);
    if (source->fd < 0 && fd >= 0)
        close(fd);
    free(line);
    return status;
}
