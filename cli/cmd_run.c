/* `dtbench run`: the command line, and everything that is said before the first step. */
#include "cli/cli.h"
#include "cli/config_arguments.h"
#include "cli/execute.h"
#include "cli/signals.h"
#include "cli/sweep.h"
#include "cli/table.h"
#include "lib/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_RECORDS "dtbench.jsonl"

/* When the ranks have lost each other, rank 0 has this long to write its record before the others' ends make the launcher end it. */
enum { RANK_0_WRITES_S = 5 };

/* What Slurm's controller may take to tell about the job; a busy one takes a second or two. */
enum { SLURM_ANSWERS_S = 10 };

struct run_options {
    struct config_arguments config;
    const char *output;
    bool dry_run, quiet, resume, verify, help;
};

static dt_status parse_options(struct run_options *o, int argc, char **argv)
{
    const struct option_row rows[] = {
        CONFIG_OPTION_ROWS(&o->config),
        {"output", 'o', OPTION_TEXT, &o->output, "RECORDS",
         "append the records to this file ('-': standard output). Without it they go to\n"
         "standard output when that is a pipe or a file, and to " DEFAULT_RECORDS "\n"
         "on a terminal and under mpirun, srun or torchrun"},
        {"resume", 'r', OPTION_FLAG, &o->resume, NULL, "skip experiments of which RECORDS has an ok record with the same config hash"},
        {"verify", 'v', OPTION_FLAG, &o->verify, NULL, "run each experiment's work on one device too, and compare the losses step by step"},
        {"dry-run", 'n', OPTION_FLAG, &o->dry_run, NULL, "print the experiments that would run, and end"},
        {"quiet", 'q', OPTION_FLAG, &o->quiet, NULL, "no progress; only results and errors"},
        {"help", 'h', OPTION_FLAG, &o->help, NULL, "print this"},
        {0},
    };
    const struct option_spec spec = {.rows = rows, .argument = "config file", .argument_target = &o->config.file};
    DT_TRY(options_parse(&spec, argc, argv));
    if (o->help) {
        printf("Usage: dtbench run [OPTION]... FILE\n"
               "       dtbench --config FILE [OPTION]...\n\n"
               "Runs the experiments of a config, one after another, each in processes of its own; under mpirun, srun or torchrun on the\n"
               "ranks that are there. Prints a table of results; each experiment leaves a record, one line of JSON. Progress and\n"
               "diagnostics go to standard error. When the records go to standard output, so does the table.\n\nOptions\n");
        options_print(rows, stdout);
        printf("\nExit codes\n");
        print_exit_codes(stdout);
        return DT_OK;
    }
    return config_arguments_check(&o->config);
}

/* Whatever would make an experiment fail for certain is said before any of them runs. */
static dt_status check_experiments(const struct sweep *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = &s->experiments[i];
        if (s->inside && e->world_size != s->world.size)
            return dt_fail(DT_ERR_WORLD,
                           "%s started %d rank%s, and experiment %d of %d has world_size %d: start %d, or --set world_size=%d",
                           s->world.launcher, s->world.size, s->world.size > 1 ? "s" : "", i + 1, s->count, e->world_size, e->world_size,
                           s->world.size);
        DT_TRY(execute_check(e));
    }
    return DT_OK;
}

static dt_status print_dry_run(const struct sweep *s)
{
    struct table *t = table_create();
    char value[VALUE_BYTES];
    static const char *const titles[] = {"#", "name", "paradigm", "ranks", "batch", "model", "steps"};
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, c == 1 || c == 2 || c == 5 ? TABLE_LEFT : TABLE_RIGHT, titles[c]);
    for (int c = 0; c < s->columns.count; c++)
        table_column(t, TABLE_RIGHT, experiment_column_title(s->columns.fields[c]));
    table_column(t, TABLE_LEFT, "config hash");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = &s->experiments[i];
        table_cell(t, "%d", i + 1);
        table_cell(t, "%s", e->name);
        table_cell(t, "%s", paradigm_name(e->paradigm));
        table_cell(t, "%d", e->world_size);
        table_cell(t, "%d", e->batch_size);
        if (*e->model.preset)
            table_cell(t, "%s", e->model.preset);
        else
            table_cell(t, "%dx%d", e->model.layers, e->model.hidden);
        table_cell(t, "%d+%d", e->steps.warmup, e->steps.timed);
        for (int c = 0; c < s->columns.count; c++) {
            experiment_value(e, s->columns.fields[c], value);
            table_cell(t, "%s", value);
        }
        table_cell(t, "%s", e->hash);
        table_cell(t, "%s", s->outcomes[i].skipped ? "skipped: has an ok record" : "");
    }
    dt_status status = table_print(t, stdout);
    table_destroy(t);
    return status;
}

/* Mark what an earlier run finished. */
static dt_status find_finished(struct sweep *s, const char *path)
{
    struct cJSON *records;
    int torn = 0;
    DT_TRY(dt_records_read(path, &records, &torn));
    for (int i = 0; i < s->count; i++)
        s->outcomes[i].skipped = dt_records_have_ok(records, s->experiments[i].hash);
    dt_json_destroy(records);
    return DT_OK;
}

