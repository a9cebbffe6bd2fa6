#include "cli/records/show.h"

#include "cli/records/mllog.h"
#include "lib/base/places.h"
#include "lib/base/text.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *show_format_name(enum show_format format)
{
    static const char *const names[] = {
        [SHOW_TABLE] = "table", [SHOW_CSV] = "csv", [SHOW_JSON] = "json", [SHOW_MARKDOWN] = "markdown", [SHOW_MLLOG] = "mllog"};
    return format < SHOW_FORMATS ? names[format] : NULL;
}

/* ---- what is shown where nobody asks for columns: rates, and these ---- */

static const struct usual {
    const char *name;
    bool if_any;      /* only where some experiment has more than 0 of it */
    bool stays;       /* also where all have the same */
    const char *with; /* only where some has more than 0 of this */
} usual[] = {
    {"step_s.median", false, true, NULL},
    {"mfu", true, false, NULL},
    {"scaling_efficiency", true, false, NULL},
    {"step_s.cv", false, false, NULL},
    {"peak_bytes.total", false, false, NULL},
    {"host_peak_bytes.total", true, false, NULL},
    {"comm_bytes", true, false, NULL},
    {"bubble", true, false, NULL},
    {"exposed_comm_s", false, false, NULL},
    {"aco_ms_per_sample", false, false, NULL},
    {"save_s", true, false, NULL},
    {"training_s", false, false, "save_s"},
};
enum { USUAL = sizeof usual / sizeof *usual };

/* Is `name` in the list, alone or with its main part left out: "step_s" for step_s.median? */
static bool is_in(const char *list, const char *name)
{
    for (const char *part = list; list; part++) {
        part += *part == '-';
        size_t bytes = strcspn(part, ",!=<>");
        if (strncmp(name, part, bytes) == 0 &&
            (!name[bytes] || strcmp(name + bytes, ".median") == 0 || strcmp(name + bytes, ".total") == 0))
            return true;
        part += strcspn(part, ",");
        if (!*part)
            break;
    }
    return false;
}

bool show_wish(const void *context, const char *name)
{
    static const char facts[] = "device_name,git_commit,doubts";
    const struct show_options *o = context;
    bool wanted =
        dt_metric_named(name).is_rate || is_in(facts, name) || is_in(o->columns, name) || is_in(o->sort, name) || is_in(o->best, name);
    for (int i = 0; i < USUAL && !wanted; i++)
        wanted = strcmp(usual[i].name, name) == 0;
    for (int i = 0; i < o->where.count && !wanted; i++)
        wanted = is_in(o->where.items[i], name);
    return wanted;
}

/* ---- columns ---- */

enum cell_kind { CELL_VALUE, CELL_LOSS, CELL_DIFFERENCE, CELL_RUNS, CELL_SPREAD, CELL_LEAD, CELL_NEXT, CELL_STATUS };

struct column {
    enum cell_kind kind;
    int column;                   /* of the results; -1: none */
    const char *name;             /* in CSV and JSON */
    struct dt_metric_name metric; /* of a metric */
    struct unit unit;             /* in which a table shows it */
    int flags;
};

enum { SHOWN_MAX = 30 };

/* A line that is shown; of several that are compared the fastest, and how far it leads. */
struct shown {
    int line, next; /* next: the second; -1: it is alone */
    int first;      /* of the lines that are compared, the first */
    struct comparison judged;
};

struct show {
    const struct results *results;
    const struct show_options *options;
    struct result_lines lines;
    struct shown *shown; /* [shown_count] owned */
    int shown_count;
    struct column columns[SHOWN_MAX];
    int column_count;
    int device, doubts; /* columns of the results, which each line is asked for; -1: none */
    bool several_runs;
};

static struct column *add_column(struct show *s, enum cell_kind kind, int column, const char *name, int flags)
{
    if (s->column_count == SHOWN_MAX)
        s->column_count--; /* of a sweep over that many keys: the last column is left out */
    struct column *c = &s->columns[s->column_count++];
    *c = (struct column){kind, column, name, {{0}, {0}, 0, 0, 0, 0}, {"", 1}, flags};
    return c;
}

