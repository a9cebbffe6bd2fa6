/* `dtbench plan`: finds the best way of training a model on a cluster, and says why. */
#include "cli/commands/commands.h"

#include "cli/plan/planner.h"
#include "cli/predict/predict.h"
#include "cli/run/run.h"
#include "cli/text/text.h"
#include "cli/words/words.h"
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "lib/record/record.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONFIG "plan.json"
#define DEFAULT_MAP "map.jsonl"
#define DEFAULT_SECONDS "60"
#define DEFAULT_ROUNDS "7"
#define MAP_TOP "5"

enum { FRAMEWORK_SETTINGS = 16, SETTING_BYTES = 64 };

struct plan_options {
    struct planner_arguments planner, unlimited; /* unlimited: as given, without what the framework cannot do */
    struct option_list map, texts;               /* texts: arguments that are not options */
    const char *all, *output, *seconds, *measure, *rounds, *profiles, *framework;
    bool rule, json, quiet;
    char settings[FRAMEWORK_SETTINGS][SETTING_BYTES]; /* the framework's limits, as --set and --allow would say them */
    int setting_count;
};

#define AT(member) offsetof(struct plan_options, member)

static const struct option_row options[] = {
    {"model", 'm', OPTION_TEXT, AT(planner.model), "NAME", NULL,
     "a model of dtbench list, or a Hugging Face model's config.json; other sizes: --set model.layers=24 and so on"},
    {"cluster", 'C', OPTION_TEXT, AT(planner.cluster), "NAME", NULL,
     "a cluster of dtbench's own (gcp_a2) or a file; default: what a config for device sim has"},
    {"profile", 'P', OPTION_TEXT, AT(planner.profile), "NAME", NULL,
     "the software: a profile of dtbench's own or a file; default: likewise"},
    {"profiles", 0, OPTION_TEXT, AT(profiles), "NAME,...", NULL,
     "the best plan with each of several profiles, or with all that are for the cluster's GPU (all): how much the answer depends on the "
     "software"},
    {"nodes", 'N', OPTION_TEXT, AT(planner.nodes), "N", NULL, "nodes of the cluster; default: all"},
    {"gpus", 0, OPTION_TEXT, AT(planner.gpus), "N", NULL, "GPUs in all, or ranks where processors compute, instead of --nodes"},
    {"global-batch", 'b', OPTION_TEXT, AT(planner.global_batch), "N", NULL, "samples of a step over all GPUs; default: free"},
    {"max-batch", 0, OPTION_TEXT, AT(planner.max_batch), "N", NULL,
     "at most N samples of a GPU and step, where the batch is free; default: 128"},
    {"optimizer", 0, OPTION_TEXT, AT(planner.optimizer), "NAME", NULL,
     "the same as --set optimizer.name=NAME; default: adam. model.dtype is bf16 by default, where the GPU has it"},
    {"sequence", 0, OPTION_TEXT, AT(planner.sequence), "N", NULL, "tokens of a sample, the same as --set model.block_size=N"},
    {"objective", 0, OPTION_TEXT, AT(planner.objective), "WHAT", planner_objective_name,
     "what is best: the most tokens a second, the least memory at no less than --floor, or, on any number of the nodes, the least cost or "
     "energy of a token"},
    {"floor", 0, OPTION_TEXT, AT(planner.floor), "TOKENS", NULL,
     "with --objective memory: the least tokens a second; default: 90 % of the highest found"},
    {"price", 0, OPTION_TEXT, AT(planner.price), "AMOUNT", NULL, "the price of a GPU hour: the table then has the price of tokens"},
    {"tokens", 0, OPTION_TEXT, AT(planner.tokens), "N", NULL, "tokens to train on: the table then has the time that they take"},
    {"deadline", 0, OPTION_TEXT, AT(planner.deadline), "TIME", NULL,
     "leave out plans that need longer for --tokens, in days or hours with their unit: 30d, 36h"},
    {"fix", 'f', OPTION_LIST, AT(planner.fix), "KEY=VALUE", NULL, "give a config key this value in all candidates; any number of times"},
    {"allow", 0, OPTION_LIST, AT(planner.allow), "KEY=VALUE,...", NULL, "try only these values of a key; every key can be varied this way"},
    {"forbid", 0, OPTION_LIST, AT(planner.forbid), "KEY=VALUE,...", NULL, "try no candidate with one of these values"},
    {"set", 's', OPTION_LIST, AT(planner.sets), "PATH=VALUE", NULL, CONFIG_SET_HELP},
    CONFIG_SLOW_ROW(struct plan_options, planner.slow),
    CONFIG_RATES_ROW(struct plan_options, planner.rates),
    {"top", 't', OPTION_TEXT, AT(planner.top), "N", NULL,
     "show the N best, however alike they are; default: the best of each of 5 kinds, by paradigm and groups"},
    {"threads", 0, OPTION_TEXT, AT(planner.threads), "N", NULL, "simulate on N threads; default: as many as there are processors"},
    {"seconds", 0, OPTION_TEXT, AT(seconds), "N", NULL,
     "stop after this number of seconds with the best so far, as Ctrl-C does; --rule may then take as long again; default: " DEFAULT_SECONDS
     "; 0: no limit"},
    {"map", 0, OPTION_LIST, AT(map), "KEY=VALUE,...", NULL,
     "the best for each of several models and batches: --map model=GPTSmall,GPT13B batch=64,256. scripts/plan_map draws it"},
    {"output", 'o', OPTION_TEXT, AT(output), "FILE", NULL,
     "write the best ones as a config for dtbench run; default: " DEFAULT_CONFIG
     ". With --map: append a record of the best plan of each box; default: " DEFAULT_MAP},
    {"all", 'a', OPTION_TEXT, AT(all), "RECORDS", NULL, "append a record of each simulated candidate to this file"},
    {"device", 'd', OPTION_TEXT, AT(planner.device), "NAME", NULL,
     "cpu: plan for this machine, as measured by dtbench calibrate (cluster.json and profile.json here, or --cluster and --profile), in "
     "fp32; cuda: for this machine's GPUs, which --cluster describes. Default: sim"},
    {"measure", 0, OPTION_TEXT, AT(measure), "N", NULL,
     "then run the first N on that device, in rounds of one run each, and say which one won and how far off each prediction was"},
    {"rounds", 0, OPTION_TEXT, AT(rounds), "N", NULL,
     "the most rounds of --measure. From the fourth round, only plans that may still win are run, until one has won; "
     "default: " DEFAULT_ROUNDS},
    {"rule", 'r', OPTION_FLAG, AT(rule), NULL, NULL, "also follow two rules of thumb, and print how much slower their plans are"},
    {"for", 0, OPTION_TEXT, AT(framework), "WHOM", framework_export_name,
     "search only what this framework can do, print the best plan as its job, as dtbench export does, and then which missing settings keep "
     "it from the best of all. The words are"},
    {"json", 'j', OPTION_FLAG, AT(json), NULL, NULL, "print JSON: the plans with their configs and reasons"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), NULL, NULL, "no progress"},
    {0},
};

