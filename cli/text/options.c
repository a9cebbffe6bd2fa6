#include "cli/text/text.h"

#include "lib/base/text.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const struct exit_code_row *exit_code_table(void)
{
    static const struct exit_code_row rows[] = {
        {EXIT_CODE_OK, "all experiments ended well"},
        {EXIT_CODE_OTHER, "dtbench itself failed: it ran out of memory, for example"},
        {EXIT_CODE_USAGE, "the command line is wrong"},
        {EXIT_CODE_CONFIG, "the config is invalid, or needs what this machine does not have: nothing was run"},
        {EXIT_CODE_FAILED, "an experiment failed: crash, timeout, lost rank"},
        {EXIT_CODE_OOM, "an experiment ran out of memory, or would according to dtbench check; all others ended well"},
        {EXIT_CODE_VERIFY, "an experiment's losses are not those of one device (--verify)"},
        {EXIT_CODE_OUTPUT, "the output cannot be written"},
        {EXIT_CODE_REGRESSION, "dtbench compare found a regression"},
        {EXIT_CODE_INCOMPARABLE, "dtbench compare: records of different machines or libraries, or without a common experiment"},
        {EXIT_CODE_LATER, "the time limit or SIGUSR1 left experiments for a later run: --resume runs them"},
        {EXIT_CODE_SIGNAL + SIGHUP, "interrupted by SIGHUP, as when a terminal is closed; finished experiments are kept"},
        {EXIT_CODE_SIGNAL + SIGINT, "interrupted by SIGINT; finished experiments are kept"},
        {EXIT_CODE_SIGNAL + SIGTERM, "interrupted by SIGTERM; finished experiments are kept"},
        {0},
    };
    return rows;
}

void exit_codes_print(FILE *to)
{
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++) {
        enum { INDENT = 7 };
        fprintf(to, "  %-3d  ", row->code);
        paragraph_print(row->meaning, INDENT, to);
    }
}

int report_failure(const char *command, enum exit_code code)
{
    fflush(stdout);
    for (const char *line = dt_error_message(), *end; line; line = *end ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        line_print(stderr, "dtbench %s: %.*s", command, (int)(end - line), line);
    }
    if (code == EXIT_CODE_USAGE)
        fprintf(stderr, "Try 'dtbench %s --help'.\n", command);
    return code;
}

int report_wrong(const char *command, dt_status status)
{
    bool wrong = status == DT_ERR_INVALID || status == DT_ERR_UNAVAILABLE || status == DT_ERR_IO;
    return report_failure(command, wrong ? EXIT_CODE_CONFIG : EXIT_CODE_OTHER);
}

/* ---- options ---- */

/* Every command's last option. */
static const struct option_row help_row = {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .help = "print this"};