static double largest(const struct show *s, int column)
{
    double most = 0;
    for (int i = 0; i < s->shown_count; i++)
        most = fmax(most, result_line_number(&s->lines, s->shown[i].line, column));
    return most;
}

static void add_metric(struct show *s, int column, int flags)
{
    struct column *c = add_column(s, CELL_VALUE, column, results_name(s->results, column), TABLE_RIGHT | flags);
    c->metric = dt_metric_named(c->name);
    if (c->metric.is_fraction)
        c->unit = (struct unit){"%", 0.01};
    else if (c->metric.is_seconds)
        c->unit = unit_for_seconds(largest(s, column));
    else if (c->metric.is_bytes)
        c->unit = unit_for_bytes(largest(s, column));
    else
        c->unit.name = c->metric.unit;
}

static void add_key(struct show *s, int column, int flags)
{
    const char *name = results_name(s->results, column);
    enum result_part part = results_part(s->results, column);
    if (part == RESULT_OF_METRICS)
        add_metric(s, column, flags);
    else if (strcmp(name, "status") == 0)
        add_column(s, CELL_STATUS, column, name, TABLE_LEFT | flags);
    else if (strncmp(name, "losses.", 7) == 0)
        add_column(s, CELL_LOSS, column, name, TABLE_RIGHT | flags);
    else
        add_column(s, CELL_VALUE, column, name, (part == RESULT_OF_CONFIG ? TABLE_RIGHT | TABLE_KEY : TABLE_LEFT) | flags);
}

static int row_at(const struct show *s, int shown)
{
    return result_line_row(&s->lines, s->shown[shown].line);
}

/* Has one line another value than one before it, also of those that are not shown? Lines without a value have no part in that. */
static bool differs(const struct show *s, int column)
{
    int first = -1;
    if (!results_differs(s->results, column))
        return false;
    for (int i = 0; i < s->lines.count; i++) {
        int row = result_line_row(&s->lines, i);
        if (results_kind(s->results, row, column) == RESULT_NONE)
            continue;
        if (first >= 0 && !results_same(s->results, first, row, column))
            return true;
        first = first < 0 ? row : first;
    }
    return false;
}

/* Does its value follow from that of another key that differs, too: a model's sizes from its preset? */
static bool follows(const struct show *s, int column)
{
    for (int c = 0; c < results_columns(s->results); c++)
        if (results_part(s->results, c) == RESULT_OF_CONFIG && differs(s, c) &&
            experiment_field_follows(results_name(s->results, column), results_name(s->results, c)))
            return true;
    return false;
}

static void add_by_name(struct show *s, const char *name, int flags)
{
    int column = results_find(s->results, name);
    if (column >= 0)
        add_key(s, column, flags);
}

/* Columns for the config's keys that differ between the experiments, name and sizes first. */
static void add_config(struct show *s)
{
    static const char first[] = "name,paradigm,world_size,batch_size";
    int name = results_find(s->results, "name"), added = 0;
    if (name >= 0 && differs(s, name))
        add_column(s, CELL_VALUE, name, "name", TABLE_LEFT | TABLE_KEY);
    int paradigm = results_find(s->results, "paradigm");
    if (paradigm >= 0)
        add_column(s, CELL_VALUE, paradigm, "paradigm", TABLE_LEFT | TABLE_KEY);
    add_by_name(s, "world_size", 0);
    add_by_name(s, "batch_size", 0);
    for (int c = 0; c < results_columns(s->results) && added < COLUMNS_MAX; c++) {
        if (results_part(s->results, c) != RESULT_OF_CONFIG || is_in(first, results_name(s->results, c)) || !differs(s, c) || follows(s, c))
            continue;
        add_key(s, c, 0);
        added++;
    }
}

static void add_usual(struct show *s)
{
    int samples = results_find(s->results, "samples_per_s"), rate = result_lines_rate(&s->lines);
    for (int c = 0; c < results_columns(s->results); c++)
        if (results_part(s->results, c) == RESULT_OF_METRICS && dt_metric_named(results_name(s->results, c)).is_rate &&
            results_has_values(s->results, c) && (c != samples || c == rate))
            add_metric(s, c, TABLE_STAYS);
    for (int i = 0; i < USUAL; i++) {
        int column = results_find(s->results, usual[i].name);
        const char *asked = usual[i].with ? usual[i].with : usual[i].if_any ? usual[i].name : NULL;
        if (column >= 0 && (!asked || largest(s, results_find(s->results, asked)) > 0))
            add_metric(s, column, usual[i].stays ? TABLE_STAYS : 0);
    }
}

