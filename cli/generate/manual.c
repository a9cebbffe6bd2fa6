#include "cli/generate/manual.h"

#include "cli/text/exit_code.h"

#include <ctype.h>
#include <string.h>

/* text[length] as running text: options keep their dashes, and each sentence begins a line. */
static void write_text(const char *text, size_t length, FILE *to)
{
    for (size_t i = 0; i < length; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", to);
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-' && ((i + 1 < length && text[i + 1] == '-') || (i > 0 && text[i - 1] == '-')))
            fputs("\\-", to);
        else if (text[i] == ' ' && i > 0 && text[i - 1] == '.')
            fputc('\n', to);
        else
            fputc(text[i], to);
    }
    fputc('\n', to);
}

/* A description: lines as cli/text/paragraph.h has them. */
static void write_paragraphs(const char *text, FILE *to)
{
    bool literal = false;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (literal && *line != ' ') {
            fputs(".Ed\n", to);
            literal = false;
        }
        if (!literal && *line == ' ') {
            fputs(".Bd -literal\n", to);
            literal = true;
        }
        const char *next = line + length + (line[length] == '\n');
        if (length == 0 && *next != ' ')
            fputs(".Pp\n", to);
        if (length > 0)
            write_text(line, length, to);
        line = next;
    }
    fputs(literal ? ".Ed\n" : "", to);
}

/* A help text has no capital at its beginning, unless that is a name's, and no full stop at its end. */
static void write_sentence(const char *text, FILE *to)
{
    char sentence[2048];
    bool name = strncmp(text, "dtbench", 7) == 0;
    snprintf(sentence, sizeof sentence, "%c%s.", name ? *text : toupper((unsigned char)*text), text + 1);
    write_text(sentence, strlen(sentence), to);
}

/* One word of a usage: "[OPTION]...", "--data", "FILE". */
static void write_usage_word(const char *word, int length, FILE *to)
{
    if (*word == '[') {
        int name = (int)strcspn(word + 1, "]");
        fprintf(to, ".Op Ar %.*s%s\n", name, word + 1, length > name + 2 ? " ..." : "");
    } else if (strncmp(word, "--", 2) == 0) {
        fprintf(to, ".Fl %.*s\n", length - 1, word + 1);
    } else {
        fprintf(to, ".Ar %.*s\n", length, word);
    }
}

void manual_synopsis(const struct generate_tables *tables, FILE *to)
{
    for (const struct command *const *commands = tables->commands; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        fprintf(to, ".Nm\n.Cm %s\n", (*commands)->name);
        for (const char *word = (*commands)->usage; *word; word += strspn(word, " ")) {
            int length = (int)strcspn(word, " ");
            write_usage_word(word, length, to);
            word += length;
        }
    }
}

static void write_option(const struct option_row *row, FILE *to)
{
    char help[1024];
    fputs(".It Fl ", to);
    if (row->letter)
        fprintf(to, "%c , ", row->letter);
    fprintf(to, "-%s", row->name);
    if (row->argument)
        fprintf(to, " Ar %s", row->argument);
    fputc('\n', to);
    options_describe(row, help, sizeof help);
    write_sentence(help, to);
}

void manual_commands(const struct generate_tables *tables, FILE *to)
{
    for (const struct command *const *commands = tables->commands; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        fprintf(to, ".Ss dtbench %s\n", (*commands)->name);
        write_paragraphs((*commands)->description, to);
        if (!(*commands)->options)
            continue;
        fputs(".Bl -tag -width Ds\n", to);
        for (const struct option_row *row = (*commands)->options; row->name; row++)
            write_option(row, to);
        fputs(".El\n", to);
    }
}

void manual_keys(const struct generate_tables *tables, FILE *to)
{
    const struct dt_table *table = tables->keys;
    char values[DT_FIELD_TEXT_BYTES];
    fputs(".Bl -tag -width Ds\n", to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        fprintf(to, ".It Va %s\n", field->path);
        write_text(field->description, strlen(field->description), to);
        dt_field_describe(field, values);
        write_sentence(values, to);
        if (field->initial)
            fprintf(to, "Default: %s.\n", field->initial);
    }
    fputs(".El\n", to);
}

void manual_exit_codes(const struct generate_tables *tables, FILE *to)
{
    fputs(".Bl -tag -width \"130\" -compact\n", to);
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++) {
        fprintf(to, ".It %d\n", row->code);
        write_sentence(row->meaning, to);
    }
    fputs(".El\n", to);
}
