#include "lib/base/csv.h"

#include "lib/base/grow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *source;
    char *at, *end; /* in csv->text, which is changed in place: a field never grows */
    int line;
    char delimiter;
};

/* The bytes of a line's end at `at`: 0 where there is something else, or the text ends. */
static int line_end_bytes(const struct reader *r, const char *at)
{
    if (at == r->end || (*at != '\n' && *at != '\r'))
        return 0;
    return at + 1 < r->end && at[0] == '\r' && at[1] == '\n' ? 2 : 1;
}

static bool field_ends(const struct reader *r, const char *at)
{
    return at == r->end || *at == r->delimiter || line_end_bytes(r, at) > 0;
}

/* The quote that ends the field whose first character is r->at; NULL if the field does not begin
 * with a quote, or the quote has no end. */
static const char *closing_quote(const struct reader *r)
{
    if (r->at == r->end || *r->at != '"')
        return NULL;
    const char *at = r->at + 1;
    for (; at < r->end && (*at != '"' || (at + 1 < r->end && at[1] == '"')); at++)
        at += *at == '"';
    return at < r->end && field_ends(r, at + 1) ? at : NULL;
}

/* Leave out Markdown's marks around a field that is set in bold, in italics or as code. */
static void without_emphasis(char **from, char **to)
{
    while (*to - *from > 1 && (**from == '*' || **from == '`') && (*to)[-1] == **from) {
        ++*from;
        --*to;
    }
}

/* Read one field without the spaces around it, ended by a NUL. Between quotes, doubled quotes
 * become one, in place. Returns whether the line ends with the field. */
