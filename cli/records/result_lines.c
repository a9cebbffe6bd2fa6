#include "cli/records/result_lines.h"

#include "cli/text/text.h"
#include "lib/base/grow.h"
#include "lib/base/statistics.h"
#include "lib/config/json.h"
#include "lib/record/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding the rows that are runs of one experiment ---- */

static uint64_t add_to_key(const struct results *r, int row, int column, uint64_t key)
{
    char number[32];
    const char *text = column < 0 ? "" : results_text(r, row, column, number);
    return dt_hash_fnv1a_more(key, text, strlen(text) + 1);
}

static bool is_ok(const struct result_lines *l, int row)
{
    char number[32];
    return strcmp(results_text(l->results, row, l->status, number), "ok") == 0;
}

/* Keep the rows [count] of one experiment that count as its runs: the ok ones, or else the last
 * one. Returns their number. */
static int keep_runs(const struct result_lines *l, int *rows, int count)
{
    int kept = 0, last = rows[count - 1];
    for (int i = 0; i < count; i++)
        if (is_ok(l, rows[i]))
            rows[kept++] = rows[i];
    if (kept == 0)
        rows[kept++] = last;
    return kept;
}

static int by_first_row(const void *left, const void *right, void *context)
{
    const struct result_line *a = left, *b = right;
    const int *first = context;
    return first[a->begin] - first[b->begin];
}

dt_status result_lines_find(const struct results *r, struct result_lines *out)
{
    int count = results_count(r);
    DT_FREED struct dt_place *places = malloc(((size_t)count + 1) * sizeof *places);
    DT_FREED int *first = malloc(((size_t)count + 1) * sizeof *first); /* the first row of the line that begins there */
    const int identity[] = {results_find(r, "config_hash"), results_find(r, "git_commit"), results_find(r, "device_name")};
    *out = (struct result_lines){.results = r,
                                 .status = results_find(r, "status"),
                                 .rows = malloc(((size_t)count + 1) * sizeof *out->rows),
                                 .lines = malloc(((size_t)count + 1) * sizeof *out->lines)};
    DT_TRY(dt_allocated(places && first && out->rows && out->lines, "no memory for %d records", count));
    for (int i = 0; i < count; i++) {
        uint64_t key = dt_hash_fnv1a("", 0);
        for (size_t k = 0; k < sizeof identity / sizeof *identity; k++)
            key = add_to_key(r, i, identity[k], key);
        places[i] = (struct dt_place){key, i};
    }
    dt_places_sort(places, count);
    for (int begin = 0, end; begin < count; begin = end) {
        end = dt_places_end(places, count, begin);
        for (int i = begin; i < end; i++)
            out->rows[i] = places[i].at;
        first[begin] = out->rows[begin];
        out->lines[out->count++] = (struct result_line){begin, keep_runs(out, out->rows + begin, end - begin)};
    }
    qsort_r(out->lines, (size_t)out->count, sizeof *out->lines, by_first_row, first);
    return DT_OK;
}

void result_lines_finish(struct result_lines *l)
{
    free(l->rows);
    free(l->lines);
    *l = (struct result_lines){0};
}

int result_line_row(const struct result_lines *l, int line)
{
    return l->rows[l->lines[line].begin + l->lines[line].runs - 1];
}

bool result_line_is_ok(const struct result_lines *l, int line)
{
    return is_ok(l, result_line_row(l, line));
}

/* The values of all runs, smallest first; how many are known. [runs] */
static int sorted_values(const struct result_lines *l, int line, int column, double *values)
{
    const struct result_line *its = &l->lines[line];
    int known = 0;
    for (int i = 0; i < its->runs; i++) {
        values[known] = results_number(l->results, l->rows[its->begin + i], column);
        known += !isnan(values[known]);
    }
    qsort(values, (size_t)known, sizeof *values, dt_compare_numbers);
    return known;
}

double result_line_number(const struct result_lines *l, int line, int column)
{
    int runs = l->lines[line].runs;
    if (runs == 1 || results_part(l->results, column) != RESULT_OF_METRICS)
        return results_number(l->results, result_line_row(l, line), column);
    DT_FREED double *values = malloc((size_t)runs * sizeof *values);
    int known = values ? sorted_values(l, line, column, values) : 0;
    return known > 0 ? (values[(known - 1) / 2] + values[known / 2]) / 2 : NAN;
}

double result_line_spread(const struct result_lines *l, int line)
{
    int runs = l->lines[line].runs, column = results_find(l->results, "step_s");
    DT_FREED double *values = runs > 1 && column >= 0 ? malloc((size_t)runs * sizeof *values) : NULL;
    int known = values ? sorted_values(l, line, column, values) : 0;
    return known > 1 && values[0] > 0 ? values[known - 1] / values[0] - 1 : NAN;
}

/* ---- conditions ---- */

dt_status results_find_named(const struct results *r, const char *key, int *out)
{
    *out = results_find(r, key);
    const char *nearest = *out < 0 ? results_nearest(r, key) : NULL;
    if (*out >= 0)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID, "'%.80s' is not a key of these records%s%s", key, nearest ? "; did you mean " : "",
                   nearest ? nearest : "");
}

