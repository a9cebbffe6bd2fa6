/* What the terminal can do. */
#ifndef CLI_TEXT_TERMINAL_H
#define CLI_TEXT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Numbers of SGR escapes; NONE: no escape. */
enum colour { COLOUR_NONE = 0, COLOUR_RED = 31, COLOUR_GREEN = 32, COLOUR_YELLOW = 33 };

/* A line may be drawn over: a terminal, and TERM is not "dumb". */
bool terminal_is_live(FILE *stream);
/* Colours too: live, and NO_COLOR is not set (https://no-color.org). */
bool terminal_has_colour(FILE *stream);
int terminal_width(FILE *stream); /* 80 where unknown */

#endif