/* Where a running search reports to. */
struct progress_watch {
    const struct planner *planner;
    struct dt_record_file *records; /* NULL: no records were asked for */
    bool live;
    double until_s; /* 0: no limit */
    double limit_s; /* limit of each search; 0: no limit */
    double drawn_s;
    dt_status status; /* of writing the records */
    char error[512];
};

static bool interrupted(void *context)
{
    const struct progress_watch *w = context;
    return signals_count() > 0 || (w->until_s > 0 && dt_clock_s() > w->until_s);
}

static void show_progress(void *context, const struct search_progress *progress)
{
    enum { REDRAWS_PER_S = 10 };
    struct progress_watch *w = context;
    char done[FORMAT_BYTES], count[FORMAT_BYTES], simulated[FORMAT_BYTES], best[FORMAT_BYTES];
    if (!w->live || dt_clock_s() - w->drawn_s < 1.0 / REDRAWS_PER_S)
        return;
    w->drawn_s = dt_clock_s();
    status_line("%s of %s candidates, %s simulated, best %s %ss/s", format_count((uint64_t)progress->done, done),
                format_count((uint64_t)progress->count, count), format_count((uint64_t)progress->simulated, simulated),
                format_number(progress->best_units_per_s, best), w->planner->base.model.family->unit);
}

