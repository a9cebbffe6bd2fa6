/* `dtbench run`: its command line, what is checked before the first step, and what is printed at
 * the end. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/output_file.h"
#include "predict/simulated_system.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_RECORDS "dtbench.jsonl"

/* How long to wait for Slurm's controller, in seconds. A busy one takes a second or two. */
enum { SLURM_ANSWERS_S = 5 };

enum { REPEAT_WITH_UNTIL = 20 };

struct run_options {
    struct config_arguments config;
    const char *output, *repeat, *shard, *time_limit, *until;
    struct dt_trace_wish trace;
    struct resume_options skip;
    bool dry_run, quiet, resume, verify;
    int rounds;     /* read from `repeat` and `until` */
    double percent; /* read from `until`; 0: no --until */
};

#define AT(member) offsetof(struct run_options, member)

static const struct option_row options[] = {
    CONFIG_OPTION_ROWS(struct run_options, config),
    CONFIG_SLOW_ROW(struct run_options, config.slow),
    CONFIG_RATES_ROW(struct run_options, config.rates),
    {"output", 'o', OPTION_TEXT, AT(output), "RECORDS", NULL,
     "append the records to this file ('-': standard output); default: standard output when that is a pipe or a file, "
     "and " DEFAULT_RECORDS " on a terminal and under mpirun, srun or torchrun"},
    {"resume", 'r', OPTION_FLAG, AT(resume), NULL, NULL,
     "skip experiments of which RECORDS has a record with status ok and the same config hash"},
    {"skip-oom", 0, OPTION_FLAG, AT(skip.skip_oom), NULL, NULL, "with --resume: also skip those that ran out of memory, which is a result"},
    {"skip-failed", 0, OPTION_FLAG, AT(skip.skip_failed), NULL, NULL,
     "with --resume: also skip those that failed, for example experiments that crash the whole run"},
    {"repeat", 0, OPTION_TEXT, AT(repeat), "N", NULL,
     "run each experiment N times, with a record each, in rounds: all experiments once, then all of them again; with --resume only as "
     "often as ok records are missing"},
    {"until", 0, OPTION_TEXT, AT(until), "PERCENT", NULL,
     "repeat an experiment, three times at least, until the 90 % interval of its rounds' median step times is within PERCENT % to each "
     "side (the interval of dtbench compare), and at most as often as --repeat says (20)"},
    {"shard", 0, OPTION_TEXT, AT(shard), "K/N", NULL,
     "run part K of N of the sweep, K from 1. The division is always the same; the parts have about as many "
     "experiments and as much work each"},
    {"time-limit", 0, OPTION_TEXT, AT(time_limit), "SECONDS", NULL,
     "start no experiment that is not expected to end by then, as estimated from those that are done; default: in a "
     "Slurm job with a time limit, the time that it has left, less two minutes or a tenth"},
    {"verify", 'v', OPTION_FLAG, AT(verify), NULL, NULL,
     "also run each experiment's work on one device, and compare the losses of all steps. They may differ by 1e-5 of their value in "
     "fp32, 1e-4 in fp16 and 1e-3 in bf16; an experiment with a larger difference has failed"},
    {"trace", 0, OPTION_TEXT, AT(trace.path), "FILE", NULL,
     "write a trace of one step of all ranks for ui.perfetto.dev: of an additional step after the timed ones; on "
     "device sim in virtual time, and of two steps where the profile's host runs ahead. Several experiments write a "
     "file each, with the experiment's number before the extension"},
    {"trace-ranks", 0, OPTION_TEXT, AT(trace.ranks), "RANKS", NULL, "with --trace: of these ranks only, such as 0,3,8-15"},
    {"dry-run", 'n', OPTION_FLAG, AT(dry_run), NULL, NULL, "print the experiments that would run, and exit"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), NULL, NULL, "no progress; only results and errors"},
    {0},
};

static dt_status read_until(struct run_options *o)
{
    char *end;
    o->percent = strtod(o->until, &end);
    if (*end || end == o->until || !(o->percent > 0 && o->percent <= 100))
        return dt_fail(DT_ERR_INVALID, "--until %.40s: expected a percentage above 0 and up to 100", o->until);
    if (o->resume)
        return dt_fail(DT_ERR_INVALID, "'--until' looks at the rounds of this run alone: leave out --resume");
    if (o->repeat && o->rounds < SWEEP_ROUNDS_LEAST)
        return dt_fail(DT_ERR_INVALID, "--repeat %d: '--until' needs %d rounds at least", o->rounds, SWEEP_ROUNDS_LEAST);
    if (!o->repeat)
        o->rounds = REPEAT_WITH_UNTIL;
    return DT_OK;
}