/* Where the records go: the file asked for, else the pipe or file that standard output is, else a file here. A launcher may give its ranks
 * any kind of standard output, so with one it is the file. */
static const char *records_path(const struct sweep *s, const struct run_options *o)
{
    return o->output ? o->output : s->inside || isatty(STDOUT_FILENO) ? DEFAULT_RECORDS : "-";
}

/* Something is wrong before the first step. All ranks of a launcher find the same, and one says it: the others end well, because a launcher
 * that sees a failure ends all at once, and rank 0 might not come to its word. */
static int refuse(const struct sweep *s, enum exit_code code)
{
    return s->world.rank == 0 ? report_failure("run", code) : EXIT_CODE_OK;
}

static void print_results(const struct sweep *s, const char *path, bool quiet)
{
    bool records_on_stdout = strcmp(path, "-") == 0;
    int finished = 0, left = 0;
    for (int i = 0; i < s->count; i++) {
        finished += s->outcomes[i].run;
        left += !s->outcomes[i].run && !s->outcomes[i].skipped;
    }
    if (s->world.rank != 0)
        return;
    if (finished > 0 && !(records_on_stdout && quiet) && summary_print(s, records_on_stdout ? stderr : stdout) < 0)
        fprintf(stderr, "dtbench run: %s\n", dt_error_message());
    fflush(stdout);
    if (s->output_failed)
        fprintf(stderr, "dtbench run: %s\n", s->output_error);
    if (quiet)
        return;
    if (finished == 0 && left == 0)
        fprintf(stderr, "dtbench: all %d experiments have ok records in %s\n", s->count, path);
    if (left > 0)
        fprintf(stderr, "dtbench: %d of %d experiments not run%s\n", left, s->count,
                records_on_stdout ? "" : "; --resume goes on from here");
    if (finished > 0 && !records_on_stdout)
        fprintf(stderr, "dtbench: records in %s\n", path);
}

/* What is known of the Slurm job, on the rank that writes records. A controller that does not answer must not hold up the run for long. */
static dt_status ask_slurm(struct sweep *s)
{
    static const char *const helper[] = {"/proc/self/exe", "slurm", NULL};
    return s->world.rank == 0 ? dt_slurm_facts_collect(helper, SLURM_ANSWERS_S, &s->slurm) : DT_OK;
}

/* The sweep is set up and owned by the caller. */
static int run_sweep(struct sweep *s, const struct run_options *o)
{
    const char *path = records_path(s, o);
    if (o->resume && strcmp(path, "-") == 0) {
        dt_fail(DT_ERR_INVALID, "--resume needs the records of an earlier run in a file: --output RECORDS");
        return refuse(s, EXIT_CODE_USAGE);
    }
    if (check_experiments(s) < 0)
        return refuse(s, EXIT_CODE_CONFIG);
    if (o->resume && find_finished(s, path) < 0)
        return refuse(s, EXIT_CODE_OUTPUT);
    if (o->dry_run)
        return s->world.rank > 0 || print_dry_run(s) == DT_OK ? EXIT_CODE_OK : report_failure("run", EXIT_CODE_OTHER);
    signals_install();
    if (s->world.rank == 0 && dt_record_open(path, &s->records) < 0)
        return report_failure("run", EXIT_CODE_OUTPUT);
    if (ask_slurm(s) < 0)
        return report_failure("run", EXIT_CODE_OTHER);
    sweep_run(s);
    print_results(s, path, o->quiet);
    return sweep_exit_code(s);
}

int cmd_run(int argc, char **argv)
{
    struct run_options o = {0};
    struct experiment *experiments;
    struct sweep s = {0};
    if (parse_options(&o, argc, argv) < 0)
        return report_failure("run", EXIT_CODE_USAGE);
    if (o.help)
        return EXIT_CODE_OK;
    if (dt_world_from_environment(&s.world) < 0)
        return report_failure("run", EXIT_CODE_CONFIG);
    if (config_arguments_read(&o.config, &experiments, &s.count) < 0)
        return refuse(&s, EXIT_CODE_CONFIG);
    s.experiments = experiments;
    s.inside = strcmp(s.world.launcher, "none") != 0;
    s.verify = o.verify;
    bool identified = sweep_identity_init(&s.identity, experiments, s.count) == DT_OK;
    s.outcomes = calloc((size_t)s.count, sizeof *s.outcomes);
    experiment_columns_find(experiments, s.count, &s.columns);
    progress_init(&s.progress, s.count, o.quiet || s.world.rank != 0);
    s.progress.live &= !s.inside;
    int code = s.outcomes && identified ? run_sweep(&s, &o) : EXIT_CODE_OTHER;

    dt_record_close(s.records);
    verify_finish(&s.references);
    dt_slurm_facts_finish(&s.slurm);
    sweep_identity_finish(&s.identity);
    free(s.outcomes);
    free(experiments);
    fflush(NULL);
    if (s.lost) {
        if (s.world.rank != 0)
            sleep(RANK_0_WRITES_S);
        _exit(code); /* MPI would wait for ranks that may be gone */
    }
    dt_comm_library_finish();
    return code;
}
