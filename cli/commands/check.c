/* `dtbench check`: size, memory and predicted time of a config, without running it. */
#include "cli/commands/commands.h"

#include "cli/predict/predict.h"
#include "cli/text/text.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct check_options {
    struct config_arguments config;
    bool json, plan;
    const char *times;
    struct plan_times of_passes; /* read from `times` */
};

#define AT(member) offsetof(struct check_options, member)

static const struct option_row options[] = {
    CONFIG_OPTION_ROWS(struct check_options, config),
    CONFIG_SLOW_ROW(struct check_options, config.slow),
    CONFIG_RATES_ROW(struct check_options, config.rates),
    {"json", 'j', OPTION_FLAG, AT(json), NULL, NULL, "print JSON: an array of the resolved experiments with all numbers, in bytes"},
    {"plan", 'p', OPTION_FLAG, AT(plan), NULL, NULL,
     "print what every rank does in a step, one letter for each action; with --json all details"},
    {"times", 't', OPTION_TEXT, AT(times), "TIMES", NULL,
     "with --plan: play the pipeline's passes with these times, in ms, and print how long they take and the bubble; TIMES is "
     "forward=MS,backward_input=MS,backward_weight=MS,send=MS, of a micro-batch through a whole rank and of a message"},
    {0},
};

static dt_status check_options(void *options_read)
{
    struct check_options *o = options_read;
    o->config.passes_only = o->times != NULL;
    if (o->times && !o->plan)
        return dt_fail(DT_ERR_INVALID, "--times goes with --plan");
    DT_TRY(config_arguments_check(&o->config));
    return o->times ? plan_parse_times(o->times, &o->of_passes) : DT_OK;
}

/* Units of the columns, and which optional columns are shown. */
struct scales {
    struct unit flops, bytes, seconds, traffic;
    bool host, timed, communicates;
    const char *counted; /* what a step's throughput counts: "token" */
};

static void add_columns(struct table *t, const struct experiment_columns *columns, const struct scales *scales)
{
    const char *flops = scales->flops.name, *bytes = scales->bytes.name;
    static const char *const names[DT_CATEGORY_COUNT] = {[DT_PARAMETERS] = "params", [DT_GRADIENTS] = "grads",    [DT_OPTIMIZER] = "optim",
                                                         [DT_ACTIVATIONS] = "activ", [DT_COMMUNICATION] = "comm", [DT_WORKSPACE] = "work"};
    if (columns->names_differ)
        table_column(t, TABLE_LEFT | TABLE_KEY, "name");
    table_column(t, TABLE_LEFT | TABLE_KEY, "paradigm");
    table_columns(t, TABLE_RIGHT | TABLE_KEY, "ranks", "batch");
    for (int c = 0; c < columns->count; c++)
        table_column(t, TABLE_RIGHT | TABLE_KEY, "%s", experiment_key_title(columns->fields[c]->path));
    table_column(t, TABLE_RIGHT, "parameters");
    table_column(t, TABLE_RIGHT, "%ss\nper step", scales->counted);
    table_column(t, TABLE_RIGHT, "%s\nper step", flops);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        table_column(t, TABLE_RIGHT | TABLE_UNIT, "%s\n%s", names[c], bytes);
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "total\n%s", bytes);
    if (scales->communicates)
        table_column(t, TABLE_RIGHT | TABLE_UNIT, "traffic\n%s", scales->traffic.name);
    if (scales->host)
        table_column(t, TABLE_RIGHT | TABLE_UNIT, "host\n%s", bytes);
    if (scales->timed)
        table_column(t, TABLE_RIGHT | TABLE_STAYS, "step\n%s", scales->seconds.name);
}

static void number_cell(struct table *table, double value)
{
    if (value == 0)
        table_text(table, "0");
    else
        table_number(table, value);
}

