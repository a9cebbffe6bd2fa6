#include "cli/records/show_parts.h"

#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "lib/config/words.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *show_format_name(int format)
{
    static const char *const names[] = {
        [SHOW_TABLE] = "table", [SHOW_CSV] = "csv", [SHOW_JSON] = "json", [SHOW_MARKDOWN] = "markdown", [SHOW_MLLOG] = "mllog"};
    return format < SHOW_FORMATS ? names[format] : NULL;
}

/* ---- the usual columns: rates, and these ---- */

static const struct usual {
    const char *name;
    bool if_any;      /* shown only if some experiment has a value above 0 */
    bool stays;       /* shown also if all values are equal */
    const char *with; /* shown only if this metric has a value above 0 somewhere */
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

static struct column *add_column(struct show *s, enum cell_kind kind, int column, const char *name, int flags)
{
    if (s->column_count == SHOWN_MAX)
        s->column_count--; /* too many columns: leave out the last one */
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

static void add_by_name(struct show *s, const char *name, int flags)
{
    int column = results_find(s->results, name);
    if (column >= 0)
        add_key(s, column, flags);
}

static bool tells_apart(const struct show *s, int column)
{
    int columns[SHOWN_MAX];
    for (int c = 0; c < s->column_count; c++)
        columns[c] = s->columns[c].column;
    return result_lines_tell_apart(&s->lines, column, columns, s->column_count);
}

/* Add columns for the config's keys that differ between the experiments, name and sizes first. */
static void add_config(struct show *s)
{
    static const char first[] = "name,paradigm,world_size,batch_size";
    int name = results_find(s->results, "name"), added = 0;
    if (name >= 0 && show_differs(s, name))
        add_column(s, CELL_VALUE, name, "name", TABLE_LEFT | TABLE_KEY);
    int paradigm = results_find(s->results, "paradigm");
    if (paradigm >= 0)
        add_column(s, CELL_VALUE, paradigm, "paradigm", TABLE_LEFT | TABLE_KEY);
    add_by_name(s, "world_size", 0);
    add_by_name(s, "batch_size", 0);
    for (int c = 0; c < results_columns(s->results) && added < COLUMNS_MAX; c++) {
        if (results_part(s->results, c) != RESULT_OF_CONFIG || is_in(first, results_name(s->results, c)) || !show_differs(s, c) ||
            show_follows(s, c))
            continue;
        add_key(s, c, 0);
        added++;
    }
    for (int c = 0; c < results_columns(s->results) && added < COLUMNS_MAX; c++)
        if (results_part(s->results, c) == RESULT_OF_CONFIG && !show_differs(s, c) && result_lines_differ(&s->lines, c, true) &&
            !show_follows(s, c) && tells_apart(s, c)) {
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
        if (column >= 0 && show_differs(s, column))
            add_key(s, column, 0);
    }
    add_by_name(s, "status", 0);
}

/* Find the columns of comma-separated `names`. Errors: DT_ERR_INVALID. */
static dt_status read_keys(const struct results *r, const char *names, int keys[SHOWN_MAX], int *count)
{
    *count = 0;
    for (const char *name = names;; name++) {
        char text[128];
        if (*count == SHOWN_MAX)
            return dt_fail(DT_ERR_INVALID, "more than %d keys: name fewer", SHOWN_MAX);
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

/* ---- the fastest line of each group with the same values of some keys ---- */

/* The steps of a line's runs, each in seconds per unit of work: batches may differ. Errors: those
 * of results_record. */
static dt_status read_steps(const struct show *s, int line, int rate, struct compare_steps *out)
{
    const struct result_line *its = &s->lines.lines[line];
    out->run_s = malloc((size_t)its->runs * sizeof *out->run_s);
    DT_TRY(dt_allocated(out->run_s, "no memory for steps"));
    for (int i = 0; i < its->runs; i++) {
        int row = s->lines.rows[its->begin + i], count;
        DT_DESTROYED(dt_json_destroy) struct cJSON *record = NULL;
        DT_FREED double *step_s = NULL;
        DT_TRY(results_record(s->results, row, &record));
        DT_TRY(dt_json_read_numbers(dt_json_at(record, "metrics.step_s.all"), &step_s, &count));
        double median_s = results_number(s->results, row, results_find(s->results, "step_s")),
               units = results_number(s->results, row, rate) * median_s;
        DT_TRY(
            dt_allocated(dt_resize(&out->step_s, ((size_t)out->count + (size_t)count + 1) * sizeof *out->step_s), "no memory for steps"));
        for (int k = 0; k < count; k++)
            out->step_s[out->count++] = step_s[k] / units;
        out->run_s[out->runs++] = median_s / units;
    }
    return DT_OK;
}

/* Judge how much faster a line is than the next one. */
static dt_status judge_lead(const struct show *s, int rate, struct shown *lead)
{
    const struct compare_options how = {0};
    struct comparison *judged = &lead->judged;
    judged->ratio = (struct dt_ratio){NAN, NAN, NAN, 1};
    if (lead->next < 0)
        return DT_OK;
    DT_TRY(read_steps(s, lead->next, rate, &judged->base_steps));
    DT_TRY(read_steps(s, lead->line, rate, &judged->new_steps));
    DT_TRY(compare_judge_steps(judged, show_is_simulated(s, lead->line) && show_is_simulated(s, lead->next), &how));
    if (isnan(judged->ratio.ratio))
        judged->ratio.ratio = result_line_number(&s->lines, lead->line, rate) / result_line_number(&s->lines, lead->next, rate);
    return DT_OK;
}

/* A line's rate; none if its status is not ok. */
static double rate_of(const struct show *s, int line, int rate)
{
    double value = result_line_is_ok(&s->lines, line) ? result_line_number(&s->lines, line, rate) : NAN;
    return isnan(value) ? -1 : value;
}

/* Find the fastest and the second fastest of the lines at places [count]. */
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

/* Show only the fastest line of each group, in the order of the groups' first lines. */
static dt_status show_best(struct show *s)
{
    int keys[SHOWN_MAX], key_count, rate = result_lines_rate(&s->lines);
    DT_TRY(read_keys(s->results, s->options->best, keys, &key_count));
    if (rate < 0)
        return dt_fail(DT_ERR_INVALID, "--best %.80s: no record has a rate to compare", s->options->best);
    DT_FREED struct dt_place *places = malloc(((size_t)s->lines.count + 1) * sizeof *places);
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
    qsort(s->shown, (size_t)s->shown_count, sizeof *s->shown, by_first);
    for (int i = 0; i < s->shown_count; i++)
        DT_TRY(judge_lead(s, rate, &s->shown[i]));
    return DT_OK;
}

/* ---- all of it ---- */

static dt_status show_lines(struct show *s, FILE *to)
{
    const struct show_options *o = s->options;
    DT_TRY(result_lines_find(s->results, &s->lines));
    if (s->lines.count == 0)
        return dt_fail(DT_ERR_INVALID, "there is no record; tables of measured runs are for dtbench validate --data FILE");
    for (int i = 0; i < o->where.count; i++)
        DT_TRY(result_lines_keep(&s->lines, o->where.items[i]));
    if (s->lines.count == 0)
        return dt_fail(DT_ERR_INVALID, "no record meets the condition: %s%s", o->where.items[0],
                       o->where.count > 1 ? ", and the other conditions of --where" : "");
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
    return show_write(s, to);
}

dt_status show_print(const struct results *results, const struct show_options *options, FILE *to)
{
    struct show s = {.results = results,
                     .options = options,
                     .device = results_find(results, "config.device"),
                     .doubts = results_find(results, "doubts")};
    dt_status status = show_lines(&s, to);
    for (int i = 0; s.shown && i < s.shown_count; i++)
        comparison_finish(&s.shown[i].judged);
    free(s.shown);
    result_lines_finish(&s.lines);
    return status;
}
