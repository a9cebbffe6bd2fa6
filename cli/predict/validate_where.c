#include "cli/predict/validate_where.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum relation { EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST };

/* Longer ones before their beginnings. */
static const struct {
    const char *text;
    enum relation relation;
} relations[] = {{"!=", DIFFERENT}, {"<=", AT_MOST}, {">=", AT_LEAST}, {"=", EQUAL}, {"<", LESS}, {">", MORE}};

struct condition {
    int column;
    enum relation relation;
    const char *value;
    double number; /* NAN: value is none */
};

/* NAN: it is no number */
static double number_of(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *text && !*end ? value : NAN;
}

static bool is_order(enum relation relation)
{
    return relation != EQUAL && relation != DIFFERENT;
}

static dt_status read_condition(const struct dt_csv *csv, const char *path, const char *text, struct condition *out)
{
    char name[128];
    size_t length = strcspn(text, "=<>!"), i = 0, count = sizeof relations / sizeof *relations;
    while (i < count && strncmp(text + length, relations[i].text, strlen(relations[i].text)) != 0)
        i++;
    if (length == 0 || length >= sizeof name || i == count)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: expected COLUMN=VALUE, or with !=, <, <=, >, >=", text);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const char *value = text + length + strlen(relations[i].text);
    *out = (struct condition){dt_csv_column(csv, name), relations[i].relation, value, number_of(value)};
    if (out->column < 0)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: %s has no column %s", text, path, name);
    if (is_order(out->relation) && isnan(out->number))
        return dt_fail(DT_ERR_INVALID, "--where %.64s: \"%.64s\" is not a number", text, value);
    return DT_OK;
}

static bool meets(const struct dt_csv *csv, int row, const struct condition *c)
{
    const char *field = dt_csv_field(csv, row, c->column);
    double number = number_of(field);
    bool numbers = !isnan(number) && !isnan(c->number), equal = numbers ? number == c->number : strcmp(field, c->value) == 0;
    switch (c->relation) {
    case EQUAL: return equal;
    case DIFFERENT: return !equal;
    case LESS: return numbers && number < c->number;
    case AT_MOST: return numbers && number <= c->number;
    case MORE: return numbers && number > c->number;
    case AT_LEAST: return numbers && number >= c->number;
    }
    return false;
}

static void keep(struct dt_csv *csv, const struct condition *c)
{
    size_t columns = (size_t)csv->column_count;
    int kept = 0;
    for (int row = 0; row < csv->row_count; row++) {
        if (!meets(csv, row, c))
            continue;
        memmove(csv->fields + (size_t)kept * columns, csv->fields + (size_t)row * columns, columns * sizeof *csv->fields);
        csv->lines[kept++] = csv->lines[row];
    }
    csv->row_count = kept;
}

dt_status validate_where(struct dt_csv *csv, const char *path, const char *const *conditions, int count)
{
    for (int i = 0; i < count; i++) {
        struct condition condition = {.column = -1};
        DT_TRY(read_condition(csv, path, conditions[i], &condition));
        keep(csv, &condition);
        if (csv->row_count == 0)
            return dt_fail(DT_ERR_INVALID, "--where %.64s: no row of %s is left", conditions[i], path);
    }
    return DT_OK;
}
