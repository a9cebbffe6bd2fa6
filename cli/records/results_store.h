/* The store of records' values (results.h), for those who fill it: results.c keeps, results_scan.c reads a line, results_read.c the files. */
#ifndef CLI_RECORDS_RESULTS_STORE_H
#define CLI_RECORDS_RESULTS_STORE_H

#include "cli/records/results.h"

enum { NONE = -1, ROOT = 0 };

/* A key of the records: of an object, whose keys are its children, or of a value in each row. What each row asks for comes first. */
struct node {
    int child, next;       /* first child, next sibling */
    int expected;          /* the child that comes next if this record is like the last one */
    bool kept;             /* its value is; a list's only in its children */
    bool leads;            /* to values that are kept, below it */
    bool is_number;        /* kept as numbers; else as numbers of texts, 0: none */
    bool differs;          /* `values` has them; else all rows have `value` */
    int rows;              /* that have a value, or none after one that has; later rows have none */
    int capacity;          /* of `values` */
    double value, *values; /* see above; [capacity] owned */
    int told_row; /* in whose line "key": value stood at byte told_at: what stands there again in the next line is not read again */
    uint32_t told_at, told_bytes;
    size_t key_bytes;
    char *key, *path; /* owned; path: "config.model.dtype" */
    const char *name; /* in path, after the part that goes without saying */
    enum result_part part;
    int parent; /* NONE: the record itself */
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
    int config, hash, status, version; /* columns; NONE: not yet seen */
    int kept_source;                   /* of results_add; NONE: there is none yet */
    uint64_t kept_bytes;
    char *line; /* of the last row */
    size_t line_bytes, line_room;
};

/* The column of a key of `parent`; a new one where no record had it before. Errors: DT_ERR_HOST_MEMORY. */
dt_status results_key(struct results *r, int parent, const char *key, size_t bytes, int *out);
/* Give the row of `node` a value; rows between the last one that has a value and this one have none. */
dt_status results_put(struct node *node, int row, double value);
double results_raw(const struct results *r, int row, int column);
/* The number of a text, the same for the same one; and is it that of these characters? */
dt_status results_intern(struct results *r, const char *characters, size_t bytes, enum result_kind kind, uint32_t *out);
bool results_is_text(const struct results *r, uint32_t text, const char *characters, size_t bytes, enum result_kind kind);
/* Reads the values of a line (`bytes` bytes, then a NUL) as those of the next row, which results_scan does not add. *has_config: whether
 * the line has an object "config". Errors: DT_ERR_INVALID without a text: it is no object, or torn; DT_ERR_HOST_MEMORY. */
dt_status results_scan(struct results *r, const char *line, size_t bytes, bool *has_config);

#endif