static void add_row(struct table *t, const struct experiment_columns *columns, const struct experiment *e, const struct check *check,
                    const struct scales *scales)
{
    const struct unit *flops = &scales->flops, *bytes = &scales->bytes;
    char text[FORMAT_BYTES];
    experiment_cells(t, e, columns);
    table_text(t, format_count(check->parameters, text));
    table_text(t, format_count(check->units_per_step, text));
    number_cell(t, check->flops_per_step / flops->size);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        number_cell(t, (double)check->usage.device.peak_bytes[c] / bytes->size);
    number_cell(t, (double)check->usage.device.peak_total_bytes / bytes->size);
    if (scales->communicates)
        number_cell(t, (double)step_traffic_all(&check->traffic) / scales->traffic.size);
    if (scales->host)
        number_cell(t, (double)check->usage.host.peak_total_bytes / bytes->size);
    if (scales->timed)
        table_number(t, check->step_s / scales->seconds.size);
}

/* A note, with the number of experiments that have it where it is the first of them. */
struct said {
    const char *text;
    int order, experiment, same;
};

static int compare_texts(const void *left, const void *right)
{
    const struct said *a = left, *b = right;
    int order = strcmp(a->text, b->text);
    return order ? order : a->order - b->order;
}

static int compare_orders(const void *left, const void *right)
{
    const struct said *a = left, *b = right;
    return a->order - b->order;
}

/* Merge notes with the same text into the first of them. Returns how many are left. */
static int say_once(struct said *notes, int count)
{
    int kept = 0;
    qsort(notes, (size_t)count, sizeof *notes, compare_texts);
    for (int i = 0; i < count; i++) {
        if (kept > 0 && strcmp(notes[kept - 1].text, notes[i].text) == 0)
            notes[kept - 1].same++;
        else
            notes[kept++] = notes[i];
    }
    qsort(notes, (size_t)kept, sizeof *notes, compare_orders);
    return kept;
}

static dt_status print_notes(const struct check *checks, int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += checks[i].note_count;
    DT_FREED struct said *notes = malloc(((size_t)all + 1) * sizeof *notes);
    DT_TRY(dt_allocated(notes, "no memory for %d notes", all));
    for (int i = 0, at = 0; i < count; i++)
        for (int n = 0; n < checks[i].note_count; n++, at++)
            notes[at] = (struct said){checks[i].notes[n], at, i, 1};
    int kept = say_once(notes, all);
    for (int i = 0; i < kept; i++) {
        if (notes[i].same == count)
            line_print(stdout, "note: %s", notes[i].text);
        else
            line_print(stdout, "note: experiment %d%s: %s", notes[i].experiment + 1, notes[i].same > 1 ? " and others" : "", notes[i].text);
    }
    return DT_OK;
}

/* "4, 3, 2, 1", or of many ranks the first and the last. */
static void print_pipeline(const struct experiment *e, const struct check_pipeline *p)
{
    enum { SHOWN = 16 };
    struct line line;
    line_begin(&line, stdout);
    line_add(&line, "order %s, %d stages, %d micro-batches: ranks keep ", e->pipeline.order, p->stages,
             e->micro_batches * e->pipeline.chunks);
    for (int i = 0; i < p->stages && p->stages <= SHOWN; i++)
        line_add(&line, "%s%.4g", i ? ", " : "", p->kept[i]);
    if (p->stages > SHOWN)
        line_add(&line, "%.4g (the first) to %.4g (the last)", p->kept[0], p->kept[p->stages - 1]);
    line_add(&line, " micro-batches; bubble %.4f %s%s%s", p->bubble, p->by_source ? "by its closed form" : "when played",
             *p->tried ? "; " : "", p->tried);
    line_end(&line);
}

static bool same_time(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)); /* NaN: unknown */
}

static bool same_stages(const struct check_pipeline *a, const struct check_pipeline *b)
{
    bool same = a->stages == b->stages;
    for (int i = 0; same && i < a->stages; i++)
        same = a->kept[i] == b->kept[i] && memcmp(&a->ranks[i].device, &b->ranks[i].device, sizeof a->ranks[i].device) == 0 &&
               strcmp(a->ranks[i].layers, b->ranks[i].layers) == 0 && a->ranks[i].parameters == b->ranks[i].parameters &&
               a->ranks[i].flops_per_step == b->ranks[i].flops_per_step && same_time(a->ranks[i].compute_s, b->ranks[i].compute_s);
    return same;
}

