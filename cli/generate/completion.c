#include "cli/generate/completion.h"

#include <string.h>

static void write_choices(const char *(*choice)(int index), FILE *to)
{
    for (int i = 0; choice(i); i++)
        fprintf(to, "%s%s", i ? " " : "", choice(i));
}

static void write_commands(const struct command *const *commands, FILE *to)
{
    const char *separator = "";
    fputs("_dtbench_commands() { echo \"", to);
    for (; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        fprintf(to, "%s%s", separator, (*commands)->name);
        separator = " ";
    }
    fputs("\"; }\n\n", to);
}

static void write_options(const struct command *const *commands, FILE *to)
{
    fputs("# The options of command $1.\n_dtbench_options() {\n    case $1 in\n", to);
    for (; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        fprintf(to, "    %s) echo \"", (*commands)->name);
        for (const struct option_row *row = (*commands)->options; row && row->name; row++)
            fprintf(to, "--%s ", row->name);
        fputs("--help\" ;;\n", to);
    }
    fputs("    esac\n}\n\n", to);
}

/* What follows an option: "@key", "@file", "@directory", or words; nothing is known of the rest. */
static const char *kind_of_value(const char *argument)
{
    static const char *const kinds[][2] = {{"PATH=VALUE", "@key"}, {"FILE", "@file"}, {"RECORDS", "@file"}, {"DIR", "@directory"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(argument, kinds[i][0]) == 0)
            return kinds[i][1];
    return "@other";
}

static void write_value(const struct command *command, const struct option_row *row, FILE *to)
{
    fprintf(to, "    \"%s --%s\"", command->name, row->name);
    if (row->letter)
        fprintf(to, " | \"%s -%c\"", command->name, row->letter);
    fputs(") echo \"", to);
    if (row->choice)
        write_choices(row->choice, to);
    else
        fputs(kind_of_value(row->argument), to);
    fputs("\" ;;\n", to);
}

static void write_values(const struct command *const *commands, FILE *to)
{
    fputs("# What follows option $2 of command $1: words, @file, @directory, @key or @other; nothing after a flag.\n"
          "_dtbench_values() {\n    case \"$1 $2\" in\n",
          to);
    for (; *commands; commands++)
        for (const struct option_row *row = (*commands)->options; row && row->name; row++)
            if (row->argument)
                write_value(*commands, row, to);
    fputs("    esac\n}\n\n", to);
}

static void write_keys(const struct dt_table *table, FILE *to)
{
    enum { LINE = 120 };
    int column = 0;
    fputs("_dtbench_keys() {\n    echo \"", to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        char key[128];
        int bytes = snprintf(key, sizeof key, field->prefix ? "%s.%s" : "%s=", field->path, field->prefix ? field->prefix : "");
        if (column + bytes > LINE) {
            fputs("\n        ", to);
            column = 0;
        }
        column += fprintf(to, "%s%s", column > 0 ? " " : "", key);
    }
    fputs("\"\n}\n\n", to);
}

static void write_key_choices(const struct dt_table *table, FILE *to)
{
    fputs("# The values of key $1, where they have names.\n_dtbench_choices() {\n    case $1 in\n", to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (!field->choice && field->kind != DT_FIELD_BOOL)
            continue;
        fprintf(to, "    %s) echo \"", field->path);
        if (field->choice)
            write_choices(field->choice, to);
        else
            fputs("true false", to);
        fputs("\" ;;\n", to);
    }
    fputs("    esac\n}\n", to);
}

void completion_write(const struct generate_tables *tables, FILE *to)
{
    write_commands(tables->commands, to);
    write_options(tables->commands, to);
    write_values(tables->commands, to);
    write_keys(tables->keys, to);
    write_key_choices(tables->keys, to);
}