/* Is a value one of the list "a,b"? Numbers are compared as numbers; a file of configs also as
 * tables show it. */
static bool is_one_of(const char *value, enum result_kind kind, const char *list)
{
    char shown[VALUE_BYTES];
    experiment_text_shown(value, shown);
    for (const char *part = list;; part++) {
        size_t bytes = strcspn(part, ",");
        char *end;
        double number = strtod(part, &end);
        bool equal = strlen(value) == bytes && strncmp(value, part, bytes) == 0;
        equal |= kind == RESULT_TEXT && strlen(shown) == bytes && strncmp(shown, part, bytes) == 0;
        if (equal || (kind == RESULT_NUMBER && bytes > 0 && end == part + bytes && number == strtod(value, NULL)))
            return true;
        part += bytes;
        if (!*part)
            return false;
    }
}

static bool holds(const struct result_lines *l, int line, int column, const struct option_condition *c)
{
    char number[32];
    int row = result_line_row(l, line);
    if (option_condition_orders(c))
        return option_condition_holds(c, result_line_number(l, line, column));
    bool is = is_one_of(results_text(l->results, row, column, number), results_kind(l->results, row, column), c->value);
    return is == (c->relation == RELATION_IS);
}

dt_status result_lines_keep(struct result_lines *l, const char *text)
{
    struct option_condition c;
    int kept = 0, column;
    if (!option_condition_read(text, &c))
        return dt_fail(DT_ERR_INVALID, "--where %.80s: expected KEY=VALUE, with one of = != < <= > >= between", text);
    if (option_condition_orders(&c) && isnan(c.number))
        return dt_fail(DT_ERR_INVALID, "--where %.80s: expected a number after '%s'", text, c.sign);
    DT_TRY(results_find_named(l->results, c.key, &column));
    for (int i = 0; i < l->count; i++)
        if (holds(l, i, column, &c))
            l->lines[kept++] = l->lines[i];
    l->count = kept;
    return DT_OK;
}

/* ---- order ---- */

struct sort_key {
    double number;
    const char *text;
    struct result_line line;
    int place;
};

static int by_key(const void *left, const void *right, void *context)
{
    const struct sort_key *a = left, *b = right;
    int sign = *(const bool *)context ? -1 : 1;
    bool numbers = !isnan(a->number) && !isnan(b->number);
    if (!*a->text != !*b->text) /* lines without a value come last */
        return *a->text ? -1 : 1;
    int order = numbers ? (a->number > b->number) - (a->number < b->number) : strcmp(a->text, b->text);
    return order ? sign * order : a->place - b->place;
}

dt_status result_lines_sort(struct result_lines *l, const char *key)
{
    bool descending = *key == '-';
    int column;
    DT_TRY(results_find_named(l->results, key + descending, &column));
    DT_FREED struct sort_key *keys = malloc(((size_t)l->count + 1) * sizeof *keys);
    DT_TRY(dt_allocated(keys, "no memory to sort %d lines", l->count));
    for (int i = 0; i < l->count; i++) {
        char number[32];
        double value = result_line_number(l, i, column);
        const char *text = isnan(value) ? results_text(l->results, result_line_row(l, i), column, number) : "number";
        keys[i] = (struct sort_key){value, text == number ? "" : text, l->lines[i], i};
    }
    qsort_r(keys, (size_t)l->count, sizeof *keys, by_key, &descending);
    for (int i = 0; i < l->count; i++)
        l->lines[i] = keys[i].line;
    return DT_OK;
}

bool result_lines_differ(const struct result_lines *l, int column, bool with_none)
{
    int first = -1;
    for (int i = 0; i < l->count && results_differs(l->results, column); i++) {
        int row = result_line_row(l, i);
        if (!with_none && results_kind(l->results, row, column) == RESULT_NONE)
            continue;
        if (first >= 0 && !results_same(l->results, first, row, column))
            return true;
        first = first < 0 ? row : first;
    }
    return false;
}

bool result_lines_tell_apart(const struct result_lines *l, int column, const int *columns, int count)
{
    enum { NEAR = 64 };
    bool differs = false;
    for (int i = 1; i < l->count && !differs; i++)
        for (int j = i > NEAR ? i - NEAR : 0; j < i && !differs; j++) {
            int row = result_line_row(l, i), other = result_line_row(l, j);
            differs = !results_same(l->results, row, other, column);
            for (int c = 0; c < count && differs; c++)
                differs = results_same(l->results, row, other, columns[c]);
        }
    return differs;
}

int result_lines_rate(const struct result_lines *l)
{
    int samples = results_find(l->results, "samples_per_s"), found = -1, kinds = 0;
    for (int c = 0; c < results_columns(l->results); c++) {
        if (results_part(l->results, c) != RESULT_OF_METRICS || !dt_metric_named(results_name(l->results, c)).is_rate)
            continue;
        if (c == samples || !results_has_values(l->results, c))
            continue;
        found = c;
        kinds++;
    }
    return kinds == 1 || samples < 0 ? found : samples; /* records of collectives alone have two rates, and no samples */
}