/* The lines of an order and of stages depend on few columns: each distinct one is printed once. */
static bool is_said(const struct experiment_list *experiments, const struct check *checks, int i, bool stages)
{
    const struct check_pipeline *mine = &checks[i].pipeline;
    bool said = mine->stages == 0;
    for (int k = 0; k < i && !said; k++) {
        const struct check_pipeline *other = &checks[k].pipeline;
        said = stages ? same_stages(other, mine)
                      : other->stages == mine->stages && other->bubble == mine->bubble &&
                            memcmp(other->kept, mine->kept, (size_t)mine->stages * sizeof(double)) == 0 &&
                            experiments->all[k].pipeline.order == experiments->all[i].pipeline.order;
    }
    return said;
}

enum { STAGES_SHOWN = 4 }; /* at most this many experiments' stages are shown; --json has all */

/* The stages of experiment i. */
static dt_status print_stages(const struct experiment_list *experiments, const struct check *checks, int i)
{
    const struct check_pipeline *p = &checks[i].pipeline;
    double most_flops = 0, most_bytes = 0, longest = NAN;
    char text[FORMAT_BYTES];
    for (int s = 0; s < p->stages; s++) {
        most_flops = fmax(most_flops, p->ranks[s].flops_per_step);
        most_bytes = fmax(most_bytes, (double)p->ranks[s].device.peak_total_bytes);
        longest = fmax(longest, p->ranks[s].compute_s);
    }
    struct unit flops = unit_for_flops(most_flops), bytes = unit_for_bytes(most_bytes), seconds = unit_for_seconds(longest);
    struct table *t = table_create();
    table_columns(t, TABLE_RIGHT, "stage", "parameters");
    table_column(t, TABLE_RIGHT, "%s\nper step", flops.name);
    if (!isnan(longest))
        table_column(t, TABLE_RIGHT | TABLE_UNIT, "computes\n%s", seconds.name);
    table_column(t, TABLE_RIGHT, "keeps\nmicro-batches");
    table_column(t, TABLE_RIGHT | TABLE_UNIT, "activ\n%s", bytes.name);
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "total\n%s", bytes.name);
    table_column(t, TABLE_LEFT, "layers");
    for (int s = 0; s < p->stages; s++) {
        table_cell(t, "%d", s);
        table_text(t, format_count(p->ranks[s].parameters, text));
        number_cell(t, p->ranks[s].flops_per_step / flops.size);
        if (!isnan(longest))
            table_number(t, p->ranks[s].compute_s / seconds.size);
        table_cell(t, "%.4g", p->kept[s]);
        number_cell(t, (double)p->ranks[s].device.peak_bytes[DT_ACTIVATIONS] / bytes.size);
        number_cell(t, (double)p->ranks[s].device.peak_total_bytes / bytes.size);
        table_text(t, p->ranks[s].layers);
    }
    printf("\n");
    table_heading(t, "stages of experiment %d, %s", i + 1, paradigm_name(experiments->all[i].paradigm));
    return table_end(t, stdout);
}

/* "replica: all_reduce 1.55 GiB" */
static void print_traffic(const struct check *check, int number)
{
    char text[DT_MEMORY_TEXT];
    struct line line;
    line_begin(&line, stdout);
    line_add(&line, "experiment %d, in a step a rank communicates", number);
    bool any = false;
    for (int group = 0; group < TRAFFIC_GROUPS; group++) {
        bool named = false;
        for (int kind = 0; kind < DT_COMM_KINDS; kind++) {
            uint64_t bytes = check->traffic.bytes[group][kind];
            if (bytes == 0)
                continue;
            line_add(&line, "%s%s%s %s %s",
                     named ? ","
                     : any ? ";"
                           : "",
                     named ? "" : " ", named ? "" : step_traffic_group_name(group), dt_comm_kind_name((enum dt_comm_kind)kind),
                     dt_memory_text(bytes, text));
            any = named = true;
        }
    }
    line_add(&line, "%s", any ? "" : " nothing");
    line_end(&line);
}