static void add_rest(struct show *s)
{
    static const char *const ends[] = {"losses.first", "losses.last"};
    int error = results_find(s->results, "verification.largest_relative_difference");
    for (int i = 0; i < 2; i++)
        add_by_name(s, ends[i], 0);
    if (error >= 0 && results_has_values(s->results, error))
        add_column(s, CELL_DIFFERENCE, error, "verification.largest_relative_difference", TABLE_RIGHT);
    static const char *const builds[] = {"device_name", "git_commit"};
    for (int i = 0; i < 2; i++) {
        int column = results_find(s->results, builds[i]);
        if (column >= 0 && differs(s, column))
            add_key(s, column, 0);
    }
    add_by_name(s, "status", 0);
}

/* keys get the columns that `names` says, comma-separated. Errors: DT_ERR_INVALID. */
static dt_status read_keys(const struct results *r, const char *names, int keys[SHOWN_MAX], int *count)
{
    *count = 0;
    for (const char *name = names;; name++) {
        char text[128];
        if (*count == SHOWN_MAX)
            return dt_fail(DT_ERR_INVALID, "more than %d keys: name those that matter", SHOWN_MAX);
        size_t bytes = strcspn(name, ",");
        snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : sizeof text - 1), name);
        DT_TRY(results_find_named(r, text, &keys[(*count)++]));
        name += bytes;
        if (!*name)
            break;
    }
    return DT_OK;
}

static dt_status add_named(struct show *s, const char *names, int flags)
{
    int keys[SHOWN_MAX], count;
    DT_TRY(read_keys(s->results, names, keys, &count));
    for (int i = 0; i < count; i++)
        add_key(s, keys[i], flags);
    return DT_OK;
}

static dt_status choose_columns(struct show *s)
{
    const struct show_options *o = s->options;
    for (int i = 0; i < s->shown_count; i++)
        s->several_runs |= s->lines.lines[s->shown[i].line].runs > 1;
    if (o->columns) {
        DT_TRY(add_named(s, o->columns, TABLE_STAYS));
    } else {
        add_config(s);
        if (s->several_runs)
            add_column(s, CELL_RUNS, -1, "runs", TABLE_RIGHT);
        add_usual(s);
        if (s->several_runs)
            add_column(s, CELL_SPREAD, -1, "spread", TABLE_RIGHT)->unit = (struct unit){"%", 0.01};
    }
    if (o->best) {
        add_column(s, CELL_LEAD, -1, "lead", TABLE_RIGHT | TABLE_STAYS);
        add_column(s, CELL_NEXT, -1, "next", TABLE_LEFT | TABLE_STAYS);
    }
    if (!o->columns)
        add_rest(s);
    return DT_OK;
}

/* ---- the fastest of those that have the same values of some keys ---- */

/* The steps of a line's runs, each in seconds per unit of work: batches may differ. Errors: those of results_record. */
static dt_status read_steps(const struct show *s, int line, int rate, struct compare_steps *out)
{
    const struct result_line *its = &s->lines.lines[line];
    out->run_s = malloc((size_t)its->runs * sizeof *out->run_s);
    DT_TRY(dt_allocated(out->run_s, "no memory for steps"));
    for (int i = 0; i < its->runs; i++) {
        int row = s->lines.rows[its->begin + i], count;
        struct cJSON *record;
        double *step_s;
        DT_TRY(results_record(s->results, row, &record));
        const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(record, "metrics"),
                    *step = cJSON_GetObjectItemCaseSensitive(metrics, "step_s");
        dt_status status = dt_json_read_numbers(cJSON_GetObjectItemCaseSensitive(step, "all"), &step_s, &count);
        dt_json_destroy(record);
        DT_TRY(status);
        double median_s = results_number(s->results, row, results_find(s->results, "step_s")),
               units = results_number(s->results, row, rate) * median_s;
        double *all = realloc(out->step_s, ((size_t)out->count + (size_t)count + 1) * sizeof *all);
        if (!all) {
            free(step_s);
            return dt_fail(DT_ERR_HOST_MEMORY, "no memory for steps");
        }
        out->step_s = all;
        for (int k = 0; k < count; k++)
            all[out->count++] = step_s[k] / units;
        out->run_s[out->runs++] = median_s / units;
        free(step_s);
    }
    return DT_OK;
}