static dt_status check_options(void *options_read)
{
    struct run_options *o = options_read;
    if ((o->skip.skip_oom || o->skip.skip_failed) && !o->resume)
        return dt_fail(DT_ERR_INVALID, "'--skip-%s' needs --resume", o->skip.skip_oom ? "oom" : "failed");
    if (o->trace.ranks && !o->trace.path)
        return dt_fail(DT_ERR_INVALID, "'--trace-ranks' needs --trace");
    DT_TRY(options_read_count("repeat", o->repeat, SWEEP_ROUNDS_MOST, &o->rounds));
    if (o->until)
        DT_TRY(read_until(o));
    return config_arguments_check(&o->config);
}

/* Under a launcher the same processes run all experiments, and NCCL reads most of its settings once
 * in a process. */
static dt_status check_nccl_settings(const struct sweep *s, int i, int *first)
{
    if (*first < 0)
        *first = i;
    if (strcmp(sweep_experiment(s, i)->nccl, sweep_experiment(s, *first)->nccl) == 0)
        return DT_OK;
    return dt_fail(
        DT_ERR_INVALID,
        "nccl: experiments %d and %d of %d have different settings, but NCCL reads them once, and the ranks that %s started run all "
        "experiments: start the ranks once for each, with --set or --shard, or on one machine run dtbench without %s",
        *first + 1, i + 1, s->distinct, s->world.launcher, s->world.launcher);
}

static dt_status check_simulated(const struct experiment *e, struct simulated_machine *last)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    DT_TRY(simulated_system_create_next(last, e, &system));
    return DT_OK;
}

/* Report whatever is certain to make an experiment fail before the first one runs. machine: that of
 * the last experiment on device sim. */
static dt_status check_experiments(const struct sweep *s, struct simulated_machine *machine)
{
    int first_on_nccl = -1;
    for (int i = 0; i < s->distinct; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        const struct dt_device_kind *kind;
        if (i > 0 && experiment_predicted_alike(e, e - 1))
            continue;
        if (s->verify && experiment_is_simulated(e))
            return dt_fail(DT_ERR_INVALID, "--verify needs losses, but device \"sim\" computes none");
        if (s->verify && experiment_replaces_its_checkpoint(e))
            return dt_fail(DT_ERR_INVALID, "--verify continues from the same checkpoint on one device, but this run overwrites it: give "
                                           "checkpoint.path another folder than checkpoint.from");
        if (experiment_is_simulated(e)) {
            DT_TRY(check_simulated(e, machine));
            continue;
        }
        if (s->inside && e->world_size != s->world.size)
            return dt_fail(DT_ERR_WORLD,
                           "%s started %d rank%s, but experiment %d of %d has world_size %d: start %d ranks, or --set world_size=%d",
                           s->world.launcher, s->world.size, s->world.size > 1 ? "s" : "", i + 1, s->distinct, e->world_size, e->world_size,
                           s->world.size);
        DT_TRY(device_choose(e, &kind));
        if (s->inside && kind->gpus && !s->outcomes[i].elsewhere)
            DT_TRY(check_nccl_settings(s, i, &first_on_nccl));
        if (s->inside)
            DT_TRY(dt_comm_check_world(dt_comm_backend_for(kind, e->world_size), &s->world));
        else
            DT_TRY(placement_check_alone(e, i + 1, s->distinct, kind->gpus ? dt_device_count(kind->name) : -1));
    }
    return DT_OK;
}

/* An experiment on fewer ranks traces those of the requested ranks that it has. */
static dt_status check_trace(const struct sweep *s)
{
    int most = 1;
    for (int i = 0; s->trace.ranks && i < s->count; i++) {
        int ranks = sweep_experiment(s, i)->world_size;
        most = ranks > most ? ranks : most;
    }
    return s->trace.ranks ? dt_trace_ranks_check(s->trace.ranks, most) : DT_OK;
}

static dt_status check_all(const struct sweep *s)
{
    DT_TRY(check_trace(s));
    DT_FREED struct simulated_machine *machine = calloc(1, sizeof *machine);
    return machine ? check_experiments(s, machine) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for a cluster");
}

/* Where the records go: the file that was asked for; else standard output, where it is a pipe or a
 * file and no launcher runs; else a file in this folder. A launcher may give its ranks any kind of
 * standard output. */
static const char *records_path(const struct sweep *s, const struct run_options *o)
{
    if (o->output)
        return o->output;
    return s->inside || isatty(STDOUT_FILENO) ? DEFAULT_RECORDS : "-";
}