static void print_all_traffic(const struct check *checks, int count)
{
    int shown = 0, all = 0;
    for (int i = 0; i < count; i++) {
        all += step_traffic_all(&checks[i].traffic) > 0;
        if (i < STAGES_SHOWN && step_traffic_all(&checks[i].traffic) > 0) {
            print_traffic(&checks[i], i + 1);
            shown++;
        }
    }
    if (shown < all)
        line_print(stdout, "what a rank communicates: shown for %d of %d experiments; --json has all", shown, all);
}

static dt_status print_pipelines(const struct experiment_list *experiments, const struct check *checks)
{
    int count = experiments->count, shown = 0;
    for (int i = 0; i < count; i++)
        if (!is_said(experiments, checks, i, false))
            print_pipeline(&experiments->all[i], &checks[i].pipeline);
    for (int i = 0; i < count; i++) {
        if (is_said(experiments, checks, i, true))
            continue;
        if (shown < STAGES_SHOWN)
            DT_TRY(print_stages(experiments, checks, i));
        shown++;
    }
    if (shown > STAGES_SHOWN) {
        printf("\n");
        line_print(stdout, "stages: shown for %d of %d experiments; --json has all", STAGES_SHOWN, shown);
    }
    if (shown > 0)
        printf("\n");
    return DT_OK;
}

static void add_heading(struct table *t, const struct experiment *e)
{
    const struct dt_model *m = &e->model;
    struct dt_model_texts texts = dt_model_texts(m);
    table_heading(t, "%s: %s%s%s, %s, %s", e->name, m->preset, *m->preset ? ", " : "", texts.sizes, texts.sample, dt_dtype_name(m->dtype));
}

static dt_status print_table(const struct experiment_list *experiments, const struct check *checks)
{
    int count = experiments->count;
    struct experiment_columns columns;
    struct predictions predictions = {0};
    char text[PREDICTIONS_BYTES];
    double most_flops = 0, most_bytes = 0, longest = 0, most_traffic = 0;
    struct scales scales = {0}; /* a column only where something is offloaded, and where a time is known */
    for (int i = 0; i < count; i++) {
        most_flops = fmax(most_flops, checks[i].flops_per_step);
        most_bytes = fmax(most_bytes, (double)checks[i].usage.device.peak_total_bytes);
        longest = fmax(longest, checks[i].step_s);
        most_traffic = fmax(most_traffic, (double)step_traffic_all(&checks[i].traffic));
        const char *counted = experiments->all[i].model.family->unit;
        scales.counted = !scales.counted || strcmp(scales.counted, counted) == 0 ? counted : "unit";
        scales.host |= checks[i].usage.host.peak_total_bytes > 0;
        scales.timed |= !isnan(checks[i].step_s);
    }
    scales.flops = unit_for_flops(most_flops);
    scales.bytes = unit_for_bytes(most_bytes);
    scales.seconds = unit_for_seconds(longest);
    scales.traffic = unit_for_bytes(most_traffic);
    scales.communicates = most_traffic > 0;
    experiment_columns_find(experiments->all, experiments->count, &columns);
    struct table *table = table_create();
    add_columns(table, &columns, &scales);
    for (int i = 0; i < count; i++) {
        const struct experiment *e = &experiments->all[i];
        add_row(table, &columns, e, &checks[i], &scales);
        if (experiment_is_simulated(e)) /* other devices predict no step time */
            predictions_add(&predictions, e);
    }
    if (!columns.models_differ && !columns.names_differ)
        add_heading(table, &experiments->all[0]);
    dt_status status = table_end(table, stdout);
    printf("\n");
    line_print(stdout, "%d experiment%s; memory is the peak of the rank that needs the most", count, count > 1 ? "s" : "");
    if (scales.timed)
        line_print(stdout, "the step is %s", predictions_describe(&predictions, text));
    DT_THEN(status, print_pipelines(experiments, checks));
    print_all_traffic(checks, count);
    return status == DT_OK ? print_notes(checks, count) : status;
}