static bool is_simulated(const struct show *s, int line)
{
    char number[32];
    return s->device >= 0 && strcmp(results_text(s->results, result_line_row(&s->lines, line), s->device, number), "sim") == 0;
}

/* By how much a line leads the next one. */
static dt_status judge_lead(const struct show *s, int rate, struct shown *lead)
{
    const struct compare_options how = {0};
    struct comparison *judged = &lead->judged;
    judged->ratio = (struct dt_ratio){NAN, NAN, NAN, 1};
    if (lead->next < 0)
        return DT_OK;
    DT_TRY(read_steps(s, lead->next, rate, &judged->base_steps));
    DT_TRY(read_steps(s, lead->line, rate, &judged->new_steps));
    DT_TRY(compare_judge_steps(judged, is_simulated(s, lead->line) && is_simulated(s, lead->next), &how));
    if (isnan(judged->ratio.ratio))
        judged->ratio.ratio = result_line_number(&s->lines, lead->line, rate) / result_line_number(&s->lines, lead->next, rate);
    return DT_OK;
}

/* A line's rate; one that did not end well has none. */
static double rate_of(const struct show *s, int line, int rate)
{
    double value = result_line_is_ok(&s->lines, line) ? result_line_number(&s->lines, line, rate) : NAN;
    return isnan(value) ? -1 : value;
}

/* Of the lines at places [count] the fastest and the second. */
static struct shown find_fastest(const struct show *s, const struct dt_place *places, int count, int rate)
{
    struct shown found = {.line = places[0].at, .next = -1, .first = places[0].at};
    for (int i = 1; i < count; i++) {
        double its = rate_of(s, places[i].at, rate);
        if (its > rate_of(s, found.line, rate)) {
            found.next = rate_of(s, found.line, rate) > 0 ? found.line : -1;
            found.line = places[i].at;
        } else if (its > 0 && (found.next < 0 || its > rate_of(s, found.next, rate))) {
            found.next = places[i].at;
        }
    }
    return found;
}

static int by_first(const void *left, const void *right)
{
    return ((const struct shown *)left)->first - ((const struct shown *)right)->first;
}

/* Show only the fastest line of those that have the same values of the keys, in the order in which the first of them came. */
static dt_status show_best(struct show *s)
{
    int keys[SHOWN_MAX], key_count, rate = result_lines_rate(&s->lines);
    DT_TRY(read_keys(s->results, s->options->best, keys, &key_count));
    if (rate < 0)
        return dt_fail(DT_ERR_INVALID, "--best %.80s: no record has a rate, so that none is the fastest", s->options->best);
    struct dt_place *places = malloc(((size_t)s->lines.count + 1) * sizeof *places);
    DT_TRY(dt_allocated(places, "no memory for %d lines", s->lines.count));
    for (int i = 0; i < s->lines.count; i++) {
        uint64_t key = dt_hash_fnv1a("", 0);
        char number[32];
        for (int k = 0; k < key_count; k++) {
            const char *text = results_text(s->results, result_line_row(&s->lines, i), keys[k], number);
            key = dt_hash_fnv1a_more(key, text, strlen(text) + 1);
        }
        places[i] = (struct dt_place){key, i};
    }
    dt_places_sort(places, s->lines.count);
    s->shown_count = 0;
    for (int begin = 0, end; begin < s->lines.count; begin = end) {
        end = dt_places_end(places, s->lines.count, begin);
        s->shown[s->shown_count++] = find_fastest(s, places + begin, end - begin, rate);
    }
    free(places);
    qsort(s->shown, (size_t)s->shown_count, sizeof *s->shown, by_first);
    for (int i = 0; i < s->shown_count; i++)
        DT_TRY(judge_lead(s, rate, &s->shown[i]));
    return DT_OK;
}

/* ---- cells ---- */

enum { CELL_BYTES = 512 };

