/* `dtbench`: the table of commands, the help, and the choice of what to run. */
#include "cli/commands/commands.h"
#include "cli/generate/generate.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/record/record.h"

#include <string.h>

static int run_help(int argc, char **argv);
static int run_generate(int argc, char **argv);
static int run_pages(int argc, char **argv);
static int run_complete(int argc, char **argv);

/* The arguments of the commands here: at most one. */
struct arguments {
    const char *first;
};

static const struct command command_help = {
    .name = "help",
    .summary = "help on dtbench or on a command",
    .usage = "[COMMAND]",
    .description = "Prints the help of COMMAND, or of dtbench.",
    .argument = {"command", OPTION_TEXT, offsetof(struct arguments, first), NULL},
    .run = run_help,
};

static const struct command command_generate = {
    .name = "generate",
    .summary = "files that are made from dtbench's tables, for scripts/generate",
    .usage = "WHAT",
    .description = "Prints a file of the source tree, or a part of one, that is made from dtbench's tables. scripts/generate calls it.",
    .argument = {"name of a file", OPTION_TEXT, offsetof(struct arguments, first), NULL},
    .run = run_generate,
    .hidden = true,
};

static const struct command command_pages = {
    .name = "pages",
    .summary = "the manual pages of the commands, for the build",
    .usage = "FOLDER",
    .description = "Writes the manual page of each command into FOLDER.",
    .argument = {"folder", OPTION_TEXT, offsetof(struct arguments, first), NULL},
    .run = run_pages,
    .hidden = true,
};

static const struct command command_complete = {
    .name = "complete",
    .summary = "what a shell may offer, for cli/completion",
    .run = run_complete,
    .hidden = true,
};

static const struct command *const commands[] = {
    &command_run,    &command_check,    &command_plan,   &command_show,      &command_report,
    &command_trace,  &command_import,   &command_export, &command_compare,   &command_merge,
    &command_status, &command_validate, &command_fit,    &command_calibrate, &command_bench,
    &command_tune,   &command_list,     &command_help,   &command_rank,      &command_calibrate_rank,
    &command_slurm,  &command_generate, &command_pages,  &command_complete,  NULL,
};

static const struct command *find_command(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *word)
{
    size_t length = strlen(word);
    struct line line;
    line_begin(&line, stderr);
    line_add(&line, "dtbench: unknown command '%s'", word);
    if (length > 5 && strcmp(word + length - 5, ".json") == 0) {
        line_add(&line, "; to run a config: dtbench run %s", word);
        line_end(&line);
        return EXIT_CODE_USAGE;
    }
    for (int i = 0; commands[i]; i++) {
        if (!commands[i]->hidden && dt_looks_like(word, commands[i]->name)) {
            line_add(&line, "; did you mean '%s'?", commands[i]->name);
            break;
        }
    }
    line_end(&line);
    fprintf(stderr, "Try 'dtbench --help'.\n");
    return EXIT_CODE_USAGE;
}

static void print_help(void)
{
    printf("Usage: dtbench COMMAND [OPTION]...\n"
           "       dtbench --config FILE [OPTION]...    the same as dtbench run FILE\n\n"
           "Trains a GPT with data-parallel paradigms and measures which one to use.\n\nCommands\n");
    enum { INDENT = 13 };
    for (int i = 0; commands[i]; i++) {
        if (commands[i]->hidden)
            continue;
        printf("  %-9s  ", commands[i]->name);
        paragraph_print(commands[i]->summary, INDENT, stdout);
    }
    printf("\nOptions\n"
           "  --help     this text; after a command, its own\n"
           "  --version  print the version\n\n"
           "Examples\n"
           "  dtbench check configs/quickstart.json\n"
           "  dtbench run configs/quickstart.json --output records.jsonl\n"
           "  dtbench run configs/quickstart.json --set batch_size=4 --verify\n"
           "  mpirun -n 2 dtbench --config configs/quickstart.json\n\n"
           "Exit codes\n");
    exit_codes_print(stdout);
}

static int run_help(int argc, char **argv)
{
    struct arguments o = {0};
    int code;
    if (!options_begin(&command_help, argc, argv, &o, NULL, &code))
        return code;
    if (!o.first) {
        print_help();
        return EXIT_CODE_OK;
    }
    const struct command *command = find_command(o.first);
    if (!command || command->hidden)
        return unknown_command(o.first);
    options_print_help(command, stdout);
    return EXIT_CODE_OK;
}

static int run_generate(int argc, char **argv)
{
    struct arguments o = {0};
    int code;
    if (!options_begin(&command_generate, argc, argv, &o, NULL, &code))
        return code;
    dt_status status = generate(o.first ? o.first : "", commands, stdout);
    return status == DT_OK ? EXIT_CODE_OK : report_failure("generate", status == DT_ERR_INVALID ? EXIT_CODE_USAGE : EXIT_CODE_OTHER);
}

static int run_pages(int argc, char **argv)
{
    struct arguments o = {0};
    int code;
    if (!options_begin(&command_pages, argc, argv, &o, NULL, &code))
        return code;
    return generate_pages(o.first ? o.first : ".", commands) == DT_OK ? EXIT_CODE_OK : report_failure("pages", EXIT_CODE_OUTPUT);
}

static int run_complete(int argc, char **argv)
{
    completions_print(commands, argc - 1, (const char *const *)argv + 1, stdout);
    return EXIT_CODE_OK;
}

/* Results that nobody can read are no success: a full disk shows when the buffer is flushed. */
static int finish(int code)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || code != EXIT_CODE_OK)
        return code;
    fprintf(stderr, "dtbench: standard output cannot be written\n");
    return EXIT_CODE_OUTPUT;
}

/* Called before the constructors of all libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const called_first)(void) = signals_begin;

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        fprintf(stderr, "dtbench: needs a command\nTry 'dtbench --help'.\n");
        return EXIT_CODE_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help();
        return finish(EXIT_CODE_OK);
    }
    if (strcmp(word, "--version") == 0) {
        printf("dtbench %s (%s)\n", dt_version(), dt_git_commit());
        return finish(EXIT_CODE_OK);
    }
    if (word[0] == '-') /* dtbench --config FILE ... */
        return finish(command_run.run(argc, argv));
    const struct command *command = find_command(word);
    return command ? finish(command->run(argc - 1, argv + 1)) : unknown_command(word);
}
