/* Texts for people: what others have written is made fit for a line, words are joined into lists, and a misspelt name finds its right
 * one. */
#ifndef LIB_BASE_TEXT_H
#define LIB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence that begins at text < end; 0 when it is not one. */
size_t dt_utf8_bytes(const char *text, const char *end);

/* Make a text that somebody else has written fit for a line: on a terminal it can then neither move the cursor nor colour, hide or turn
 * round the text around it. In place; what is taken out becomes one '?' each: control characters (C0 with tab and line break, DEL, C1),
 * what has no width or changes the direction of writing (U+061C, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F, U+FEFF, U+FFF9 to
 * U+FFFB, U+E0000 to U+E007F), and bytes that are not UTF-8. Never longer than before. */
void dt_printable(char *text);
/* Would dt_printable leave the text as it is? */
bool dt_is_printable(const char *text);

/* Add one more part to the list in `text`, a buffer of `bytes`, after a separator where it is not the first. Cut where the buffer is
 * full. */
void dt_append(char *text, size_t bytes, const char *separator, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other; letters' case and '-' for '_' are free.
 * Words longer than 63 bytes count as far from everything (1000). Source: the optimal string alignment distance. */
int dt_edit_distance(const char *left, const char *right);

/* Are they the same but for letters' case, and for what is neither letter nor digit? "AllReduce" is "all_reduce". */
bool dt_same_name(const char *left, const char *right);

/* Is `word` near enough to `known` to be a slip of the finger? The distance is a third of the word at most. */
bool dt_looks_like(const char *word, const char *known);

#endif