/* End after an error before the first step. All ranks of a launcher find the same error, and rank 0
 * prints it. The other ranks end with success, because a launcher that sees a failure ends all
 * ranks at once, perhaps before rank 0 has printed. */
static int refuse(const struct sweep *s, enum exit_code code)
{
    return s->world.rank == 0 ? report_failure("run", code) : EXIT_CODE_OK;
}

/* Print each experiment that --repeat's rounds did not bring within --until. */
static void print_unsettled(const struct sweep *s)
{
    for (int i = 0; s->until > 0 && i < s->distinct; i++) {
        char label[LABEL_BYTES], spread[64] = "fewer than three rounds are ok";
        double percent = sweep_spread(s, i, s->count / s->distinct);
        if (s->outcomes[i].elsewhere || percent <= s->until)
            continue;
        if (!isnan(percent))
            snprintf(spread, sizeof spread, "+- %.3g %%", percent);
        experiment_label(sweep_experiment(s, i), &s->columns, label, sizeof label);
        line_print(stderr, "dtbench: not settled within %g %%: %s: %s", s->until, label, spread);
    }
}

static void print_results(const struct sweep *s)
{
    const char *path = s->output;
    bool quiet = s->progress.quiet;
    if (s->world.rank != 0)
        return;
    bool records_on_stdout = strcmp(path, "-") == 0;
    int finished = 0, left = 0, own = 0;
    for (int i = 0; i < s->count; i++) {
        finished += s->outcomes[i].run;
        left += outcome_is_left(&s->outcomes[i]);
        own += !s->outcomes[i].elsewhere;
    }
    if (s->results && results_count(s->results) > 0 && !(records_on_stdout && quiet) &&
        summary_print(s, records_on_stdout ? stderr : stdout) < 0)
        line_print(stderr, "dtbench run: %s", dt_error_message());
    fflush(stdout);
    if (s->output_failed)
        line_print(stderr, "dtbench run: %s", s->output_error);
    if (left > 0)
        line_print(stderr, "dtbench: %d of %d experiments not run%s", left, own, records_on_stdout ? "" : "; --resume runs them");
    if (quiet)
        return;
    if (own == 0)
        line_print(stderr, "dtbench: this shard of the %d experiments is empty", s->distinct);
    else if (finished == 0 && left == 0)
        line_print(stderr, "dtbench: nothing is left to run, according to the records in %s", path);
    print_unsettled(s);
    if (finished > 0 && !records_on_stdout && !s->output_failed)
        line_print(stderr, "dtbench: records in %s", path);
}

/* Exit without closing anything: MPI would wait for ranks that may be gone. */
static _Noreturn void leave_lost(const struct sweep *s, int code)
{
    alarm(3 * RANK_0_WRITES_S); /* another thread may hang and hold a lock */
    fflush(NULL);
    if (s->world.rank != 0)
        sleep(RANK_0_WRITES_S);
    _exit(code);
}

static void end_lost(struct sweep *s)
{
    print_results(s);
    leave_lost(s, sweep_exit_code(s));
}

/* Without srun a batch script runs on its first node only. */
static void note_unused_nodes(const struct sweep *s, bool quiet)
{
    const char *nodes = s->slurm.values[DT_SLURM_NODES];
    if (s->inside || quiet || !nodes || atoi(nodes) < 2 || sweep_experiment(s, 0)->world_size < 2)
        return;
    line_print(stderr,
               "dtbench: note: this job has %s nodes, but all ranks are started on this one; to use all: srun --mpi=pmix dtbench ...",
               nodes);
}

/* Say so where device "auto" takes the cpu although there is a GPU: most users do not expect it. */
static void note_passed_gpu(const struct sweep *s, bool quiet)
{
    char why[512];
    for (int i = 0; i < s->distinct && !quiet; i++) {
        if (!device_choice_skips_gpu(sweep_experiment(s, i), why, sizeof why))
            continue;
        line_print(stderr, "dtbench: note: there is a GPU, but device \"auto\" takes the cpu: %s", why);
        return;
    }
}

/* Print where a prediction follows the framework instead of the config, for the first such
 * experiment. */
static void note_framework(const struct sweep *s, bool quiet)
{
    char text[512];
    struct simulated_system *system;
    for (int i = 0; i < s->distinct && !quiet; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        if (!experiment_is_simulated(e) || !(e->strategy.paradigm->reads & READS_UNITS) || simulated_system_create(e, &system) < 0)
            continue;
        bool ignored = simulated_system_ignores_unit(system, e, text, sizeof text);
        simulated_system_destroy(system);
        if (ignored)
            line_print(stderr, "dtbench: note: %s", text);
        return;
    }
}