/* One candidate's record, as dtbench run would write it. */
static dt_status write_record(const struct progress_watch *w, struct dt_record_file *records, const struct experiment *e, dt_status status,
                              const char *error, const struct measure_result *result)
{
    DT_ENDED(report_finish) struct report report = {0};
    struct experiment complete = *e;
    DT_FREED char *line = NULL;
    DT_TRY(experiment_resolve(&complete, "dtbench plan"));
    report_init(&report);
    const struct simulated_machine *machine = &w->planner->machine;
    run_simulated_describe(&complete, &machine->cluster_file, &machine->profile_file, &machine->cluster, &report);
    report.result = *result; /* borrowed: the report does not free it */
    report_end(&report, status, error);
    dt_status written = report_record(&report, &complete, &line);
    report.result = (struct measure_result){0};
    DT_TRY(written);
    return dt_record_append(records, line);
}

static void keep_record(void *context, const struct experiment *e, dt_status status, const char *error, const struct measure_result *result)
{
    struct progress_watch *w = context;
    if (!w->records || w->status < 0)
        return;
    w->status = write_record(w, w->records, e, status, error, result);
    if (w->status < 0)
        snprintf(w->error, sizeof w->error, "%s", dt_error_message());
}

/* The time limit of the next search begins. */
static void start_clock(struct progress_watch *w)
{
    w->until_s = w->limit_s > 0 ? dt_clock_s() + w->limit_s : 0;
}

/* Rules of thumb may take as long again as the plan. */
static dt_status follow_rules(const struct planner *p, struct progress_watch *w, struct rule_results *out)
{
    start_clock(w);
    return rules_follow(p, out);
}

static dt_status find_reasons(const struct plan_options *o, const struct planner *p, struct progress_watch *w, struct planner_reasons *out)
{
    *out = (struct planner_reasons){.chosen = {.count = 0}};
    why_not(p, &out->not);
    if (p->result.ranked == 0)
        return DT_OK;
    why_chosen(p, 0, &out->chosen);
    why_trusted(p, &out->trusted);
    why_slow(p, &out->slow);
    if (!p->result.interrupted)
        DT_TRY(changes_find(p, &out->changes));
    if (o->rule)
        DT_TRY(follow_rules(p, w, &out->rules));
    return DT_OK;
}

static dt_status print(const struct plan_options *o, const struct planner *p, const struct measured *measured, struct progress_watch *w)
{
    DT_FREED struct planner_reasons *reasons = calloc(1, sizeof *reasons);
    DT_TRY(dt_allocated(reasons, "no host memory for a plan"));
    dt_status status = find_reasons(o, p, w, reasons);
    if (w->drawn_s > 0)
        status_clear();
    DT_THEN(status, o->json ? planner_print_json(p, reasons, measured, stdout) : planner_print(p, reasons, stdout));
    fflush(stdout);
    return status;
}

/* What --measure runs. */
struct measuring {
    int count, rounds; /* count: 0 where nothing is measured */
};