/* The row of `name` [length]; NULL when there is none. */
static const struct option_row *find_row(const struct option_row *rows, const char *name, size_t length)
{
    for (; rows && rows->name; rows++)
        if (strlen(rows->name) == length && strncmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

static const struct option_row *find_letter(const struct option_row *rows, char letter)
{
    for (; rows && rows->name; rows++)
        if (rows->letter == letter)
            return rows;
    return NULL;
}

static bool resembles(const char *name, const struct option_row *row)
{
    bool begins = strlen(name) >= 2 && strncmp(name, row->name, strlen(name)) == 0;
    return begins || dt_looks_like(name, row->name);
}

static dt_status unknown_option(const struct option_row *rows, const char *word)
{
    char name[64];
    const struct option_row *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
    for (const struct option_row *row = rows; row && row->name; row++)
        if (resembles(name, row) && (!nearest || dt_edit_distance(name, row->name) < dt_edit_distance(name, nearest->name)))
            nearest = row;
    if (!nearest && resembles(name, &help_row))
        nearest = &help_row;
    int length = (int)strcspn(word, "=");
    if (nearest)
        return dt_fail(DT_ERR_INVALID, "unknown option '%.*s'; did you mean '--%s'?", length, word, nearest->name);
    return dt_fail(DT_ERR_INVALID, "unknown option '%.*s'", length, word);
}

/* Store the value of `row`. `as_typed` is the option as the command line has it. */
static dt_status take(const struct option_row *row, const char *as_typed, const char *value, void *target)
{
    void *at = (char *)target + row->offset;
    switch (row->kind) {
    case OPTION_FLAG: *(bool *)at = true; return DT_OK;
    case OPTION_TEXT:
        if (*(const char **)at)
            return dt_fail(DT_ERR_INVALID, "'%s' is given twice", as_typed);
        *(const char **)at = value;
        return DT_OK;
    case OPTION_LIST: {
        struct option_list *list = at;
        if (list->count == OPTION_LIST_MAX)
            return dt_fail(DT_ERR_INVALID, "'%s' is given more than %d times", as_typed, OPTION_LIST_MAX);
        list->items[list->count++] = value;
        return DT_OK;
    }
    }
    return DT_OK;
}

/* argv[*index] is an option: take it, and the next word where that is its value. */
static dt_status parse_option(const struct option_row *rows, int argc, char **argv, int *index, void *target)
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
        if (row && row->kind == OPTION_FLAG && value) /* letters cannot be combined: "-qn" is an error */
            row = NULL;
    }
    if (!row)
        return unknown_option(rows, word);
    snprintf(as_typed, sizeof as_typed, "--%s", row->name);
    if (row->kind == OPTION_FLAG)
        return value ? dt_fail(DT_ERR_INVALID, "'%s' takes no value", as_typed) : take(row, as_typed, NULL, target);
    if (!value && *index + 1 < argc && strncmp(argv[*index + 1], "--", 2) != 0)
        value = argv[++*index];
    if (!value || !*value)
        return dt_fail(DT_ERR_INVALID, "'%s' needs a value: %s %s", as_typed, as_typed, row->argument);
    return take(row, as_typed, value, target);
}

/* Append "table, json or markdown", after a colon where there is a text already. */
static void append_choices(const char *(*choice)(int index), char *out, size_t out_bytes)
{
    for (int i = 0; choice && choice(i); i++)
        dt_append(out, out_bytes, i == 0 ? ": " : choice(i + 1) ? ", " : " or ", "%s", choice(i));
}

void options_describe(const struct option_row *row, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s", row->help);
    append_choices(row->choice, out, out_bytes);
}

static void print_option(const struct option_row *row, FILE *to)
{
    enum { INDENT = 28 };
    char left[64], help[1024];
    int used = row->letter ? snprintf(left, sizeof left, "  -%c, ", row->letter) : snprintf(left, sizeof left, "      ");
    used += snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s", row->name, row->argument ? " " : "",
                     row->argument ? row->argument : "");
    options_describe(row, help, sizeof help);
    fprintf(to, used + 2 > INDENT ? "%s\n%*s" : "%s%*s", left, used + 2 > INDENT ? INDENT : INDENT - used, "");
    paragraph_print(help, INDENT, to);
}

void options_print_help(const struct command *command, FILE *to)
{
    fprintf(to, "Usage: dtbench %s %s\n\n", command->name, command->usage);
    paragraph_print(command->description, 0, to);
    fprintf(to, "\nOptions\n");
    for (const struct option_row *row = command->options; row && row->name; row++)
        print_option(row, to);
    print_option(&help_row, to);
    if (!command->exit_codes)
        return;
    fprintf(to, "\nExit codes\n");
    exit_codes_print(to);
}

static dt_status take_argument(const struct command *command, const char *word, void *target)
{
    void *at = (char *)target + command->argument.offset;
    struct option_list *list = at;
    const char **text = at;
    if (!command->argument.name)
        return dt_fail(DT_ERR_INVALID, "takes no argument, but '%s' is given", word);
    if (command->argument.kind == OPTION_LIST) {
        if (list->count == OPTION_LIST_MAX)
            return dt_fail(DT_ERR_INVALID, "takes at most %d arguments; a folder stands for all in it", OPTION_LIST_MAX);
        list->items[list->count++] = word;
        return DT_OK;
    }
    if (*text)
        return dt_fail(DT_ERR_INVALID, "takes one %s, not two: '%s' and '%s'", command->argument.name, *text, word);
    *text = word;
    return DT_OK;
}

/* *help: the help was asked for, and has been printed. */
static dt_status parse(const struct command *command, int argc, char **argv, void *target, bool *help)
{
    bool options = true;
    *help = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            *help = true;
        else if (options && word[0] == '-' && word[1])
            DT_TRY(parse_option(command->options, argc, argv, &i, target));
        else
            DT_TRY(take_argument(command, word, target));
    }
    if (*help)
        options_print_help(command, stdout);
    return DT_OK;
}

