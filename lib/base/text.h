/* Texts for users: making foreign text printable on a line, joining words to lists, and finding the
 * right name for a misspelt one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence that begins at text < end; 0 when it is not one. */
size_t dt_utf8_bytes(const char *text, const char *end);

/* Make foreign text printable on a line: on a terminal it can then not move the cursor, or colour,
 * hide or reverse text. In place; each of these becomes one '?': control characters (C0 with tab
 * and line break, DEL, C1), characters without width or that change the direction of writing
 * (U+061C, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F, U+FEFF, U+FFF9 to U+FFFB, U+E0000
 * to U+E007F), and bytes that are not UTF-8. Never longer than before. */
void dt_printable(char *text);
/* Whether dt_printable would leave the text unchanged. */
bool dt_is_printable(const char *text);

/* Append a part to the list in `text`, a buffer of `bytes`, after a separator unless it is the
 * first. Truncated if the buffer is full. */
void dt_append(char *text, size_t bytes, const char *separator, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same for a word [length] after ", ", unless the list has it or the word is empty or too long
 * for the rest of the buffer. */
void dt_append_once(char *text, size_t bytes, const char *word, size_t length);

/* Read one number, or two with a dash between ("8-15"), from a comma-separated list such as
 * "0,3,8-15". *at moves after them and their comma; NULL if it is the list's end. False: it is
 * something else, or the second is below the first. */
bool dt_read_range(const char **at, long *first, long *last);

/* Whether the text is one of the blank-separated words, in any letters; never for "". */
bool dt_is_one_of(const char *text, const char *words);

/* The number of insertions, deletions, replacements and swaps of neighbours that turn one word into
 * the other. Case, and '-' for '_', do not count. Words longer than 63 bytes have the distance
 * 1000. Source: the optimal string alignment distance. */
int dt_edit_distance(const char *left, const char *right);

/* Whether both are the same, ignoring case and all characters that are not letters or digits:
 * "AllReduce" is "all_reduce". */
bool dt_same_name(const char *left, const char *right);

/* Whether `word` may be a misspelt `known`: the distance is at most a third of the word. */
bool dt_looks_like(const char *word, const char *known);
