/* Lines with what others wrote in them: records, names of files, messages of libraries. */
#ifndef CLI_TEXT_LINE_H
#define CLI_TEXT_LINE_H

#include <stdio.h>

/* Print one line and its end. All of it is made printable (lib/base/text.h), so that nothing in it reaches the terminal as a command. */
void line_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same without the line's end. */
void line_part(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