/* Errors: DT_ERR_INVALID, DT_ERR_UNAVAILABLE with one line. */
static dt_status read_measure(const struct plan_options *o, const struct planner *p, struct measuring *out)
{
    const struct dt_device_kind *kind;
    struct experiment e = p->base;
    *out = (struct measuring){.count = 0};
    if (o->rounds && !o->measure)
        return dt_fail(DT_ERR_INVALID, "--rounds needs --measure");
    if (!o->measure)
        return DT_OK;
    DT_TRY(options_read_count("measure", o->measure, MEASURED_MOST, &out->count));
    DT_TRY(options_read_count("rounds", o->rounds ? o->rounds : DEFAULT_ROUNDS, MEASURED_ROUNDS_MOST, &out->rounds));
    if (!o->planner.device || dt_device_is_simulated(o->planner.device))
        return dt_fail(DT_ERR_INVALID, "--measure %s: needs a device to run on: --device cpu or cuda", o->measure);
    e.device = o->planner.device;
    experiment_settle(&e);
    return device_choose(&e, &kind);
}

/* Plan, print, and measure with --measure. With --json all of it is one object. */
static dt_status find_and_print(const struct plan_options *o, struct planner *p, const struct measuring *wanted, struct progress_watch *w)
{
    struct measured measured = {.won = -1};
    bool measures = wanted->count > 0;
    DT_TRY(planner_search(p));
    measures = measures && p->result.ranked > 0 && signals_count() == 0;
    if (!o->json)
        DT_TRY(print(o, p, NULL, w));
    if (measures)
        DT_TRY(measured_run(p, o->planner.device, wanted->count, wanted->rounds, o->quiet, w->records, &measured));
    if (o->json)
        return print(o, p, measures ? &measured : NULL, w);
    return measures ? measured_print(p, &measured, stdout) : DT_OK;
}

/* 0: no limit. Errors: DT_ERR_INVALID with one line. */
static dt_status read_seconds(const char *text, double *out)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*end || end == text || !isfinite(seconds) || seconds < 0)
        return dt_fail(DT_ERR_INVALID, "--seconds %.40s: expected a number of seconds, 0 for no limit", text);
    *out = seconds;
    return DT_OK;
}

/* Watch the search. Its time limit begins now. */
static void watch_search(struct progress_watch *w, struct planner *p)
{
    w->planner = p;
    start_clock(w);
    p->options.context = w;
    p->options.stop = interrupted;
    p->options.progress = show_progress;
    p->options.done = keep_record;
}

static void add_setting(void *context, const char *setting)
{
    struct plan_options *o = context;
    if (o->setting_count < FRAMEWORK_SETTINGS)
        snprintf(o->settings[o->setting_count++], SETTING_BYTES, "%s", setting);
}

static dt_status restrict_by(struct plan_options *o, struct option_list *list, const char *text)
{
    if (list->count == OPTION_LIST_MAX)
        return dt_fail(DT_ERR_INVALID, "--for %s: too many other options", o->framework);
    list->items[list->count++] = text;
    return DT_OK;
}

/* Limit the search to what the framework can do, by rows as of --set and --allow. */
static dt_status restrict_to_framework(struct plan_options *o)
{
    const struct framework *f = o->framework ? framework_find(o->framework) : NULL;
    if (!o->framework)
        return DT_OK;
    if (!f || !f->space)
        return dt_fail(DT_ERR_INVALID, "--for %.40s: is not known; dtbench plan --help names them", o->framework);
    if (o->json || o->map.count > 0)
        return dt_fail(DT_ERR_INVALID, "--for prints a job: leave out --json and --map");
    o->unlimited = o->planner;
    framework_settings(f, add_setting, o);
    for (int i = 0; i < o->setting_count; i++)
        DT_TRY(restrict_by(o, &o->planner.sets, o->settings[i]));
    for (const char *const *text = f->space; *text; text++)
        DT_TRY(restrict_by(o, strchr(*text, ',') ? &o->planner.allow : &o->planner.sets, *text));
    return DT_OK;
}

/* Print the best plan as the framework's job. */
static dt_status print_job(const struct framework *f, const struct planner *p)
{
    struct experiment e;
    DT_ENDED(dt_translation_finish) struct dt_translation t = {0};
    DT_TRY(planner_experiment(p, 0, &e));
    DT_TRY(framework_export(f, &e, &t));
    printf("\nfor %s\n", f->title);
    remarks_print(&t, stdout);
    words_write_text(f, t.theirs, stdout);
    return DT_OK;
}