/* What the second has of the keys in which it differs from the fastest: "order zb_h1, chunks 8". */
static void describe_next(const struct show *s, const struct shown *lead, char *text)
{
    int row = result_line_row(&s->lines, lead->line), next = result_line_row(&s->lines, lead->next);
    size_t used = 0;
    *text = 0;
    for (int c = 0; c < results_columns(s->results) && used + 1 < CELL_BYTES; c++) {
        char number[32], value[VALUE_BYTES];
        bool none = results_kind(s->results, next, c) == RESULT_NONE || results_kind(s->results, row, c) == RESULT_NONE;
        if (results_part(s->results, c) != RESULT_OF_CONFIG || none || results_same(s->results, row, next, c) || follows(s, c))
            continue;
        const char *name = results_name(s->results, c);
        experiment_text_shown(results_text(s->results, next, c, number), value);
        used += (size_t)snprintf(text + used, CELL_BYTES - used, "%s%s%s%s", used ? ", " : "",
                                 strcmp(name, "paradigm") ? experiment_key_title(name) : "", strcmp(name, "paradigm") ? " " : "", value);
    }
}

/* "12.3 % (10.1 to 14.4)" */
static void describe_lead(const struct comparison *judged, char *text)
{
    const struct dt_ratio *ratio = &judged->ratio;
    bool interval = ratio->low < ratio->high;
    if (interval)
        snprintf(text, CELL_BYTES, "%.1f %% (%.1f to %.1f)%s", (ratio->ratio - 1) * 100, (ratio->low - 1) * 100, (ratio->high - 1) * 100,
                 judged->verdict == COMPARE_UNCLEAR ? " unclear" : "");
    else
        snprintf(text, CELL_BYTES, "%.1f %%%s", (ratio->ratio - 1) * 100, judged->verdict == COMPARE_UNCLEAR ? " unclear" : "");
}

static void describe_loss(double loss, char *text)
{
    if (!isnan(loss))
        snprintf(text, CELL_BYTES, fabs(loss) < 1e6 ? "%.4f" : "%.4e", loss);
}

/* A cell for people. */
static void describe(const struct show *s, int shown, const struct column *c, char text[CELL_BYTES])
{
    const struct shown *its = &s->shown[shown];
    int row = row_at(s, shown);
    char number[FORMAT_BYTES];
    *text = 0;
    switch (c->kind) {
    case CELL_VALUE:
        if (*c->metric.unit || results_part(s->results, c->column) == RESULT_OF_METRICS)
            format_number(result_line_number(&s->lines, its->line, c->column) / c->unit.size, text);
        else if (results_kind(s->results, row, c->column) != RESULT_NONE)
            experiment_text_shown(results_text(s->results, row, c->column, number), text);
        break;
    case CELL_LOSS: describe_loss(results_number(s->results, row, c->column), text); break;
    case CELL_DIFFERENCE:
        if (results_kind(s->results, row, c->column) == RESULT_NUMBER)
            snprintf(text, CELL_BYTES, "%.1e", results_number(s->results, row, c->column));
        break;
    case CELL_RUNS: snprintf(text, CELL_BYTES, "%d", s->lines.lines[its->line].runs); break;
    case CELL_SPREAD: format_number(result_line_spread(&s->lines, its->line) / c->unit.size, text); break;
    case CELL_LEAD:
        if (its->next >= 0)
            describe_lead(&its->judged, text);
        break;
    case CELL_NEXT:
        if (its->next >= 0)
            describe_next(s, its, text);
        break;
    case CELL_STATUS: snprintf(text, CELL_BYTES, "%s", results_text(s->results, row, c->column, number)); break;
    }
    if (!*text)
        strcpy(text, "-");
}

static const char *doubts_of(const struct show *s, int row)
{
    char number[32];
    return s->doubts < 0 ? "" : results_text(s->results, row, s->doubts, number);
}

/* ---- as a table ---- */

