/* Strict JSON, over cJSON's tree.
 *
 * cJSON's own reader takes trailing garbage, duplicate keys, 007, raw control characters and broken
 * UTF-8, and saturates numbers that overflow. A benchmark must not guess what its user meant, so
 * this reader follows RFC 8259 exactly, and also refuses numbers that overflow a double, duplicate
 * keys (compared after escapes are decoded), \u0000, lone surrogates, a byte order mark, nesting
 * deeper than DT_JSON_MAX_DEPTH and objects of more than DT_JSON_MAX_KEYS keys. Every failure is
 * one line that says where: "FILE:LINE:COLUMN: path.to.key: what is wrong" (columns count bytes,
 * from 1).
 *
 * Only the tree is cJSON's: walk it with cJSON.h, compare keys with
 * cJSON_GetObjectItemCaseSensitive. */
#pragma once

#include "lib/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

enum { DT_JSON_MAX_DEPTH = 64, DT_JSON_MAX_KEYS = 4096, DT_JSON_MAX_FILE_BYTES = 16 << 20 };

/* Parse text [length], which may contain any byte. `source` names it in errors. Owner: the caller,
 * dt_json_destroy. Errors: DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_json_parse(const char *text, size_t length, const char *source, struct cJSON **out);
void dt_json_destroy(struct cJSON *value); /* takes NULL */
DT_DESTROYS(dt_json_destroy, struct cJSON)

/* Read a whole file, "-" for standard input, as text with a NUL after its `length` bytes. Owner:
 * the caller, free.
 * Errors: DT_ERR_IO with the file's name, DT_ERR_INVALID past DT_JSON_MAX_FILE_BYTES,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_read_file(const char *path, char **out_text, size_t *out_length);

/* Both: the value of a file. `label` names it in errors of its text. */
dt_status dt_json_read(const char *path, const char *label, struct cJSON **out);

/* How to print. SORTED orders keys by their bytes at every level: without INDENT this is the
 * canonical form that is hashed. INDENT puts each key on a separate line; SPACED writes one line
 * with blanks after commas and colons; FIT (without others) breaks such lines only at 140 bytes or
 * more: for files that people read. */
enum dt_json_style { DT_JSON_COMPACT = 0, DT_JSON_SORTED = 1, DT_JSON_INDENT = 2, DT_JSON_SPACED = 4, DT_JSON_FIT = 8 };

/* Numbers are printed with the fewest digits that read back to the same double; NaN and infinities
 * become null, and bytes that are not UTF-8 (of a file's name, of the environment) U+FFFD. Owner:
 * the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_json_print(const struct cJSON *value, int style, char **out_text);

/* Trees from a text that shows their shape:
 *   dt_json_object("name: %s, steps: {first: %d, mean: %g}", name, first, mean)
 * A key is a word, or %s: a text of at most 127 bytes among the arguments. A value is an object in
 * braces, or
 *   %s    a text, not NULL
 *   %d    a whole number
 *   %g    a number; if it is not finite, it is printed as null
 *   %hhd  true or false
 *   %p    a tree, which becomes part of the new one
 * A tree is NULL if memory is exhausted, and so is every tree of which it should become a part
 * (whose other parts are destroyed), so only the whole tree needs to be checked. Owner: the caller,
 * dt_json_destroy. */
struct cJSON *dt_json_object(const char *members, ...) __attribute__((format(printf, 1, 2)));
/* Add members to a tree that is not part of another one; it becomes NULL if memory is exhausted. */
void dt_json_add(struct cJSON **object, const char *members, ...) __attribute__((format(printf, 2, 3)));
void dt_json_append(struct cJSON **array, struct cJSON *item); /* owns item */
struct cJSON *dt_json_array(void);                             /* an empty one */
struct cJSON *dt_json_text(const char *text);                  /* NULL is null */
/* null if the text is NULL or empty */
struct cJSON *dt_json_known(const char *text);
struct cJSON *dt_json_truth(bool value);
struct cJSON *dt_json_numbers(const double *values, int count);
/* The numbers of an array; NULL is an empty array; a value that is not a number (null) is NaN.
 * Owner of *out: the caller, free. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_json_read_numbers(const struct cJSON *array, double **out, int *count);
/* The words of a text, separated by any of the separator's characters; none for NULL. */
struct cJSON *dt_json_words(const char *text, const char *separator);

/* Print a tree with INDENT, and a newline; owns the tree. Errors: DT_ERR_HOST_MEMORY, also for
 * NULL. */
dt_status dt_json_write(struct cJSON *tree, FILE *to);

/* The shortest decimal text that reads back as `value` (as a double, or as a float for the second);
 * at least 32 bytes. */
void dt_format_double(double value, char *text, size_t text_bytes);
void dt_format_float(float value, char *text, size_t text_bytes);

/* A value in an error text: compact, one line, cut to fit with "...". */
void dt_json_quote(const struct cJSON *value, char *text, size_t text_bytes);

/* FNV-1a, 64 bits. Source: Fowler, Noll, Vo; RFC 9923. */
uint64_t dt_hash_fnv1a(const void *bytes, size_t count);
/* Continue a hash: `hash` is that of the preceding bytes. */
uint64_t dt_hash_fnv1a_more(uint64_t hash, const void *bytes, size_t count);
