#include "cli/text/options.h"

#include "lib/base/edit_distance.h"

#include <string.h>

/* The row of `name` [length]; NULL when there is none. */
static const struct option_row *find_row(const struct option_row *rows, const char *name, size_t length)
{
    for (; rows->name; rows++)
        if (strlen(rows->name) == length && strncmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

static const struct option_row *find_letter(const struct option_row *rows, char letter)
{
    for (; rows->name; rows++)
        if (rows->letter == letter)
            return rows;
    return NULL;
}

static dt_status unknown_option(const struct option_row *rows, const char *word)
{
    char name[64];
    const struct option_row *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
    for (const struct option_row *row = rows; row->name; row++) {
        bool begins = strlen(name) >= 2 && strncmp(name, row->name, strlen(name)) == 0;
        if (!begins && !dt_looks_like(name, row->name))
            continue;
        if (!nearest || dt_edit_distance(name, row->name) < dt_edit_distance(name, nearest->name))
            nearest = row;
    }
    int length = (int)strcspn(word, "=");
    if (nearest)
        return dt_fail(DT_ERR_INVALID, "unknown option '%.*s'; did you mean '--%s'?", length, word, nearest->name);
    return dt_fail(DT_ERR_INVALID, "unknown option '%.*s'", length, word);
}

/* Give `row` its value. `as_typed` is how the option stood on the command line. */
static dt_status take(const struct option_row *row, const char *as_typed, const char *value)
{
    switch (row->kind) {
    case OPTION_FLAG: *(bool *)row->target = true; return DT_OK;
    case OPTION_TEXT:
        if (*(const char **)row->target)
            return dt_fail(DT_ERR_INVALID, "'%s' is given twice", as_typed);
        *(const char **)row->target = value;
        return DT_OK;
    case OPTION_LIST: {
        struct option_list *list = row->target;
        if (list->count == OPTION_LIST_MAX)
            return dt_fail(DT_ERR_INVALID, "'%s' is given more than %d times", as_typed, OPTION_LIST_MAX);
        list->items[list->count++] = value;
        return DT_OK;
    }
    }
    return DT_OK;
}

/* argv[*index] is an option: take it, and the next word where that is its value. */
static dt_status parse_option(const struct option_row *rows, int argc, char **argv, int *index)
{
    const char *word = argv[*index], *value = NULL;
    const struct option_row *row;
    char as_typed[64];
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        row = find_row(rows, word + 2, length);
        value = word[2 + length] == '=' ? word + 2 + length + 1 : NULL;
    } else {
        row = find_letter(rows, word[1]);
        value = word[2] ? word + 2 : NULL;
        if (row && row->kind == OPTION_FLAG && value) /* "-qn" is not taken for two */
            row = NULL;
    }
    if (!row)
        return unknown_option(rows, word);
    snprintf(as_typed, sizeof as_typed, "--%s", row->name);
    if (row->kind == OPTION_FLAG)
        return value ? dt_fail(DT_ERR_INVALID, "'%s' takes no value", as_typed) : take(row, as_typed, NULL);
    if (!value && *index + 1 < argc && strncmp(argv[*index + 1], "--", 2) != 0)
        value = argv[++*index];
    if (!value || !*value)
        return dt_fail(DT_ERR_INVALID, "'%s' needs a value: %s %s", as_typed, as_typed, row->argument);
    return take(row, as_typed, value);
}

static void print_options(const struct option_row *rows, FILE *to)
{
    enum { INDENT = 24 };
    for (; rows->name; rows++) {
        char left[64];
        int used = rows->letter ? snprintf(left, sizeof left, "-%c, ", rows->letter) : snprintf(left, sizeof left, "    ");
        snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s", rows->name, rows->argument ? " " : "",
                 rows->argument ? rows->argument : "");
        fprintf(to, "  %-*s", INDENT, left);
        if (strlen(left) >= INDENT)
            fprintf(to, "\n  %*s", INDENT, "");
        for (const char *line = rows->help; *line;) {
            size_t length = strcspn(line, "\n");
            fprintf(to, "  %.*s\n", (int)length, line);
            line += length + (line[length] == '\n');
            if (*line)
                fprintf(to, "  %*s", INDENT, "");
        }
    }
}

dt_status options_parse(const struct option_spec *spec, int argc, char **argv)
{
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && word[0] == '-' && word[1]) {
            DT_TRY(parse_option(spec->rows, argc, argv, &i));
        } else if (!spec->argument) {
            return dt_fail(DT_ERR_INVALID, "takes no argument, and there is '%s'", word);
        } else if (spec->arguments) {
            if (spec->arguments->count == OPTION_LIST_MAX)
                return dt_fail(DT_ERR_INVALID, "takes at most %d arguments; a folder stands for all in it", OPTION_LIST_MAX);
            spec->arguments->items[spec->arguments->count++] = word;
        } else if (*spec->argument_target) {
            return dt_fail(DT_ERR_INVALID, "takes one %s, and there are two: '%s' and '%s'", spec->argument, *spec->argument_target, word);
        } else {
            *spec->argument_target = word;
        }
    }
    if (spec->help && *spec->help) {
        printf("%s\nOptions\n", spec->usage);
        print_options(spec->rows, stdout);
    }
    return DT_OK;
}