static void print_titles(const struct show *s, struct table *t)
{
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        bool is_metric = c->column >= 0 && results_part(s->results, c->column) == RESULT_OF_METRICS;
        const char *title = c->name, *unit = c->unit.name, *per = strchr(unit, '/'); /* on a third line */
        if (is_metric)
            title = c->metric.title;
        if ((c->flags & TABLE_KEY) && (strcmp(title, "name") == 0 || strcmp(title, "paradigm") == 0)) { /* on the left */
            table_column(t, c->flags, "%s", title);
        } else if (c->flags & TABLE_KEY) {
            experiment_key_column(t, title);
        } else if (c->kind == CELL_LOSS) {
            table_column(t, c->flags, "loss\n%s", strrchr(title, '.') + 1);
        } else if (c->kind == CELL_DIFFERENCE) {
            table_column(t, c->flags, "verified\nto");
        } else if (!*title && per) { /* a rate */
            table_column(t, c->flags | TABLE_UNIT, "%.*s\n%s", (int)(per - unit), unit, per);
        } else {
            int length = per ? (int)(per - unit) : (int)strlen(unit);
            table_column(t, c->flags | (*unit ? TABLE_UNIT : 0), "%s%s%.*s%s%s", title, *unit ? "\n" : "", length, unit, per ? "\n" : "",
                         per ? per : "");
        }
    }
}

static enum colour colour_of(const struct show *s, int shown)
{
    if (!result_line_is_ok(&s->lines, s->shown[shown].line))
        return COLOUR_RED;
    return *doubts_of(s, row_at(s, shown)) ? COLOUR_YELLOW : COLOUR_GREEN;
}

static void print_row(const struct show *s, struct table *t, int shown)
{
    char text[CELL_BYTES];
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        describe(s, shown, c, text);
        if (c->kind == CELL_STATUS && *doubts_of(s, row_at(s, shown)))
            strncat(text, " (!)", sizeof text - strlen(text) - 1);
        table_colour_cell(t, c->kind == CELL_STATUS && s->options->colour ? colour_of(s, shown) : COLOUR_NONE, text);
    }
}

/* text gets a label of a line, of the keys that differ: "ddp, batch 8". */
static void describe_line(const struct show *s, int shown, char text[CELL_BYTES])
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < s->column_count && used + 1 < CELL_BYTES; i++) {
        const struct column *c = &s->columns[i];
        char cell[CELL_BYTES];
        bool is_paradigm = strcmp(c->name, "paradigm") == 0;
        if (!(c->flags & TABLE_KEY) || (!is_paradigm && !differs(s, c->column)))
            continue;
        describe(s, shown, c, cell);
        if (strcmp(cell, "-") != 0)
            used += (size_t)snprintf(text + used, CELL_BYTES - used, "%s%s%s%.100s", used ? ", " : "",
                                     is_paradigm ? "" : experiment_key_title(c->name), is_paradigm ? "" : " ", cell);
    }
}

/* Below the table, a line for each: why an experiment failed, and what speaks against what was measured. */
static void print_remarks(const struct show *s, FILE *to)
{
    int error = results_find(s->results, "error");
    char label[CELL_BYTES], number[32];
    bool first = true;
    for (int i = 0; i < s->shown_count; i++) {
        int row = row_at(s, i);
        const char *doubts = doubts_of(s, row);
        bool failed = !result_line_is_ok(&s->lines, s->shown[i].line);
        if (!failed && !*doubts)
            continue;
        describe_line(s, i, label);
        fputs(first ? "\n" : "", to);
        if (failed)
            line_print(to, "%s: %s: %s", label, results_text(s->results, row, s->lines.status, number),
                       error < 0 ? "" : results_text(s->results, row, error, number));
        if (*doubts)
            line_print(to, "%s: (!) %s", label, doubts);
        first = false;
    }
}

/* What is predicted; "" where nothing is. */
static const char *describe_predictions(const struct show *s, char text[PREDICTIONS_BYTES])
{
    struct predictions all = {0};
    char numbers[2][32];
    int cluster = results_find(s->results, "config.cluster"), profile = results_find(s->results, "config.profile"), last = -1;
    for (int i = 0; i < s->shown_count; i++) {
        int row = row_at(s, i);
        bool simulated = cluster >= 0 && profile >= 0 && is_simulated(s, s->shown[i].line);
        bool again = last >= 0 && results_same(s->results, row, last, cluster) && results_same(s->results, row, last, profile);
        if (simulated && !again)
            predictions_add_files(&all, results_text(s->results, row, cluster, numbers[0]),
                                  results_text(s->results, row, profile, numbers[1]));
        all.measured += !simulated;
        last = simulated ? row : last;
    }
    return predictions_describe(&all, text);
}