/* Print how much better the best plan without the framework's limits is, and which of its settings
 * the framework does not have. */
static dt_status print_lacking(const struct framework *f, const struct planner *p, struct planner_best *best, double score)
{
    char strategy[STRATEGY_BYTES], rate[FORMAT_BYTES], better[64] = "where no plan of the framework's own fits";
    DT_ENDED(dt_translation_finish) struct dt_translation t = {0};
    DT_TRY(experiment_resolve(&best->experiment, "dtbench plan"));
    strategy_describe(&best->experiment, strategy);
    if (p->result.ranked > 0) {
        struct experiment own = planner_candidate(p, 0);
        double margin = 1 - score / planner_score(p, 0);
        bool tells = margin > planner_noise(p, &own, &best->experiment);
        snprintf(better, sizeof better, "%.1f %% better%s", 100 * margin, tells ? "" : ", less than the error of the predictions");
    }
    line_print(stdout, "without the limits of %s: %s, batch %g, %s %ss/s, %s", f->title, strategy, best->experiment.batch_size,
               format_number(best->outcome.units_per_s, rate), best->experiment.model.family->unit, better);
    DT_TRY(framework_export(f, &best->experiment, &t));
    remarks_print_kind(&t, DT_REMARK_CANNOT, "it would take", stdout);
    return DT_OK;
}

/* Search once more without the framework's limits, as long again as the plan had. */
static dt_status print_what_it_would_take(const struct plan_options *o, const struct planner *p, struct progress_watch *w)
{
    const struct framework *f = framework_find(o->framework);
    DT_DESTROYED(planner_destroy) struct planner *all = NULL;
    struct planner_best best;
    DT_TRY(planner_create(&o->unlimited, &all));
    struct search_options search = all->options;
    double own = p->result.ranked > 0 ? planner_score(p, 0) : INFINITY, score = INFINITY; /* own: no plan that it can run may fit */
    start_clock(w);
    search.context = w;
    search.stop = interrupted;
    search.only_best = true;
    search.floor_units_per_s = p->options.floor_units_per_s;
    search.better_than = isfinite(own) ? own : 0;
    dt_status status = planner_search_best(all->space, &all->base, &all->machine, &search, &best);
    if (status == DT_OK && best.found)
        score = search_score(search.objective, &best.experiment, best.outcome.step_s, best.outcome.peak_bytes);
    fputc('\n', stdout);
    if (status == DT_OK && score < own)
        status = print_lacking(f, p, &best, score);
    else if (status == DT_OK)
        line_print(stdout, "without the limits of %s: %s", f->title,
                   best.interrupted ? "not known, because the search was stopped" : "nothing is better");
    return status;
}

static int run_plan(const struct plan_options *o, struct planner *p, const struct measuring *wanted, double limit_s)
{
    struct progress_watch w = {.live = !o->quiet && terminal_is_live(stderr), .limit_s = limit_s};
    const char *output = o->output ? o->output : DEFAULT_CONFIG;
    if (o->all && dt_record_open(o->all, &w.records) < 0)
        return report_failure("plan", EXIT_CODE_OUTPUT);
    watch_search(&w, p);
    dt_status status = find_and_print(o, p, wanted, &w);
    dt_record_close(w.records);
    if (status < 0)
        return report_failure("plan", EXIT_CODE_OTHER);
    if (p->result.ranked > 0 && planner_write_config(p, output) < 0)
        return report_failure("plan", EXIT_CODE_OUTPUT);
    if (o->framework && print_what_it_would_take(o, p, &w) < 0)
        return report_failure("plan", EXIT_CODE_OTHER);
    if (p->result.ranked > 0 && o->framework && print_job(framework_find(o->framework), p) < 0)
        return report_failure("plan", EXIT_CODE_OTHER);
    fflush(stdout);
    if (p->result.ranked > 0 && !o->quiet) {
        fputc('\n', stderr);
        line_print(stderr, "dtbench: the best %d are in %s: dtbench run %s predicts them; with --device %s it measures them",
                   planner_shown(p), output, output, *planner_unit(p) == 'G' ? "cuda, on the cluster," : "cpu");
    }
    if (w.status < 0) {
        dt_fail(w.status, "%s", w.error);
        return report_failure("plan", EXIT_CODE_OUTPUT);
    }
    if (p->result.interrupted && signals_count() > 0)
        return EXIT_CODE_SIGNAL + signals_first();
    if (p->result.interrupted && p->result.ranked == 0)
        return EXIT_CODE_OTHER;
    return p->result.ranked > 0 ? EXIT_CODE_OK : EXIT_CODE_OOM;
}

