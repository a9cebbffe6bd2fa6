#include "cli/text/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is_live(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    return terminal_is_live(stream) && (!no_color || !*no_color);
}

int terminal_width(FILE *stream)
{
    struct winsize size;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