static dt_status print_table(const struct show *s, FILE *to)
{
    struct table *t = table_create();
    char predicted[PREDICTIONS_BYTES];
    print_titles(s, t);
    if (s->options->heading)
        table_heading(t, "%s", s->options->heading);
    for (int i = 0; i < s->shown_count; i++)
        print_row(s, t, i);
    if (*describe_predictions(s, predicted))
        line_print(to, "%s", predicted);
    dt_status status = table_end(t, to);
    print_remarks(s, to);
    return status;
}

/* ---- for other programs ---- */

static void put_markdown(const char *foreign, FILE *to)
{
    char text[CELL_BYTES];
    snprintf(text, sizeof text, "%s", foreign);
    text_print_markdown(text, to);
}

static dt_status print_markdown(const struct show *s, FILE *to)
{
    char text[CELL_BYTES], predicted[PREDICTIONS_BYTES];
    for (int i = 0; i < s->column_count; i++) {
        const struct column *c = &s->columns[i];
        const char *title = *c->metric.title ? c->metric.title : *c->metric.unit ? "" : c->name;
        snprintf(text, sizeof text, "%s%s%s", title, *title && *c->unit.name ? ", " : "", c->unit.name);
        fputs("| ", to);
        put_markdown(text, to);
        fputs(" ", to);
    }
    fputs("|\n", to);
    for (int i = 0; i < s->column_count; i++)
        fputs(s->columns[i].flags & TABLE_RIGHT ? "|---:" : "|---", to);
    fputs("|\n", to);
    for (int row = 0; row < s->shown_count; row++) {
        for (int i = 0; i < s->column_count; i++) {
            describe(s, row, &s->columns[i], text);
            fputs("| ", to);
            put_markdown(text, to);
            fputs(" ", to);
        }
        fputs("|\n", to);
    }
    if (*describe_predictions(s, predicted)) {
        fputc('\n', to);
        put_markdown(predicted, to);
        fputc('\n', to);
    }
    return DT_OK;
}

/* A number or a text in units of the record; "" for none. */
static enum result_kind exact(const struct show *s, int shown, const struct column *c, char text[CELL_BYTES])
{
    const struct shown *its = &s->shown[shown];
    double value = NAN;
    char number[32];
    *text = 0;
    switch (c->kind) {
    case CELL_RUNS: value = s->lines.lines[its->line].runs; break;
    case CELL_SPREAD: value = result_line_spread(&s->lines, its->line); break;
    case CELL_LEAD: value = its->judged.ratio.ratio - 1; break;
    case CELL_NEXT:
        if (its->next >= 0)
            describe_next(s, its, text);
        return its->next >= 0 ? RESULT_TEXT : RESULT_NONE;
    default:
        if (results_part(s->results, c->column) != RESULT_OF_METRICS) {
            snprintf(text, CELL_BYTES, "%s", results_text(s->results, row_at(s, shown), c->column, number));
            return results_kind(s->results, row_at(s, shown), c->column);
        }
        value = result_line_number(&s->lines, its->line, c->column);
    }
    if (!isnan(value))
        dt_format_double(value, text, CELL_BYTES);
    return isnan(value) ? RESULT_NONE : RESULT_NUMBER;
}

/* RFC 4180: quotes around what has a comma, a quote or a line's end. */
static void put_csv(const char *text, FILE *to)
{
    bool quoted = strpbrk(text, ",\"\r\n");
    fputs(quoted ? "\"" : "", to);
    for (const char *c = text; *c; c++)
        fputs(*c == '"' ? "\"\"" : (char[]){*c, 0}, to);
    fputs(quoted ? "\"" : "", to);
}

static dt_status print_csv(const struct show *s, FILE *to)
{
    char text[CELL_BYTES];
    for (int i = 0; i < s->column_count; i++)
        fprintf(to, "%s%s", i ? "," : "", s->columns[i].name);
    fputs("\r\n", to);
    for (int row = 0; row < s->shown_count; row++) {
        for (int i = 0; i < s->column_count; i++) {
            exact(s, row, &s->columns[i], text);
            fputs(i ? "," : "", to);
            put_csv(text, to);
        }
        fputs("\r\n", to);
    }
    return DT_OK;
}