/* ---- a map ---- */

/* A map's files, and what is printed. */
struct map_output {
    struct dt_record_file *records; /* of the best plan of each box */
    struct cJSON *boxes;            /* NULL: print a table */
};

static struct planner_arguments arguments_of_box(const struct plan_options *o, const struct map_box *box)
{
    struct planner_arguments a = o->planner;
    a.model = box->model;
    a.global_batch = box->batch;
    a.profile = box->profile ? box->profile : a.profile;
    a.top = a.top ? a.top : MAP_TOP; /* a box shows its best plan alone, so the best of other kinds is not searched for */
    return a;
}

static dt_status record_best(const struct progress_watch *w, const struct map_box *box, struct dt_record_file *records)
{
    struct experiment e;
    DT_ENDED(measure_result_finish) struct measure_result result = {0};
    char name[80];
    DT_TRY(planner_experiment(w->planner, 0, &e));
    snprintf(name, sizeof name, "%.40s%s%.16s", box->model ? box->model : "plan", box->batch ? ", batch " : "",
             box->batch ? box->batch : "");
    DT_TRY(dt_intern_into(&e.name, name));
    DT_TRY(search_simulate(&w->planner->machine, &e, NULL, &result));
    return write_record(w, records, &e, DT_OK, NULL, &result);
}

static dt_status search_box(const struct plan_options *o, struct progress_watch *w, struct planner *p, struct map_output *to,
                            struct map_box *box)
{
    DT_FREED struct planner_reasons *reasons = calloc(1, sizeof *reasons);
    watch_search(w, p);
    dt_status status = reasons ? planner_search(p) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a plan");
    if (status == DT_OK && p->result.ranked > 0 && o->rule)
        status = follow_rules(p, w, &reasons->rules);
    if (status == DT_OK) {
        map_fill(p, box);
        box->rules = reasons->rules;
    }
    if (status == DT_OK && o->json)
        status = map_add_json(&to->boxes, box, p, reasons);
    if (status == DT_OK && p->result.ranked > 0)
        status = record_best(w, box, to->records);
    return status;
}

static dt_status make_box(const struct plan_options *o, struct progress_watch *w, struct map_output *to, struct map_box *box)
{
    const struct planner_arguments a = arguments_of_box(o, box);
    DT_DESTROYED(planner_destroy) struct planner *p = NULL;
    DT_TRY(planner_create(&a, &p));
    return search_box(o, w, p, to, box);
}

/* *done: the boxes that were searched; all of them, unless Ctrl-C ended it. */
static dt_status make_boxes(const struct plan_options *o, struct progress_watch *w, struct map_output *to, struct map_box *boxes, int count,
                            int *done)
{
    for (*done = 0; *done < count && signals_count() == 0; ++*done) {
        if (w->live)
            status_line("%s, batch %s%s%s\n", boxes[*done].model ? boxes[*done].model : "the config's model",
                        boxes[*done].batch ? boxes[*done].batch : "free", boxes[*done].profile ? ", " : "",
                        boxes[*done].profile ? boxes[*done].profile : "");
        DT_TRY(make_box(o, w, to, &boxes[*done]));
    }
    if (w->drawn_s > 0)
        status_clear();
    return DT_OK;
}

/* Find a wrong model, batch or profile before the first search. --profiles all: leave out those for
 * another GPU. */
