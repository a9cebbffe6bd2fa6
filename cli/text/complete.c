/* What a shell may offer for the last word of a command line; the protocol is described at
 * completions_print in text.h. */
#include "cli/text/text.h"

#include "lib/config/data_file.h"
#include "schedules/config/parse.h"

#include <string.h>

/* A word that is completed, and where its candidates go. */
struct completion {
    const char *word; /* the whole word */
    int fixed;        /* bytes of `word` before the completed value: "--set=paradigm=" */
    FILE *to;
};

static void offer(const struct completion *c, const char *candidate, const char *end)
{
    if (strncmp(candidate, c->word + c->fixed, strlen(c->word + c->fixed)) == 0)
        fprintf(c->to, "%.*s%s%s\n", c->fixed, c->word, candidate, end);
}

/* Offer the names of the files in a folder of configs/, such as "clusters", and any other file. */
static void offer_data_files(const struct completion *c, const char *folder)
{
    char names[4096], *rest = names, *name;
    dt_data_file_names(folder, names, sizeof names);
    while ((name = strsep(&rest, ", ")))
        if (*name)
            offer(c, name, "");
    fputs(":files\n", c->to);
}

static void offer_key_values(const struct completion *c, const char *key, size_t length)
{
    const struct dt_table *table = experiment_table();
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        if (strlen(field->path) != length || strncmp(field->path, key, length) != 0)
            continue;
        for (int choice = 0; dt_field_choice(field, choice); choice++)
            offer(c, dt_field_choice(field, choice), "");
        if (field->kind == DT_FIELD_BOOL) {
            offer(c, "false", "");
            offer(c, "true", "");
        }
        if (strcmp(field->path, "cluster") == 0)
            offer_data_files(c, "clusters");
        if (strcmp(field->path, "profile") == 0)
            offer_data_files(c, "profiles");
    }
}

/* Complete a setting such as "paradigm=ddp". */
static void offer_setting(struct completion *c)
{
    const struct dt_table *table = experiment_table();
    const char *key = c->word + c->fixed, *equals = strchr(key, '=');
    if (equals) {
        c->fixed = (int)(equals + 1 - c->word);
        offer_key_values(c, key, (size_t)(equals - key));
        return;
    }
    fputs(":nospace\n", c->to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        char settings[128];
        snprintf(settings, sizeof settings, "%s.%s", field->path, field->prefix ? field->prefix : "");
        offer(c, field->prefix ? settings : field->path, field->prefix ? "" : "=");
    }
}

static void offer_values(struct completion *c, const struct option_row *row)
{
    for (int i = 0; row->choice && row->choice(i); i++)
        offer(c, row->choice(i), "");
    if (strcmp(row->argument, "PATH=VALUE") == 0)
        offer_setting(c);
    else if (strcmp(row->name, "model") == 0)
        offer_key_values(c, "model.preset", strlen("model.preset"));
    else if (strcmp(row->name, "cluster") == 0)
        offer_data_files(c, "clusters");
    else if (strcmp(row->name, "profile") == 0)
        offer_data_files(c, "profiles");
    else if (strcmp(row->argument, "FILE") == 0 || strcmp(row->argument, "RECORDS") == 0)
        fputs(":files\n", c->to);
    else if (strcmp(row->argument, "DIR") == 0)
        fputs(":directories\n", c->to);
}

static void offer_commands(const struct completion *c, const struct command *const *commands)
{
    for (; *commands; commands++)
        if (!(*commands)->hidden)
            offer(c, (*commands)->name, "");
}

static void offer_options(const struct completion *c, const struct command *command)
{
    char option[64];
    for (const struct option_row *row = command->options; row && row->name; row++) {
        snprintf(option, sizeof option, "--%s", row->name);
        offer(c, option, "");
    }
    offer(c, "--help", "");
}

/* The row of "--name", "--name=" or "-n"; NULL when there is none. */
static const struct option_row *row_of(const struct command *command, const char *word)
{
    size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    for (const struct option_row *row = word[0] == '-' ? command->options : NULL; row && row->name; row++)
        if (length > 0 ? strlen(row->name) == length && strncmp(row->name, word + 2, length) == 0
                       : row->letter && word[1] == row->letter && !word[2])
            return row;
    return NULL;
}

static const struct command *command_of(const struct command *const *commands, const char *word)
{
    const char *name = word[0] == '-' ? "run" : word; /* dtbench --config FILE is dtbench run */
    for (; *commands; commands++)
        if (strcmp((*commands)->name, name) == 0)
            return *commands;
    return NULL;
}

void completions_print(const struct command *const *commands, int count, const char *const *words, FILE *to)
{
    const char *last = count > 0 ? words[count - 1] : "", *before = count > 1 ? words[count - 2] : "";
    struct completion c = {.word = last, .to = to};
    const struct command *command = command_of(commands, count > 0 ? words[0] : "");
    if (count <= 1) {
        offer_commands(&c, commands);
        for (const char *const *option = (const char *const[]){"--config", "--help", "--version", NULL}; *option; option++)
            offer(&c, *option, "");
        return;
    }
    if (!command)
        return;
    const struct option_row *taking = row_of(command, before), *own = strchr(last, '=') ? row_of(command, last) : NULL;
    if (taking && taking->argument && !strchr(before, '=')) {
        offer_values(&c, taking);
    } else if (own && own->argument && last[1] == '-') {
        c.fixed = (int)(strchr(last, '=') + 1 - last);
        offer_values(&c, own);
    } else if (last[0] == '-') {
        offer_options(&c, command);
    } else if (strcmp(command->name, "help") == 0) {
        offer_commands(&c, commands);
    } else if (command->argument.name) {
        fputs(":files\n", to);
    }
}
