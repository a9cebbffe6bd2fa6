#include "cli/text/paragraph.h"

#include <string.h>

/* Print the words of line[length] from column `indent` on. */
static void print_words(const char *line, size_t length, int indent, FILE *to)
{
    int column = indent;
    for (size_t at = 0; at < length;) {
        int word = (int)strcspn(line + at, " \n");
        if (column > indent && column + 1 + word > PARAGRAPH_COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(to, "%s%.*s", column > indent ? " " : "", word, line + at);
        at += (size_t)word + 1;
    }
}

void paragraph_print(const char *text, int indent, FILE *to)
{
    for (const char *line = text;; line++) {
        size_t length = strcspn(line, "\n");
        if (line > text && length > 0)
            fprintf(to, "%*s", indent, "");
        if (*line == ' ')
            fprintf(to, "%.*s", (int)length, line);
        else
            print_words(line, length, indent, to);
        fputc('\n', to);
        line += length;
        if (!*line)
            return;
    }
}