/* Open the records, and add the draft that a killed run has left of its last record. */
static dt_status open_records(struct sweep *s, const char *path)
{
    int kept;
    s->output = path;
    DT_TRY(dt_record_open(path, &s->records));
    DT_TRY(drafts_adopt(path, s->records, &kept));
    if (kept > 0)
        progress_note(&s->progress, "an earlier run was killed: %d unfinished record%s added", kept, kept > 1 ? "s" : "");
    return DT_OK;
}

static const char *const slurm_helper[] = {"/proc/self/exe", "slurm", NULL};

/* Ask Slurm for the job again, because its time limit may have changed. Without an answer the last
 * known limit stays. */
static double ask_job(void *context)
{
    struct sweep *s = context;
    DT_ENDED(dt_slurm_facts_finish) struct dt_slurm_facts now = {0};
    if (dt_slurm_facts_collect(slurm_helper, SLURM_ANSWERS_S, &now) < 0)
        return NAN;
    double left_s = now.values[DT_SLURM_TIME_LIMIT] ? dt_slurm_seconds_left(&now) : NAN;
    if (!isnan(left_s)) {
        struct dt_slurm_facts before = s->slurm;
        s->slurm = now;
        now = before;
    }
    return left_s;
}

/* Rank 0 reads the records and asks Slurm for the job, for all ranks. A controller that does not
 * answer must not delay the run for long. */
static enum exit_code prepare(struct sweep *s, const struct run_options *o, const char *path)
{
    if (s->world.rank != 0)
        return EXIT_CODE_OK;
    if (dt_slurm_facts_collect(slurm_helper, SLURM_ANSWERS_S, &s->slurm) < 0)
        return EXIT_CODE_OTHER;
    if (sweep_time_init(&s->time, o->time_limit, dt_slurm_seconds_left(&s->slurm)) < 0)
        return EXIT_CODE_USAGE;
    sweep_time_follow(&s->time, ask_job, s);
    s->limited = isfinite(s->time.end_s);
    if (results_create(show_wish, summary_options(), &s->results) < 0)
        return EXIT_CODE_OTHER;
    if (o->resume && resume_find_finished(s, path, &o->skip) < 0)
        return EXIT_CODE_OUTPUT;
    if (!o->dry_run && open_records(s, path) < 0)
        return EXIT_CODE_OUTPUT;
    note_unused_nodes(s, o->quiet);
    note_passed_gpu(s, o->quiet);
    if (!o->quiet)
        crowded_note(s);
    if (!o->dry_run)
        rendezvous_note_secret(s);
    note_framework(s, o->quiet);
    return EXIT_CODE_OK;
}

/* The ranks of a launcher find each other, and all get rank 0's code. If they do not find each
 * other, the first experiment has failed; a wrong placement is a wrong config. */
static enum exit_code rendezvous(struct sweep *s, enum exit_code own)
{
    enum exit_code code = own;
    char error[1024];
    snprintf(error, sizeof error, "%s", dt_error_message());
    dt_status status = rendezvous_check(s, &code);
    if (status == DT_ERR_INVALID || status == DT_ERR_WORLD || status == DT_ERR_UNAVAILABLE) {
        code = EXIT_CODE_CONFIG;
    } else if (status < 0) {
        s->lost = true;
        sweep_fail(s, status, dt_error_message());
        code = EXIT_CODE_OK;
    }
    if (own != EXIT_CODE_OK) /* the text is that of the first failure */
        dt_fail(DT_ERR_INVALID, "%s", error);
    return code;
}

static dt_status select_shard(struct sweep *s, const char *text)
{
    struct sweep_shard shard;
    DT_TRY(sweep_shard_parse(text, &shard));
    DT_FREED bool *elsewhere = calloc((size_t)s->distinct, sizeof *elsewhere);
    DT_TRY(dt_allocated(elsewhere, "no memory for %d experiments", s->distinct));
    DT_TRY(sweep_shard_select(shard, s->experiments, elsewhere));
    for (int i = 0; i < s->count; i++)
        s->outcomes[i].elsewhere = elsewhere[i % s->distinct];
    return DT_OK;
}

/* Records are appended to a file, and a trace replaces one: neither the config nor each other. */
static dt_status check_outputs(const struct run_options *o, const char *records)
{
    const char *config = o->config.config ? o->config.config : o->config.file;
    DT_TRY(dt_output_spares("--output", records, config));
    if (!o->trace.path)
        return DT_OK;
    DT_TRY(dt_output_spares("--trace", o->trace.path, config));
    return dt_output_spares("--trace", o->trace.path, records);
}