/* times: of the passes, which are then played; NULL: none. */
static dt_status print_plans(const struct experiment_list *experiments, const struct plan_times *times, bool json)
{
    if (json)
        return times ? plan_print_times_json(experiments, times, stdout) : plan_print_json(experiments, stdout);
    for (int i = 0; i < experiments->count; i++) {
        const struct experiment *e = &experiments->all[i];
        if (i > 0)
            printf("\n");
        DT_TRY(times ? plan_print_times(e, times, stdout) : plan_print(e, terminal_width(stdout), stdout));
    }
    return DT_OK;
}

/* Check the simulated machine, and what its framework would train, although --plan uses neither. */
static dt_status check_simulated(const struct experiment *e, struct simulated_machine *machine)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    DT_TRY(simulated_system_create_next(machine, e, &system));
    return e->passes_only ? DT_OK : simulated_system_check_stages(system, e);
}

/* Check all experiments. Neighbours in a sweep that have the same prediction are predicted once.
 * checks: NULL to learn only whether the experiments on device sim are possible. */
static dt_status check_all(const struct experiment_list *experiments, struct check *checks)
{
    int count = experiments->count;
    DT_FREED struct simulated_machine *machine = calloc(1, sizeof *machine);
    dt_status status = dt_allocated(machine, "no memory for a cluster");
    for (int i = 0; status == DT_OK && i < count; i++) {
        const struct experiment *e = &experiments->all[i];
        bool again = i > 0 && experiment_predicted_alike(e, e - 1);
        if (checks)
            status = again ? check_copy(&checks[i - 1], &checks[i]) : check_experiment(e, machine, &checks[i]);
        else if (!again && experiment_is_simulated(e))
            status = check_simulated(e, machine);
        if (status < 0 && count > 1)
            dt_fail(status, "experiment %d of %d: %s", i + 1, count, dt_error_message());
    }
    return status;
}

static int print_checks(const struct experiment_list *experiments, bool json)
{
    int count = experiments->count;
    DT_FREED struct check *checks = calloc((size_t)count, sizeof *checks);
    dt_status status = checks ? check_all(experiments, checks) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for %d checks", count);
    DT_THEN(status, json ? check_print_json(experiments, checks, stdout) : print_table(experiments, checks));
    bool fits = true;
    for (int i = 0; checks && i < count; i++) {
        fits &= checks[i].fits;
        check_finish(&checks[i]);
    }
    if (status < 0)
        return report_wrong("check", status);
    return fits ? EXIT_CODE_OK : EXIT_CODE_OOM;
}

static int run(int argc, char **argv)
{
    struct check_options o = {0};
    DT_DESTROYED(experiment_list_destroy) struct experiment_list *experiments = NULL;
    int code;
    if (!options_begin(&command_check, argc, argv, &o, check_options, &code))
        return code;
    if (config_arguments_read(&o.config, &experiments) < 0)
        return report_failure("check", EXIT_CODE_CONFIG);
    config_note_left_out(experiments);
    rates_note(experiments->all[0].rates, experiments->all[0].directory);
    if (o.plan) {
        dt_status status = check_all(experiments, NULL);
        DT_THEN(status, print_plans(experiments, o.times ? &o.of_passes : NULL, o.json));
        code = status == DT_OK ? EXIT_CODE_OK : report_wrong("check", status);
    } else {
        code = print_checks(experiments, o.json);
    }
    return code;
}

const struct command command_check = {
    .name = "check",
    .summary = "check a config: its experiments, their size, and the memory they will need",
    .usage = "[OPTION]... FILE",
    .description =
        "Reads a config as dtbench run does and prints its experiments, completed with defaults: the parameters of the model, the tokens "
        "and floating-point operations of a step over all ranks, and the peak memory of the rank that needs the most, by category. "
        "Categories have their peaks at different times, so that the total is less than their sum. Where something is offloaded, 'host' "
        "is the peak of host memory. On device sim the time of a step is predicted, and on the cpu where a calibration of this machine "
        "(dtbench calibrate) is in the current directory or in the config's folder. Needs no device, MPI or GPU, whatever the config asks "
        "for. "
        "A config that is wrong gives one line and exit code 3; an experiment that would run out of memory exit code 5, as its run would.",
    .options = options,
    .argument = {"config file", OPTION_TEXT, AT(config.file), NULL},
    .run = run,
};