static struct cJSON *as_json(enum result_kind kind, const char *text)
{
    switch (kind) {
    case RESULT_NUMBER: return cJSON_CreateNumber(strtod(text, NULL));
    case RESULT_TRUTH: return dt_json_truth(*text == 't');
    case RESULT_TEXT: return dt_json_text(text);
    case RESULT_NONE: break;
    }
    return dt_json_text(NULL);
}

/* An array of objects; with --best also the interval of the lead and what compare says of it. */
static dt_status print_json(const struct show *s, FILE *to)
{
    struct cJSON *rows = dt_json_array();
    char text[CELL_BYTES];
    for (int i = 0; i < s->shown_count; i++) {
        struct cJSON *row = dt_json_object("");
        const struct comparison *judged = &s->shown[i].judged;
        for (int c = 0; c < s->column_count; c++) {
            enum result_kind kind = exact(s, i, &s->columns[c], text);
            dt_json_add(&row, "%s: %p", s->columns[c].name, as_json(kind, text));
        }
        if (s->options->best)
            dt_json_add(&row, "lead_interval: %p, verdict: %p, reason: %p",
                        dt_json_numbers((const double[]){judged->ratio.low - 1, judged->ratio.high - 1}, 2),
                        dt_json_text(s->shown[i].next >= 0 ? compare_verdict_name(judged->verdict) : NULL), dt_json_known(judged->reason));
        dt_json_append(&rows, row);
    }
    return dt_json_write(rows, to);
}

/* Of several runs the last. */
static dt_status print_mllog(const struct show *s, FILE *to)
{
    struct cJSON *record;
    if (s->shown_count != 1)
        return dt_fail(DT_ERR_INVALID, "MLPerf's log is one of one run, and these are %d experiments: --where chooses one", s->shown_count);
    DT_TRY(results_record(s->results, row_at(s, 0), &record));
    dt_status status = mllog_print(record, to);
    dt_json_destroy(record);
    return status;
}

/* ---- all of it ---- */

static dt_status show_lines(struct show *s, FILE *to)
{
    static dt_status (*const print[])(const struct show *, FILE *) = {[SHOW_TABLE] = print_table,
                                                                      [SHOW_CSV] = print_csv,
                                                                      [SHOW_JSON] = print_json,
                                                                      [SHOW_MARKDOWN] = print_markdown,
                                                                      [SHOW_MLLOG] = print_mllog};
    const struct show_options *o = s->options;
    DT_TRY(result_lines_find(s->results, &s->lines));
    if (s->lines.count == 0)
        return dt_fail(DT_ERR_INVALID, "there is no record");
    for (int i = 0; i < o->where.count; i++)
        DT_TRY(result_lines_keep(&s->lines, o->where.items[i]));
    if (s->lines.count == 0)
        return dt_fail(DT_ERR_INVALID, "no record is so: %s%s", o->where.items[0],
                       o->where.count > 1 ? ", and what else --where says" : "");
    if (o->sort)
        DT_TRY(result_lines_sort(&s->lines, o->sort));
    s->shown = calloc((size_t)s->lines.count, sizeof *s->shown);
    DT_TRY(dt_allocated(s->shown, "no memory for %d lines", s->lines.count));
    s->shown_count = s->lines.count;
    for (int i = 0; i < s->shown_count; i++)
        s->shown[i] = (struct shown){.line = i, .next = -1};
    if (o->best)
        DT_TRY(show_best(s));
    DT_TRY(choose_columns(s));
    return print[o->format](s, to);
}

dt_status show_print(const struct results *results, const struct show_options *options, FILE *to)
{
    struct show s = {.results = results,
                     .options = options,
                     .device = results_find(results, "config.device"),
                     .doubts = results_find(results, "doubts")};
    dt_status status = show_lines(&s, to);
    for (int i = 0; s.shown && i < s.shown_count; i++) {
        free(s.shown[i].judged.base_steps.step_s);
        free(s.shown[i].judged.base_steps.run_s);
        free(s.shown[i].judged.new_steps.step_s);
        free(s.shown[i].judged.new_steps.run_s);
    }
    free(s.shown);
    result_lines_finish(&s.lines);
    return status;
}
