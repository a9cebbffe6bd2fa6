/* Reading a config by a table: every key has one row that says its path, type, range, default and
 * meaning.
 *
 * A config is a JSON object; "model.dtype" is the path of key "dtype" in the object at "model".
 * Rows fill a plain struct through offsets. A key that is not in the table is refused, with the
 * nearest known name. Overrides ("--set path=value") and sweeps use the table, too; neither knows
 * what the keys mean. Every error is one line: "FILE: path: what is wrong and what is allowed". */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

enum dt_field_kind {
    DT_FIELD_BOOL,   /* bool */
    DT_FIELD_INT,    /* int */
    DT_FIELD_U64,    /* uint64_t; at most 2^53 - 1, which a JSON number holds exactly */
    DT_FIELD_NUMBER, /* double */
    DT_FIELD_FLOAT,  /* float */
    DT_FIELD_STRING, /* char [size]: NUL-terminated UTF-8 */
    DT_FIELD_TEXT,   /* const char *: the same, kept by lib/base/grow.h, at most DT_FIELD_TEXT_MOST bytes */
    DT_FIELD_ENUM,   /* int (or an enum): the index of the name among the choices */
    /* const char *, interned: an object whose names begin with `prefix`, and whose values are
     * strings, numbers or booleans. Stored as compact JSON, with sorted names, and every value as
     * the string of an environment variable; "" if there is none. A sweep may vary it, or
     * path.NAME */
    DT_FIELD_SETTINGS,
};

/* Whether a file must have the key. dt_config_check_required checks this; reading does not. */
enum dt_requirement {
    DT_OPTIONAL,
    DT_REQUIRED,            /* always, and so must the object that it is in */
    DT_REQUIRED_IN_SECTION, /* if the file has any other key of its object */
};

/* A name that the design has, but this version does not support. */
struct dt_refused_choice {
    const char *name, *instead;
};

struct dt_field {
    const char *path;
    enum dt_field_kind kind;
    size_t offset, size;                     /* in the struct; size: bytes */
    double min, max;                         /* numbers: both allowed unless `above` / `below` say
                                                otherwise; strings: characters (code points) */
    bool above, below;                       /* the value must be > min, < max */
    const char *word;                        /* numbers: a word that is also a value, and */
    double word_number;                      /* the number that stands for it, outside of the range; NULL: none */
    const char *prefix;                      /* settings */
    const char *const *names;                /* of enums, and of strings with a fixed list; NULL after the last (DT_NAMES), */
    const char *(*choice)(int index);        /* or a function that returns them; NULL past the last */
    const char *const *booleans;             /* of a choice: the two names for false and true; NULL: booleans are not allowed */
    bool list;                               /* of a choice that is written "a-b-c": a list of its words is also a value */
    int words;                               /* strings: 1 to `words` words of the choice, "a-b-a", also as a list; 0: one word */
    int most_numbers;                        /* strings with a list: a list of up to `most_numbers` integers from min to max is a value too,
                                                kept as the text "4-8"; 0: no list */
    const char *file_ending;                 /* strings with a list: a file name with this ending is also a value; NULL: no file */
    const struct dt_refused_choice *refused; /* ends with a NULL name; or NULL */
    const char *initial;                     /* the default, as JSON; NULL: none (numbers 0, strings empty) */
    enum dt_requirement required;
    const char *const
        *replaces;    /* NULL-terminated paths, of fields or of objects of fields, that an override or a sweep which sets this one
                                    takes back; NULL: none */
    unsigned readers; /* the caller's bits: which of its parts read the key, if it has no `matters`; 0: all parts */
    bool (*matters)(const void *source); /* whether the key matters in this struct; reading and writing do not ask; NULL: always */
    bool costs_nothing;                  /* neither bytes nor times depend on it, for example a name or a seed */
    const char *group;                   /* begins a group of keys on the reference page, with this heading; NULL: continues the group */
    const char *description;             /* for the schema and the reference page */
};

struct dt_table {
    const struct dt_field *fields;
    int count;
    bool complete; /* every key without a default is required, regardless of its row */
};

/* A list of objects with a table of their own. */
struct dt_list {
    const struct dt_table *table; /* of one object */
    size_t stride;                /* bytes of the struct that it fills */
    int max;                      /* of objects */
};

/* Names of a row, indexed by their enum's values: DT_NAMES([SLOW] = "slow", [FAST] = "fast"), the
 * last value last. */
#define DT_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Choice `index` of a row, from 0; NULL past the last, or if it has none. */
const char *dt_field_choice(const struct dt_field *field, int index);
static inline bool dt_field_has_choices(const struct dt_field *field)
{
    return field->names || field->choice;
}

