/* Texts for people. A text is lines: each is a paragraph, which is broken where it is printed; an empty line stands between two; one that
 * begins with a blank is printed as it is. */
#ifndef CLI_TEXT_PARAGRAPH_H
#define CLI_TEXT_PARAGRAPH_H

#include <stdio.h>

enum { PARAGRAPH_COLUMNS = 110 };

/* Print `text` from column `indent` to PARAGRAPH_COLUMNS, and a newline. The first line begins where the caller has written to. */
void paragraph_print(const char *text, int indent, FILE *to);

#endif