static dt_status check_boxes(const struct plan_options *o, struct map_box *boxes, int *count)
{
    bool all = o->profiles && strcmp(o->profiles, "all") == 0;
    int kept = 0;
    for (int i = 0; i < *count; i++) {
        const struct planner_arguments a = arguments_of_box(o, &boxes[i]);
        struct planner *p;
        dt_status status = planner_create(&a, &p);
        if (status == DT_ERR_UNAVAILABLE && all)
            continue;
        DT_TRY(status);
        planner_destroy(p);
        boxes[kept++] = boxes[i];
    }
    *count = kept;
    return kept > 0 ? DT_OK : dt_fail(DT_ERR_UNAVAILABLE, "--profiles all: no profile is for the cluster's GPU");
}

/* Cut the names out of `text`: those given, or those of all shipped profiles. Errors:
 * DT_ERR_INVALID. */
static dt_status read_profiles(const char *given, char text[MAP_TEXT_BYTES], const char *names[MAP_VALUES], int *count)
{
    char *rest = text;
    *count = 0;
    if (!given)
        return DT_OK;
    if (strcmp(given, "all") == 0)
        dt_data_file_names("profiles", text, MAP_TEXT_BYTES);
    else
        snprintf(text, MAP_TEXT_BYTES, "%s", given);
    for (char *name = strsep(&rest, ", "); name; name = strsep(&rest, ", ")) {
        if (*name && *count == MAP_VALUES)
            return dt_fail(DT_ERR_INVALID, "--profiles: more than %d names", MAP_VALUES);
        if (*name)
            names[(*count)++] = name;
    }
    return *count > 0 ? DT_OK : dt_fail(DT_ERR_INVALID, "--profiles: expected comma-separated names of profiles, or all");
}

static int write_map(const struct plan_options *o, double limit_s, struct map_box *boxes, int count)
{
    struct progress_watch w = {.live = !o->quiet && terminal_is_live(stderr), .limit_s = limit_s};
    struct map_output to = {.boxes = o->json ? dt_json_words(NULL, "") : NULL};
    int done = 0, found = 0;
    if (dt_record_open(o->output ? o->output : DEFAULT_MAP, &to.records) < 0 || (o->all && dt_record_open(o->all, &w.records) < 0))
        return report_failure("plan", EXIT_CODE_OUTPUT);
    dt_status status = make_boxes(o, &w, &to, boxes, count, &done);
    if (status == DT_OK && w.status < 0)
        status = dt_fail(w.status, "%s", w.error);
    dt_record_close(w.records);
    dt_record_close(to.records);
    if (status < 0) {
        dt_json_destroy(to.boxes);
        return report_failure("plan", EXIT_CODE_OTHER);
    }
    for (int i = 0; i < done; i++)
        found += *boxes[i].strategy != '\0';
    dt_status printed = o->json ? dt_json_write(dt_json_object("boxes: %p", to.boxes), stdout) : map_print(boxes, done, stdout);
    if (printed < 0 || fflush(stdout) != 0)
        return report_failure("plan", EXIT_CODE_OTHER);
    if (signals_count() > 0)
        return EXIT_CODE_SIGNAL + signals_first();
    return found > 0 ? EXIT_CODE_OK : EXIT_CODE_OOM;
}

/* Make a box for each model, batch and profile. Owner of *out: the caller, free. */
static dt_status make_map(const struct plan_options *o, struct map *map, struct map_box **out, int *count)
{
    const char *none = NULL, *names[MAP_VALUES], **profiles = names;
    int profile_count;
    if (o->measure || o->rounds)
        return dt_fail(DT_ERR_INVALID, "--measure runs the best plans of one search: leave out --map and --profiles");
    if (o->profiles && o->planner.profile)
        return dt_fail(DT_ERR_INVALID, "--profile and --profiles both name the software: give one of them");
    DT_TRY(map_read(&o->map, &o->planner, map));
    DT_TRY(read_profiles(o->profiles, map->profiles, names, &profile_count));
    if (profile_count == 0) {
        profiles = &none;
        profile_count = 1;
    }
    *count = map->model_count * map->batch_count * profile_count;
    struct map_box *box = *out = calloc((size_t)*count, sizeof **out);
    DT_TRY(dt_allocated(box, "no host memory for a map"));
    for (int m = 0; m < map->model_count; m++)
        for (int b = 0; b < map->batch_count; b++)
            for (int p = 0; p < profile_count; p++)
                *box++ = (struct map_box){.model = map->models[m], .batch = map->batches[b], .profile = profiles[p]};
    return check_boxes(o, *out, count);
}