/* Errors: DT_ERR_INVALID where the command's argument is missing. */
static dt_status check_argument(const struct command *command, const void *target)
{
    const void *at = (const char *)target + command->argument.offset;
    bool given = command->argument.kind == OPTION_LIST ? ((const struct option_list *)at)->count > 0 : *(const char *const *)at != NULL;
    return given ? DT_OK : dt_fail(DT_ERR_INVALID, "%s", command->argument.missing);
}

bool options_begin(const struct command *command, int argc, char **argv, void *target, dt_status (*check)(void *target), int *code)
{
    bool help;
    dt_status status = parse(command, argc, argv, target, &help);
    if (status == DT_OK && !help && command->argument.missing)
        status = check_argument(command, target);
    if (status == DT_OK && !help && check)
        status = check(target);
    *code = status < 0 ? report_failure(command->name, EXIT_CODE_USAGE) : EXIT_CODE_OK;
    return status == DT_OK && !help;
}

dt_status options_read_count(const char *option, const char *text, int most, int *out)
{
    char *end;
    if (!text)
        return DT_OK;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < 1 || value > most)
        return dt_fail(DT_ERR_INVALID, "--%s %.40s: expected a whole number from 1 to %d", option, text, most);
    *out = (int)value;
    return DT_OK;
}

dt_status options_read_choice(const char *option, const char *text, const char *(*choice)(int index), int *out)
{
    char known[512] = "";
    for (int i = 0; text && choice(i); i++)
        if (strcmp(text, choice(i)) == 0) {
            *out = i;
            return DT_OK;
        }
    append_choices(choice, known, sizeof known);
    return text ? dt_fail(DT_ERR_INVALID, "--%s %.40s: expected %s", option, text, known) : DT_OK;
}

dt_status options_read_words(const char *option, const char *text, const char *(*choice)(int index), bool *chosen)
{
    char known[512] = "";
    for (int i = 0; choice(i); i++)
        dt_append(known, sizeof known, ", ", "%s", choice(i));
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int i = 0;
        while (choice(i) && (strlen(choice(i)) != length || strncmp(choice(i), at, length) != 0))
            i++;
        if (!choice(i))
            return dt_fail(DT_ERR_INVALID, "--%s %.80s: '%.*s' is not known: expected one or more, comma-separated, of %s", option, text,
                           (int)length, at, known);
        chosen[i] = true;
        at += length;
        if (!*at)
            return DT_OK;
    }
}

bool option_condition_read(const char *text, struct option_condition *out)
{
    /* longer signs before those that they begin with */
    static const struct {
        const char *sign;
        enum relation relation;
    } signs[] = {{"!=", RELATION_IS_NOT}, {"<=", RELATION_AT_MOST}, {">=", RELATION_AT_LEAST},
                 {"=", RELATION_IS},      {"<", RELATION_BELOW},    {">", RELATION_ABOVE}};
    size_t length = strcspn(text, "!=<>"), i = 0, count = sizeof signs / sizeof *signs;
    char *end;
    while (i < count && strncmp(text + length, signs[i].sign, strlen(signs[i].sign)) != 0)
        i++;
    if (length == 0 || length >= sizeof out->key || i == count)
        return false;
    *out = (struct option_condition){.relation = signs[i].relation, .sign = signs[i].sign, .value = text + length + strlen(signs[i].sign)};
    snprintf(out->key, sizeof out->key, "%.*s", (int)length, text);
    out->number = strtod(out->value, &end);
    if (end == out->value || *end)
        out->number = NAN;
    return true;
}

bool option_condition_orders(const struct option_condition *c)
{
    return c->relation != RELATION_IS && c->relation != RELATION_IS_NOT;
}

bool option_condition_holds(const struct option_condition *c, double number)
{
    switch (c->relation) {
    case RELATION_IS: return number == c->number;
    case RELATION_IS_NOT: return number != c->number;
    case RELATION_BELOW: return number < c->number;
    case RELATION_AT_MOST: return number <= c->number;
    case RELATION_ABOVE: return number > c->number;
    case RELATION_AT_LEAST: return number >= c->number;
    }
    return false;
}
