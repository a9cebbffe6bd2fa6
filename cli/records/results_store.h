/* The store of records' values (results.h), shared by the files that fill it: results.c stores
 * values, results_scan.c reads a line, results_read.c reads files. */
#pragma once

#include "cli/records/results.h"

enum { NONE = -1, ROOT = 0 };

/* A key of the records: of an object, whose keys are its children, or of a value in each row.
 * Members that every row reads come first, to share a cache line. */
struct node {
    int child, next;       /* first child, next sibling */
    int expected;          /* the child that comes next if this record has the order of keys of the last one */
    bool kept;             /* its value is kept; a list's value is kept only in its children */
    bool leads;            /* some key below it is kept */
    bool is_number;        /* values are numbers; else they are the numbers of texts, 0: none */
    bool differs;          /* rows differ, and `values` has their values; else all rows have `value` */
    int rows;              /* rows with an entry in `values`; later rows have no value */
    int capacity;          /* of `values` */
    double value, *values; /* see above; [capacity] owned */
    int told_row; /* the last row whose line had "key": value, at byte told_at; if the next line has the same text there, it is not read again */
    uint32_t told_at, told_bytes;
    size_t key_bytes;
    char *key, *path; /* owned; path: "config.model.dtype" */
    const char *name; /* points into path, after "config.", "metrics." or "provenance." */
    enum result_part part;
    int parent; /* NONE: the record itself */
};

/* A text of any number of records, stored once. */
struct text {
    size_t at; /* in `characters` */
    enum result_kind kind;
};

struct source {
    char *name; /* owned */
    int fd;     /* an unlinked temporary file's; -1: the file must be opened */
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
    struct text *texts; /* [text_count]; texts[0] is the empty one */
    uint32_t *slots;    /* [slot_count] hash table of the texts */
    size_t text_count, text_capacity, slot_count;
    char *characters;
    size_t used, room;
    int config, hash, status, version; /* columns; NONE: not yet seen */
    int kept_source;                   /* the source of results_add's lines; NONE: not yet needed */
    uint64_t kept_bytes;
    char *line; /* the last row's line */
    size_t line_bytes, line_room;
};

/* The column of a key of `parent`; a new one where no record had it before. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status results_key(struct results *r, int parent, const char *key, size_t bytes, int *out);
/* Give `node` a value in a row; rows between its last value and this one have no value. */
dt_status results_put(struct node *node, int row, double value);
double results_raw(const struct results *r, int row, int column);
/* results_intern gives equal texts the same number; results_is_text compares the text of a number
 * with characters. */
dt_status results_intern(struct results *r, const char *characters, size_t bytes, enum result_kind kind, uint32_t *out);
bool results_is_text(const struct results *r, uint32_t text, const char *characters, size_t bytes, enum result_kind kind);
/* Read the values of a line (`bytes` bytes, then a NUL) into the next row, which the caller adds.
 * *has_config: whether the line has an object "config". Errors: DT_ERR_INVALID without a text: the
 * line is no object, or torn; DT_ERR_HOST_MEMORY. */
dt_status results_scan(struct results *r, const char *line, size_t bytes, bool *has_config);
