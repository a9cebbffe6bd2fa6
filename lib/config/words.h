/* Translation between other programs' settings and ours: tables of words, whose rows are used in
 * both directions.
 *
 * Others' settings and ours are JSON trees. A row names a key of theirs and one of ours, and says
 * which values mean the same: what imports a file and what exports one read the same row. Values
 * are removed from the tree that is read, so that the rest has not been understood. What rows
 * cannot express (one number computed from several) is code of the table's user. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>

struct cJSON;

/* Two values that mean the same, as JSON, or as plain text if not JSON. */
struct dt_word_value {
    const char *theirs;
    const char *ours; /* NULL: this value is not translated */
};

/* Keys of ours with this prefix are intermediate results from which several keys are computed: no
 * config has them. */
#define DT_WORDS_BETWEEN "job."

/* Tables end with a NULL `theirs`. A path has dots between the keys of objects. Rows of one key of
 * ours are consecutive; the first one is used for writing. */
struct dt_word {
    const char *theirs;
    const char *ours;                   /* NULL: no key of ours; the first of `values` is what dtbench does */
    const char *initial;                /* their default if the key is missing; NULL: nothing is assumed then */
    const struct dt_word_value *values; /* the last has a NULL `theirs`; NULL: both have the same value */
    const char *why;                    /* text about any other value: "mixtures of experts cannot be"; NULL: none */
    bool null_is_none;                  /* null is not their default, but as if there were none; otherwise it is the default */
    bool alike; /* other values change losses at most, but neither time nor memory: the first of `values` may replace them */
};

/* Rows: DT_WORD(theirs, ours, initial), and other members after these. */
#define DT_WORD(key, our_key, otherwise, ...) {.theirs = (key), .ours = (our_key), .initial = (otherwise), __VA_ARGS__}
#define DT_VALUES(...)                                                                                                                     \
    (const struct dt_word_value[])                                                                                                         \
    {                                                                                                                                      \
        __VA_ARGS__, {0}                                                                                                                   \
    }
#define DT_ONLY(value) .values = DT_VALUES({value, NULL})

/* What became of their settings. */
enum dt_remark {
    DT_REMARK_READ,    /* understood */
    DT_REMARK_ASSUMED, /* not given, or given less exactly */
    DT_REMARK_ALIKE,   /* replaced by something with the same time and memory */
    DT_REMARK_LEFT,    /* left out: it affects neither time nor memory, or the other program has no word for it */
    DT_REMARK_CANNOT,  /* something that matters cannot be expressed, or is unknown */
    DT_REMARKS
};

struct dt_translation {
    const char *origin; /* source of their defaults: "transformers 4.57" */
    struct cJSON *theirs, *ours;
    struct cJSON *remarks[DT_REMARKS]; /* lists of texts */
};

/* Owns `theirs`, or `ours`, from which the other one is to be made. Errors: DT_ERR_HOST_MEMORY; it
 * is then finished. */
dt_status dt_translation_init(struct dt_translation *t, const char *origin, struct cJSON *theirs, struct cJSON *ours);
void dt_translation_finish(struct dt_translation *t);

void dt_remark(struct dt_translation *t, enum dt_remark kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The first remark of a kind; NULL: there is none. */
const char *dt_first_remark(const struct dt_translation *t, enum dt_remark kind);
/* Remove the remark that a key of ours ("activation: keep, ...") was assumed: "PATH=VALUE" names
 * it. */
void dt_assume_no_more(struct dt_translation *t, const char *setting);

/* From theirs to ours, and back. After lack of memory, parts are missing. */
void dt_words_read(const struct dt_word *words, struct dt_translation *t);
void dt_words_write(const struct dt_word *words, struct dt_translation *t);

/* ---- trees by paths ---- */

/* The value at a path; NULL: none, or null. */
struct cJSON *dt_json_at(const struct cJSON *tree, const char *path);
/* The same, removed from the tree. Owner: the caller, dt_json_destroy. */
struct cJSON *dt_json_take(struct cJSON *tree, const char *path);
/* Remove and destroy the values at these paths, separated by blanks. */
void dt_json_drop(struct cJSON *tree, const char *paths);
/* Put a value at a path, instead of the existing one; owns it (NULL: nothing happens). */
void dt_json_put(struct cJSON *tree, const char *path, struct cJSON *value);
/* The number at a path; `otherwise` if there is none. */
double dt_json_number(const struct cJSON *tree, const char *path, double otherwise);
const char *dt_json_text_at(const struct cJSON *tree, const char *path); /* "": there is none */
void dt_json_put_number(struct cJSON *tree, const char *path, double value);
/* The value of a text: JSON, or the text itself. */
struct cJSON *dt_json_value(const char *text);
/* Whether a value equals the one of the text. */
bool dt_json_is(const struct cJSON *value, const char *text);
