/* What others call the same things: tables of words, whose rows are read in both directions.
 *
 * Others' settings and ours are JSON trees. A row names a key of theirs and one of ours, and says which values mean the same: what imports a
 * file and what exports one read the same row. Values are taken out of the tree that is read, so that what is left in it has not been
 * understood. What rows cannot say (one number made of several) is the code of whoever has the table. */
#ifndef LIB_CONFIG_WORDS_H
#define LIB_CONFIG_WORDS_H

#include "lib/base/status.h"

#include <stdbool.h>

struct cJSON;

/* Two values that mean the same, as JSON, or as the text itself where it is not JSON. */
struct dt_word_value {
    const char *theirs;
    const char *ours; /* NULL: nothing is said of it here */
};

/* Keys of ours that begin so stand between the words and what is made of several of them: no config has them. */
#define DT_WORDS_BETWEEN "job."

/* Tables end with a NULL `theirs`. A path has dots between the keys of objects. Rows of one key of ours stand together, the one that is written
 * first. */
struct dt_word {
    const char *theirs;
    const char *ours;                   /* NULL: no key of ours; the first of `values` is what we are */
    const char *initial;                /* what they do where they do not say it; NULL: nothing is taken then */
    const struct dt_word_value *values; /* the last has a NULL `theirs`; NULL: both have the same value */
    const char *why;                    /* what is said of another value: "mixtures of experts cannot be"; NULL: nothing */
    bool alike; /* another value changes losses at most, and neither time nor memory: the first of `values` may stand for it */
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
    DT_REMARK_ASSUMED, /* not said by them, or said less exactly */
    DT_REMARK_ALIKE,   /* something else stands for it, of the same time and memory */
    DT_REMARK_LEFT,    /* left out: it has no bearing on time or memory, or the other side has no word for it */
    DT_REMARK_CANNOT,  /* something that matters cannot be said, or is not known */
    DT_REMARKS
};

struct dt_translation {
    const char *origin; /* of their defaults: "transformers 4.57" */
    struct cJSON *theirs, *ours;
    struct cJSON *remarks[DT_REMARKS]; /* lists of texts */
};

/* Takes `theirs`, or `ours`, of which the other one is to be made. Errors: DT_ERR_HOST_MEMORY; it is then finished. */
dt_status dt_translation_init(struct dt_translation *t, const char *origin, struct cJSON *theirs, struct cJSON *ours);
void dt_translation_finish(struct dt_translation *t);

void dt_remark(struct dt_translation *t, enum dt_remark kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The first text of a kind; NULL: there is none. */
const char *dt_first_remark(const struct dt_translation *t, enum dt_remark kind);
/* What was assumed of a key of ours ("activation: keep, ...") is over: "PATH=VALUE" says it. */
void dt_assume_no_more(struct dt_translation *t, const char *setting);

/* From theirs to ours, and back. What memory lacks for is left out. */
void dt_words_read(const struct dt_word *words, struct dt_translation *t);
void dt_words_write(const struct dt_word *words, struct dt_translation *t);

/* ---- trees by paths ---- */

/* The value at a path; NULL: none, or null. */
struct cJSON *dt_json_at(const struct cJSON *tree, const char *path);
/* The same, taken out of the tree. Owner: the caller, dt_json_destroy. */
struct cJSON *dt_json_take(struct cJSON *tree, const char *path);
void dt_json_drop(struct cJSON *tree, const char *path);
/* Put a value at a path, in place of what is there; takes it (NULL: nothing happens). */
void dt_json_put(struct cJSON *tree, const char *path, struct cJSON *value);
/* The number at a path; `otherwise` where there is none. */
double dt_json_number(const struct cJSON *tree, const char *path, double otherwise);
const char *dt_json_text_at(const struct cJSON *tree, const char *path); /* "": there is none */
void dt_json_put_number(struct cJSON *tree, const char *path, double value);
/* A value of a text: JSON, or the text itself. */
struct cJSON *dt_json_value(const char *text);
/* Whether a value is the one that the text stands for. */
bool dt_json_is(const struct cJSON *value, const char *text);

#endif