/* The caller has initialised the sweep, and owns it. */
static int run_sweep(struct sweep *s, const struct run_options *o, char **argv)
{
    const char *path = records_path(s, o);
    if (o->resume && strcmp(path, "-") == 0) {
        dt_fail(DT_ERR_INVALID, "--resume needs the records of an earlier run in a file: --output RECORDS");
        return refuse(s, EXIT_CODE_USAGE);
    }
    if (check_outputs(o, path) < 0)
        return refuse(s, EXIT_CODE_USAGE);
    if (o->shard && select_shard(s, o->shard) < 0)
        return refuse(s, EXIT_CODE_USAGE);
    if (s->fewest_ranks && scaling_find(s->experiments, s->fewest_ranks) < 0)
        return refuse(s, EXIT_CODE_OTHER);
    if (check_all(s) < 0)
        return refuse(s, EXIT_CODE_CONFIG);
    if (!o->dry_run) {
        signals_install(); /* first: a program that is executed anew inherits what is ignored */
        crowded_begin_anew(s, o->config.config ? o->config.config : o->config.file, argv);
    }
    enum exit_code code = prepare(s, o, path);
    if (o->dry_run && code == EXIT_CODE_OK)
        return s->world.rank > 0 || summary_print_planned(s, stdout) == DT_OK ? EXIT_CODE_OK : report_failure("run", EXIT_CODE_OTHER);
    if (s->inside && s->world.size > 1 && !o->dry_run)
        code = rendezvous(s, code);
    if (code != EXIT_CODE_OK)
        return refuse(s, code);
    sweep_run(s);
    print_results(s);
    return sweep_exit_code(s);
}

static int run(int argc, char **argv)
{
    struct run_options o = {.rounds = 1};
    struct experiment_list *experiments;
    struct sweep s = {0};
    int code;
    if (!options_begin(&command_run, argc, argv, &o, check_options, &code))
        return code;
    if (dt_world_from_environment(&s.world) < 0)
        return report_failure("run", EXIT_CODE_CONFIG);
    if (config_arguments_read(&o.config, &experiments) < 0)
        return refuse(&s, EXIT_CODE_CONFIG);
    if (!o.quiet && s.world.rank == 0) {
        config_note_left_out(experiments);
        rates_note(experiments->all[0].rates, experiments->all[0].directory);
    }
    s.experiments = experiments;
    s.distinct = experiments->count;
    s.count = s.distinct * o.rounds;
    s.inside = strcmp(s.world.launcher, "none") != 0;
    s.verify = o.verify;
    s.until = o.percent;
    s.trace = o.trace;
    s.end_lost = end_lost;
    s.outcomes = calloc((size_t)s.count, sizeof *s.outcomes);
    experiment_columns_find(experiments->all, experiments->count, &s.columns);
    s.fewest_ranks = s.columns.worlds_differ ? malloc((size_t)s.distinct * sizeof *s.fewest_ranks) : NULL;
    progress_init(&s.progress, s.count, o.quiet || s.world.rank != 0);
    s.progress.live &= !s.inside;
    if (!s.outcomes || (s.columns.worlds_differ && !s.fewest_ranks)) {
        dt_fail(DT_ERR_HOST_MEMORY, "no memory for a sweep of %d experiments", s.count);
        code = refuse(&s, EXIT_CODE_OTHER);
    } else if (sweep_identity_init(&s.identity, experiments) < 0) {
        code = refuse(&s, EXIT_CODE_OTHER);
    } else {
        code = run_sweep(&s, &o, argv);
    }

    dt_record_close(s.records);
    results_destroy(s.results);
    verify_finish(&s.references);
    dt_slurm_facts_finish(&s.slurm);
    sweep_time_finish(&s.time);
    sweep_identity_finish(&s.identity);
    free(s.fewest_ranks);
    free(s.outcomes);
    experiment_list_destroy(experiments);
    if (s.lost)
        leave_lost(&s, code);
    fflush(NULL);
    dt_comm_library_finish();
    return code;
}

const struct command command_run = {
    .name = "run",
    .summary = "run the experiments of a config and record them",
    .usage = "[OPTION]... FILE",
    .description = "Runs the experiments of a config, one after another, each in processes of its own; under mpirun, srun or "
                   "torchrun on the ranks that these have started. Prints a table of results. Each experiment appends a record, one line "
                   "of JSON. Progress and diagnostics go to standard error, and so does the table when the records go to standard output.\n"
                   "\n"
                   "dtbench --config FILE is the same as dtbench run FILE.",
    .options = options,
    .argument = {"config file", OPTION_TEXT, AT(config.file), NULL},
    .run = run,
    .exit_codes = true,
};