static bool field(struct reader *r, char **out)
{
    while (r->at < r->end && *r->at == ' ')
        r->at++;
    const char *close = closing_quote(r);
    char *to = *out = r->at;
    if (close) {
        for (r->at++; r->at < close; r->at++) {
            r->line += *r->at == '\n';
            r->at += *r->at == '"';
            *to++ = *r->at;
        }
        r->at++;
    } else {
        while (!field_ends(r, r->at))
            r->at++;
        for (to = r->at; to > *out && to[-1] == ' ';)
            to--;
        if (r->delimiter == '|')
            without_emphasis(out, &to);
    }
    const int end_bytes = line_end_bytes(r, r->at);
    const bool last = r->at == r->end || end_bytes > 0;
    r->at += last ? end_bytes : 1;
    r->line += last;
    *to = 0; /* the byte there has been read already */
    return last;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static dt_status names_differ(const struct reader *r, const struct dt_csv *csv)
{
    size_t count = (size_t)csv->column_count;
    DT_FREED char **sorted = malloc(count * sizeof *sorted);
    DT_TRY(dt_allocated(sorted, "%s: no memory for its columns", r->source));
    memcpy(sorted, csv->names, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 1; i < count; i++)
        if (*sorted[i] && strcmp(sorted[i - 1], sorted[i]) == 0)
            return dt_fail(DT_ERR_INVALID, "%s:1: two columns are called %.64s", r->source, sorted[i]);
    return DT_OK;
}

static dt_status has_room(const struct reader *r, struct dt_csv *csv, size_t field_count)
{
    enum { STEP = 4096 };
    if (field_count % STEP)
        return DT_OK;
    return dt_allocated(dt_resize(&csv->fields, (field_count + STEP) * sizeof *csv->fields), "%s: no memory for its fields", r->source);
}

static bool is_comment(const char *line, size_t field_count, size_t of_table)
{
    return *line == '#' && 2 * field_count <= of_table;
}

/* The first record gives the names, every other record but a comment is a row. */
static dt_status record(struct reader *r, struct dt_csv *csv)
{
    size_t before = (size_t)csv->row_count * (size_t)csv->column_count;
    int line = r->line, count = 0;
    for (bool last = false; !last; count++) {
        DT_TRY(has_room(r, csv, before + (size_t)count));
        last = field(r, &csv->fields[before + (size_t)count]);
    }
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
    if (is_comment(csv->fields[before], (size_t)count, (size_t)csv->column_count))
        return DT_OK;
    csv->lines[csv->row_count] = line;
    csv->counts[csv->row_count++] = count;
    return DT_OK;
}

/* ---- what is before the names, and between fields ---- */

static size_t fields_in(const char *line, char delimiter)
{
    size_t count = 1;
    bool quoted = false;
    for (; *line && *line != '\n' && *line != '\r'; line++) {
        quoted ^= *line == '"';
        count += *line == delimiter && !quoted;
    }
    return count;
}

/* The one that makes the most fields of a line. */
static char delimiter_of(const char *line)
{
    char most = ',';
    for (const char *known = ";\t|"; *known; known++)
        if (fields_in(line, *known) > fields_in(line, most))
            most = *known;
    return most;
}

static void next_line(struct reader *r)
{
    r->at += strcspn(r->at, "\r\n");
    r->at += line_end_bytes(r, r->at);
    r->line++;
}

/* A line that separates others, of dashes and bars, as of databases and in RST; or Excel's own, "sep=;". */
static bool is_rule(const char *line)
{
    size_t length = strcspn(line, "\r\n");
    return (length > 2 && strspn(line, "|-:+= ") == length) || (length == 5 && strncmp(line, "sep=", 4) == 0);
}

/* Go on to the line with the names, which may begin with '#', too, and find the delimiter. */
static void find_names(struct reader *r)
{
    struct reader first = *r;
    for (bool found = false; !found;) {
        while (first.at < first.end && (line_end_bytes(&first, first.at) || is_rule(first.at)))
            next_line(&first);
        struct reader table = first;
        while (table.at < table.end && (*table.at == '#' || line_end_bytes(&table, table.at) || is_rule(table.at)))
            next_line(&table);
        r->delimiter = delimiter_of(table.at < table.end ? table.at : first.at);
        found = table.at == table.end || !is_comment(first.at, fields_in(first.at, r->delimiter), fields_in(table.at, r->delimiter));
        r->at = first.at;
        r->line = first.line;
        next_line(&first);
    }
}

/* For a table in columns of text: the blanks between them, two at least where the line of names has
 * two, become tabs. */
static void tabs_for_blanks(struct reader *r)
{
    const bool is_indented = *r->at == ' ';
    r->at += strspn(r->at, " ");
    char *two = strstr(r->at, "  "), *to = r->at, *line_end = r->at + strcspn(r->at, "\r\n");
    size_t least = two && two < line_end ? 2 : 1;
    for (const char *from = r->at; from < r->end;) {
        size_t blanks = strspn(from, " ");
        bool begins = to == r->at || to[-1] == '\n' || to[-1] == '\r', ends = from + blanks == r->end || strchr("\r\n", from[blanks]);
        if (blanks >= least && !begins && !ends)
            *to++ = r->delimiter = '\t';
        else if (blanks > 0 && !begins && !ends)
            *to++ = ' ';
        from += blanks;
        if (from < r->end && blanks == 0)
            *to++ = *from++;
    }
    r->end = to;
    *to = '\0';
    const char *second = r->at + strcspn(r->at, "\r\n");
    if (is_indented && fields_in(second + strspn(second, "\r\n"), '\t') == fields_in(r->at, '\t') + 1)
        *--r->at = '\t'; /* rows begin with their number */
}

/* For a table in Markdown: the bars at both ends of a line separate nothing, and a line of dashes
 * is blank. */
static void strip_bars(struct reader *r)
{
    char *to = r->at;
    for (const char *line = r->at; line < r->end;) {
        size_t length = strcspn(line, "\r\n"), from = strspn(line, " "), until = length;
        while (until > from && line[until - 1] == ' ')
            until--;
        if (from < until && line[from] == '|') {
            from++;
            until -= until > from && line[until - 1] == '|';
        }
        if (strspn(line, "|-:+= ") < length) {
            memmove(to, line + from, until - from);
            to += until - from;
        }
        for (line += length; line < r->end && (*line == '\r' || *line == '\n');)
            *to++ = *line++;
    }
    r->end = to;
    *to = '\0';
}

dt_status dt_csv_parse(const char *text, size_t length, const char *source, struct dt_csv *out)
{
    static const char mark[] = "\xEF\xBB\xBF";
    size_t line_count = 1;
    *out = (struct dt_csv){0};
    if (length >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0))
        return dt_fail(DT_ERR_INVALID, "%s: its text is UTF-16: save it as UTF-8", source);
    if (memchr(text, 0, length))
        return dt_fail(DT_ERR_INVALID, "%s: not text: it holds a NUL", source);
    for (size_t i = 0; i < length; i++)
        line_count += text[i] == '\n' || text[i] == '\r';
    out->text = malloc(length + 1);
    out->lines = malloc(line_count * sizeof *out->lines);
    out->counts = malloc(line_count * sizeof *out->counts);
    DT_TRY(dt_allocated(out->text && out->lines && out->counts, "%s: no memory for its text", source));
    memcpy(out->text, text, length);
    out->text[length] = 0;

    struct reader r = {.source = source, .at = out->text, .end = out->text + length, .line = 1};
    if (length >= 3 && memcmp(r.at, mark, 3) == 0)
        r.at += 3;
    find_names(&r);
    if (r.delimiter == '|')
        strip_bars(&r);
    if (fields_in(r.at, r.delimiter) == 1)
        tabs_for_blanks(&r);
    out->delimiter = r.delimiter;
    while (r.at < r.end) {
        const int blank = line_end_bytes(&r, r.at);
        r.at += blank;
        r.line += blank > 0;
        if (!blank)
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
    for (int i = 0; i < csv->column_count; i++)
        if (strcasecmp(csv->names[i], name) == 0)
            return i;
    return -1;
}

const char *dt_csv_field(const struct dt_csv *csv, int row, int column)
{
    return column < 0 ? "" : csv->fields[(size_t)row * (size_t)csv->column_count + (size_t)column];
}