static int run_map(const struct plan_options *o, double limit_s)
{
    DT_FREED struct map *map = malloc(sizeof *map);
    DT_FREED struct map_box *boxes = NULL;
    int count = 0;
    dt_status status = dt_allocated(map, "no host memory for a map");
    DT_THEN(status, make_map(o, map, &boxes, &count));
    return status < 0 ? report_failure("plan", EXIT_CODE_CONFIG) : write_map(o, limit_s, boxes, count);
}

/* ---- the command ---- */

/* Sort the arguments that are not options: the config, or more axes of --map. Errors:
 * DT_ERR_INVALID with one line. */
static dt_status sort_texts(struct plan_options *o)
{
    for (int i = 0; i < o->texts.count; i++) {
        const char *text = o->texts.items[i];
        if (o->map.count > 0 && o->map.count < OPTION_LIST_MAX && strchr(text, '=') && access(text, F_OK) != 0)
            o->map.items[o->map.count++] = text;
        else if (o->planner.file)
            return dt_fail(DT_ERR_INVALID, "%.80s: expected at most one config file", text);
        else
            o->planner.file = text;
    }
    return DT_OK;
}

static int run(int argc, char **argv)
{
    struct plan_options o = {0};
    DT_DESTROYED(planner_destroy) struct planner *p = NULL;
    double limit_s = 0;
    int code;
    if (!options_begin(&command_plan, argc, argv, &o, NULL, &code))
        return code;
    if (sort_texts(&o) < 0)
        return report_failure("plan", EXIT_CODE_USAGE);
    if (restrict_to_framework(&o) < 0)
        return report_failure("plan", EXIT_CODE_CONFIG);
    if (read_seconds(o.seconds ? o.seconds : DEFAULT_SECONDS, &limit_s) < 0)
        return report_failure("plan", EXIT_CODE_CONFIG);
    signals_install(); /* before the space is made, which may take a second: Ctrl-C then still ends with the best plan so far */
    if (!o.quiet)
        rates_note(o.planner.rates, NULL);
    if (o.map.count > 0 || o.profiles)
        return run_map(&o, limit_s);
    if (planner_create(&o.planner, &p) < 0)
        return report_failure("plan", EXIT_CODE_CONFIG);
    struct measuring wanted;
    return read_measure(&o, p, &wanted) < 0 ? report_failure("plan", EXIT_CODE_CONFIG) : run_plan(&o, p, &wanted, limit_s);
}

const struct command command_plan = {
    .name = "plan",
    .summary = "find the best way of training a model on a cluster, and say why",
    .usage = "--model NAME [OPTION]... [FILE]",
    .description =
        "Searches the ways of training a model on a described cluster for the best one: data-parallel modes, shard groups, pipelines and "
        "their orders, batch and micro-batches, what is recomputed or kept on the host, and the rest of what a config can say. What does "
        "not fit the GPUs is left out by its exact bytes. Of the rest, those that could be among the best are simulated: a bound that no "
        "schedule can beat rules out the others. Prints the best ones, why the first is ahead, why others are not, what would change it, "
        "and how far the predictions can be trusted. FILE is a config to start from. Needs no GPU. Ctrl-C ends the search with the best "
        "so far, and so does the time limit (--seconds).",
    .options = options,
    .argument = {"config file", OPTION_LIST, AT(texts), NULL},
    .run = run,
};
