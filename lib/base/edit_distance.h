/* "Did you mean ...?" */
#ifndef LIB_BASE_EDIT_DISTANCE_H
#define LIB_BASE_EDIT_DISTANCE_H

#include <stdbool.h>

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other; letters' case and '-' for '_' are free.
 * Words longer than 63 bytes count as far from everything (1000). Source: the optimal string alignment distance. */
int dt_edit_distance(const char *left, const char *right);

/* Near enough to be a slip of the finger: a third of the word at most. */
bool dt_looks_like(const char *word, const char *known);

#endif
