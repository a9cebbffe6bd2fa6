/* `dtbench`: the table of commands, the help, and the choice of what to run. */
#include "cli/commands/commands.h"
#include "cli/text/exit_code.h"
#include "cli/text/options.h"
#include "lib/base/edit_distance.h"
#include "lib/record/provenance.h"

#include <string.h>

struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    bool hidden;                       /* not in the help: for dtbench itself */
};

static int cmd_help(int argc, char **argv);

static const struct command commands[] = {
    {"run", "run the experiments of a config and record them", cmd_run, false},
    {"check", "check a config: its experiments, their size, and the memory they will need", cmd_check, false},
    {"compare", "compare two sets of records: faster, slower, larger, wrong", cmd_compare, false},
    {"merge", "merge the records of many jobs, one for each experiment", cmd_merge, false},
    {"status", "tell how far a sweep is, from its records", cmd_status, false},
    {"validate", "hold the simulated cluster's predictions against measured runs", cmd_validate, false},
    {"calibrate", "measure this machine for device sim", cmd_calibrate, false},
    {"list", "list models, paradigms, devices and communicators", cmd_list, false},
    {"help", "help on dtbench or on a command", cmd_help, false},
    {"rank", "one rank of an experiment; started by dtbench itself", cmd_rank, true},
    {"calibrate-rank", "one rank of a calibration; started by dtbench itself", cmd_calibrate_rank, true},
    {"generate", "files that are made from dtbench's tables, for scripts/generate", cmd_generate, true},
    {"slurm", "what libslurm knows of this job; asked by dtbench itself", cmd_slurm, true},
    {0},
};

static const struct command *find_command(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static int unknown_command(const char *word)
{
    size_t length = strlen(word);
    fprintf(stderr, "dtbench: unknown command '%s'", word);
    if (length > 5 && strcmp(word + length - 5, ".json") == 0) {
        fprintf(stderr, "; to run a config: dtbench run %s\n", word);
        return EXIT_CODE_USAGE;
    }
    for (const struct command *c = commands; c->name; c++) {
        if (!c->hidden && dt_looks_like(word, c->name)) {
            fprintf(stderr, "; did you mean '%s'?", c->name);
            break;
        }
    }
    fprintf(stderr, "\nTry 'dtbench --help'.\n");
    return EXIT_CODE_USAGE;
}

static void print_help(void)
{
    printf("Usage: dtbench COMMAND [OPTION]...\n"
           "       dtbench --config FILE [OPTION]...    the same as dtbench run FILE\n\n"
           "Trains a GPT with data-parallel paradigms and measures which one to use.\n\nCommands\n");
    for (const struct command *c = commands; c->name; c++)
        if (!c->hidden)
            printf("  %-9s  %s\n", c->name, c->help);
    printf("\nOptions\n"
           "  --help     this text; after a command, its own\n"
           "  --version  print the version\n\n"
           "Examples\n"
           "  dtbench check configs/quickstart.json\n"
           "  dtbench run configs/quickstart.json --output records.jsonl\n"
           "  dtbench run configs/quickstart.json --set batch_size=4 --set steps.timed=10 --verify\n"
           "  mpirun -n 2 dtbench --config configs/quickstart.json\n\n"
           "Exit codes\n");
    exit_codes_print(stdout);
}

static int cmd_help(int argc, char **argv)
{
    const char *name = NULL;
    bool help = false;
    const struct option_row rows[] = {{"help", 'h', OPTION_FLAG, &help, NULL, "print this"}, {0}};
    const struct option_spec spec = {.rows = rows, .argument = "command", .argument_target = &name};
    if (options_parse(&spec, argc, argv) < 0)
        return report_failure("help", EXIT_CODE_USAGE);
    if (!name || strcmp(name, "help") == 0) {
        print_help();
        return EXIT_CODE_OK;
    }
    const struct command *command = find_command(name);
    if (!command || command->hidden)
        return unknown_command(name);
    char option[] = "--help", *arguments[] = {argv[0], option, NULL};
    return command->run(2, arguments);
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
        return finish(cmd_run(argc, argv));
    const struct command *command = find_command(word);
    return command ? finish(command->run(argc - 1, argv + 1)) : unknown_command(word);
}