/* What values a field takes, in words: "an integer from 1 to 64", "a number above 0 and up to 100",
 * "one of fp32, fp16, bf16". */
enum { DT_FIELD_TEXT_BYTES = 640, DT_FIELD_TEXT_MOST = 2047 };
void dt_field_describe(const struct dt_field *field, char text[DT_FIELD_TEXT_BYTES]);

/* Set every field of `target` to its default. Errors: DT_ERR_INVALID if a default contradicts its
 * row. */
dt_status dt_config_defaults(const struct dt_table *table, void *target);

/* Read `object` into `target` (fields that it does not name are unchanged), and set given[i]
 * (table->count of them; may be NULL) for each field named. The top-level key "sweep" is skipped.
 * `where` begins every error ("quickstart.json"). Errors: DT_ERR_INVALID. */
dt_status dt_config_read(const struct dt_table *table, const struct cJSON *object, const char *where, void *target, bool *given);

/* Whether a file must have the key. */
enum dt_requirement dt_field_requirement(const struct dt_table *table, const struct dt_field *field);

/* Refuse a file that lacks a required key; `given` is dt_config_read's. Errors: DT_ERR_INVALID. */
dt_status dt_config_check_required(const struct dt_table *table, const bool *given, const char *where);

/* The reverse: an object with every field whose wanted[i] is true (NULL: all),
 * in the table's order. Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_config_write(const struct dt_table *table, const void *source, const bool *wanted, struct cJSON **out);

/* The value of one field, as JSON in a style of dt_json_print. Owner: the caller, free. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_config_write_value(const struct dt_field *field, const void *source, int style, char **out);

/* The text of a field, for settings their JSON; NULL: the field has none. */
const char *dt_field_text(const struct dt_field *field, const void *source);

/* Whether two structs have the same value of a field; bytes after the NUL of strings do not
 * count. */
bool dt_field_same(const struct dt_field *field, const void *left, const void *right);

/* dt_config_read of a list: up to list->max structs at `target`. `where` begins every error
 * ("cpu.json: measured"); NULL is an empty list. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_config_read_list(const struct dt_list *list, const struct cJSON *array, const char *where, void *target, int *count);

/* The reverse. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_config_write_list(const struct dt_list *list, const void *source, int count, struct cJSON **out);

/* The row of a path; -1 when there is none. */
int dt_config_find(const struct dt_table *table, const char *path);
/* Whether setting `field` removes the field at `path`. */
bool dt_config_replaces(const struct dt_field *field, const char *path);

/* Change `object` as "path=value" says: value is JSON, or else a string. An object as a value
 * replaces the existing one. "sweep.path=[...]" sets or adds a sweep's axis; setting a path that
 * the sweep varies removes it from the sweep. Errors name "--set path=value": DT_ERR_INVALID,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_config_set(const struct dt_table *table, struct cJSON *object, const char *assignment);

/* A sweep: "sweep": {path: [value, ...], ...}. The product of the lists is run, the first path
 * outermost (it changes slowest). A path is dotted ("model.dtype") or nested ("model": {"dtype":
 * [...]}); a list of objects at an object's path ("model": [{...}, {...}]) merges each object into
 * the config's own. "cases" is such a list for the whole config. Two axes must not set the same
 * key. At most DT_SWEEP_MAX combinations. "sweep": [{...}, {...}] lists experiments instead: each
 * object is merged into the config. */
#define DT_SWEEP_CASES "cases"
/* A file may name its schema, for editors: the key is ignored. */
#define DT_CONFIG_SCHEMA "$schema"
enum { DT_SWEEP_MAX = 100000, DT_SWEEP_MAX_AXES = 64 };

struct dt_sweep_axis {
    char path[96];
    const struct cJSON *values; /* a non-empty array, owned by the config object */
    int count;
    const struct cJSON *at; /* the value that was read last, number at_index: the next one is found from it */
    int at_index;
};

struct dt_sweep {
    struct dt_sweep_axis axes[DT_SWEEP_MAX_AXES];
    int axis_count;
    int combinations; /* 1 without a sweep */
};

/* Find and check the sweep of `object`, and check each of its values separately. Errors:
 * DT_ERR_INVALID. */
dt_status dt_sweep_init(const struct dt_table *table, const struct cJSON *object, const char *where, struct dt_sweep *out);

/* Read combination `index` of the sweep over `target` and `given`, which dt_config_read filled from
 * the config itself. Fast if combinations are read in order. */
dt_status dt_sweep_read(const struct dt_table *table, struct dt_sweep *sweep, int index, const char *where, void *target, bool *given);

/* 'combination 2 of 3 (paradigm="pdp")', for errors; "" without a sweep. */
void dt_sweep_describe(struct dt_sweep *sweep, int index, char *text, size_t text_bytes);
