/* Text that somebody else has written, made fit for a line that people read: on a terminal it can neither move the cursor nor colour, hide or
 * turn round what stands beside it. */
#ifndef LIB_BASE_PRINTABLE_H
#define LIB_BASE_PRINTABLE_H

#include <stdbool.h>

/* In place; what is taken out becomes one '?' each: control characters (C0 with tab and line break, DEL, C1), what has no width or changes the
 * direction of writing (U+061C, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F, U+FEFF, U+FFF9 to U+FFFB, U+E0000 to U+E007F), and bytes
 * that are not UTF-8. Never longer than before. */
void dt_printable(char *text);
/* Would it stay as it is? */
bool dt_is_printable(const char *text);

#endif
