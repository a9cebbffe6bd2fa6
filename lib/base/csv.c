#include "lib/base/csv.h"

#include "lib/base/grow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *source;
    char *at, *end; /* in csv->text, which is read and written in place: a field never grows */
    int line;
    char delimiter;
};

static dt_status wrong(const struct reader *r, int line, const char *what)
{
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s", r->source, line, what);
}

/* Pass over a line's end. False where there is something else. */
static bool line_end(struct reader *r)
{
    if (r->at + 1 < r->end && r->at[0] == '\r' && r->at[1] == '\n')
        r->at++;
    if (r->at < r->end && *r->at != '\n')
        return false;
    if (r->at < r->end)
        r->at++;
    r->line++;
    return true;
}

/* The text between quotes; r->at is after the first one. Doubled quotes become one, in place. */
static dt_status quoted(struct reader *r, char **out_end)
{
    int first_line = r->line;
    char *to = r->at;
    for (; r->at < r->end; r->at++) {
        r->line += *r->at == '\n';
        if (*r->at == '"' && !(r->at + 1 < r->end && r->at[1] == '"')) {
            r->at++;
            *out_end = to;
            return DT_OK;
        }
        r->at += *r->at == '"';
        *to++ = *r->at;
    }
    return wrong(r, first_line, "a quoted field has no end");
}

/* One field, cut off with a NUL. *last: its line ends with it. */
static dt_status field(struct reader *r, char **out, bool *last)
{
    char *end = r->at;
    if (r->at < r->end && *r->at == '"') {
        *out = ++r->at;
        DT_TRY(quoted(r, &end));
    } else {
        *out = r->at;
        for (; r->at < r->end && *r->at != r->delimiter && *r->at != '\n' && !(*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
             r->at++)
            if (*r->at == '"')
                return wrong(r, r->line, "a quote inside a field that does not begin with one");
        end = r->at;
    }
    *last = r->at == r->end || *r->at != r->delimiter;
    if (!*last)
        r->at++;
    else if (!line_end(r))
        return wrong(r, r->line, "text after a quoted field");
    *end = 0; /* what stood there has been read */
    return DT_OK;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static dt_status names_differ(const struct reader *r, const struct dt_csv *csv)
{
    size_t count = (size_t)csv->column_count;
    char **sorted = malloc(count * sizeof *sorted);
    DT_TRY(dt_allocated(sorted, "%s: no memory for its columns", r->source));
    memcpy(sorted, csv->names, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_text);
    dt_status status = DT_OK;
    for (size_t i = 1; i < count && status == DT_OK; i++)
        if (*sorted[i] && strcmp(sorted[i - 1], sorted[i]) == 0)
            status = dt_fail(DT_ERR_INVALID, "%s:1: two columns are called %.64s", r->source, sorted[i]);
    free(sorted);
    return status;
}

static dt_status has_room(const struct reader *r, struct dt_csv *csv, size_t field_count)
{
    enum { STEP = 4096 };
    if (field_count % STEP)
        return DT_OK;
    return dt_allocated(dt_resize(&csv->fields, (field_count + STEP) * sizeof *csv->fields), "%s: no memory for its fields", r->source);
}

static dt_status next_field(struct reader *r, struct dt_csv *csv, size_t place, bool *last)
{
    DT_TRY(has_room(r, csv, place));
    return field(r, &csv->fields[place], last);
}

/* The first record becomes the names, every other one a row. */
static dt_status record(struct reader *r, struct dt_csv *csv)
{
    size_t before = (size_t)csv->row_count * (size_t)csv->column_count;
    int line = r->line, count = 0;
    for (bool last = false; !last; count++)
        DT_TRY(next_field(r, csv, before + (size_t)count, &last));
    for (int i = count; i < csv->column_count; i++) {
        DT_TRY(has_room(r, csv, before + (size_t)i));
        csv->fields[before + (size_t)i] = r->end; /* "" */
    }
    if (!csv->names) {
        csv->names = csv->fields;
        csv->fields = NULL;
        csv->column_count = count;
        return names_differ(r, csv);
    }
    csv->lines[csv->row_count] = line;
    csv->counts[csv->row_count++] = count;
    return DT_OK;
}

/* Of the first line. */
static char delimiter_of(const char *text)
{
    size_t length = strcspn(text, "\n");
    return memchr(text, ',', length) ? ',' : memchr(text, ';', length) ? ';' : memchr(text, '\t', length) ? '\t' : ',';
}

dt_status dt_csv_parse(const char *text, size_t length, const char *source, struct dt_csv *out)
{
    static const char mark[] = "\xEF\xBB\xBF";
    size_t line_count = 1;
    *out = (struct dt_csv){0};
    if (memchr(text, 0, length))
        return dt_fail(DT_ERR_INVALID, "%s: not text: it holds a NUL", source);
    for (size_t i = 0; i < length; i++)
        line_count += text[i] == '\n';
    out->text = malloc(length + 1);
    out->lines = malloc(line_count * sizeof *out->lines);
    out->counts = malloc(line_count * sizeof *out->counts);
    if (!out->text || !out->lines || !out->counts)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no memory for its text", source);
    memcpy(out->text, text, length);
    out->text[length] = 0;

    struct reader r = {.source = source, .at = out->text, .end = out->text + length, .line = 1};
    if (length >= 3 && memcmp(r.at, mark, 3) == 0)
        r.at += 3;
    r.delimiter = out->delimiter = delimiter_of(r.at);
    while (r.at < r.end) {
        if (*r.at == '\n' || (*r.at == '\r' && r.at + 1 < r.end && r.at[1] == '\n'))
            line_end(&r);
        else
            DT_TRY(record(&r, out));
    }
    return out->names ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: empty: its first line should name the columns", source);
}

void dt_csv_finish(struct dt_csv *csv)
{
    free(csv->names);
    free(csv->fields);
    free(csv->lines);
    free(csv->counts);
    free(csv->text);
    *csv = (struct dt_csv){0};
}

int dt_csv_column(const struct dt_csv *csv, const char *name)
{
    for (int i = 0; i < csv->column_count; i++)
        if (strcmp(csv->names[i], name) == 0)
            return i;
    return -1;
}

const char *dt_csv_field(const struct dt_csv *csv, int row, int column)
{
    return column < 0 ? "" : csv->fields[(size_t)row * (size_t)csv->column_count + (size_t)column];
}
