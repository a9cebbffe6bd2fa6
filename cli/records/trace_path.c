#include "cli/records/trace_path.h"

#include "cli/text/text.h"
#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "lib/record/record.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE = -1, NAME_BYTES = 48, WORDS_BYTES = 160, ROWS = 20 /* of a table */ };

/* Times that differ by less are the same: a trace has nanoseconds. */
static const double SAME_US = 0.0015;

struct span {
    int rank, row;
    double start_us, end_us, bytes;
    char name[NAME_BYTES], group[NAME_BYTES];
    bool computes, communicates, is_host;
    int sender; /* sender of a received message; or NONE */
};

struct arrow {
    char id[NAME_BYTES * 2];
    int rank, row;
    double at_us;
    bool begins;
};

struct trace_spans {
    struct span *spans; /* [count] sorted by rank, then by end */
    int count, capacity;
    struct arrow *arrows;
    int arrow_count, arrow_capacity;
    bool is_trace;
};

/* ---- reading ---- */

static dt_status add_span(struct trace_spans *t, const cJSON *event)
{
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(event, "args");
    const char *category = dt_json_text_at(event, "cat");
    if (strcmp(category, "phase") == 0 || dt_json_number(event, "dur", 0) <= 0)
        return DT_OK;
    DT_TRY(dt_allocated(DT_ROOM(t->spans, t->count, t->capacity), "no memory for a trace"));
    struct span *span = &t->spans[t->count++];
    *span = (struct span){.rank = (int)dt_json_number(event, "pid", 0), .row = (int)dt_json_number(event, "tid", 0), .sender = NONE};
    span->start_us = dt_json_number(event, "ts", 0);
    span->end_us = span->start_us + dt_json_number(event, "dur", 0);
    span->bytes = dt_json_number(arguments, "bytes", 0);
    span->is_host = strcmp(category, "host") == 0;
    span->computes = strcmp(category, "compute") == 0;
    span->communicates = strcmp(category, "communication") == 0;
    snprintf(span->name, sizeof span->name, "%s", dt_json_text_at(event, "name"));
    snprintf(span->group, sizeof span->group, "%s", dt_json_text_at(arguments, "communicator"));
    return DT_OK;
}

static dt_status add_arrow(struct trace_spans *t, const cJSON *event, bool begins)
{
    DT_TRY(dt_allocated(DT_ROOM(t->arrows, t->arrow_count, t->arrow_capacity), "no memory for a trace"));
    struct arrow *arrow = &t->arrows[t->arrow_count++];
    *arrow = (struct arrow){.rank = (int)dt_json_number(event, "pid", 0),
                            .row = (int)dt_json_number(event, "tid", 0),
                            .at_us = dt_json_number(event, "ts", 0),
                            .begins = begins};
    snprintf(arrow->id, sizeof arrow->id, "%s", dt_json_text_at(event, "id"));
    return DT_OK;
}

/* Read an event. dtbench's traces have one event a line, so that a file of any size can be read. */
static dt_status read_line(void *context, char *line, size_t bytes, uint64_t offset)
{
    struct trace_spans *t = context;
    DT_DESTROYED(dt_json_destroy) cJSON *event = NULL;
    if (offset == 0)
        t->is_trace = strstr(line, "\"traceEvents\"") != NULL;
    while (bytes > 0 && strchr(", \r", line[bytes - 1]))
        bytes--;
    if (*line != '{' || bytes == 0 || line[bytes - 1] != '}')
        return DT_OK;
    dt_status status = dt_json_parse(line, bytes, "the trace", &event);
    if (status < 0)
        return status == DT_ERR_HOST_MEMORY ? status : DT_OK;
    const char *phase = dt_json_text_at(event, "ph");
    if (strcmp(phase, "X") == 0)
        status = add_span(t, event);
    else if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0)
        status = add_arrow(t, event, *phase == 's');
    return status;
}

static int by_rank_and_end(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank - b->rank;
    return (a->end_us > b->end_us) - (a->end_us < b->end_us);
}

static int by_id(const void *left, const void *right)
{
    const struct arrow *a = left, *b = right;
    int order = strcmp(a->id, b->id);
    return order ? order : b->begins - a->begins;
}

/* One past the last span of `rank` that ends at `at_us` or before; the rank's first span if all end
 * later. */
static int past_end(const struct trace_spans *t, int rank, double at_us)
{
    int low = 0, high = t->count;
    while (low < high) {
        int middle = (low + high) / 2;
        const struct span *s = &t->spans[middle];
        if (s->rank < rank || (s->rank == rank && s->end_us <= at_us))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The span on an arrow's row that the arrow leaves or reaches. */
static int span_of(const struct trace_spans *t, const struct arrow *arrow)
{
    for (int i = past_end(t, arrow->rank, arrow->at_us - SAME_US); i < t->count && t->spans[i].rank == arrow->rank; i++)
        if (t->spans[i].row == arrow->row && t->spans[i].start_us <= arrow->at_us + SAME_US)
            return i;
    return NONE;
}

static void join_arrows(struct trace_spans *t)
{
    if (t->arrow_count > 0)
        qsort(t->arrows, (size_t)t->arrow_count, sizeof *t->arrows, by_id);
    for (int i = 0; i + 1 < t->arrow_count; i++) {
        if (!t->arrows[i].begins || t->arrows[i + 1].begins || strcmp(t->arrows[i].id, t->arrows[i + 1].id) != 0)
            continue;
        int receiver = span_of(t, &t->arrows[i + 1]);
        if (receiver != NONE)
            t->spans[receiver].sender = span_of(t, &t->arrows[i]);
    }
}

dt_status trace_spans_read(const char *path, struct trace_spans **out)
{
    DT_DESTROYED(trace_spans_destroy) struct trace_spans *t = calloc(1, sizeof *t);
    DT_TRY(dt_allocated(t, "no memory for a trace"));
    if (access(path, R_OK) != 0)
        return dt_fail(DT_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    DT_TRY(dt_record_lines_visit(path, read_line, t));
    if (!t->is_trace || t->count == 0)
        return dt_fail(DT_ERR_INVALID, "%s: not a trace of dtbench: expected a file of dtbench run --trace", path);
    qsort(t->spans, (size_t)t->count, sizeof *t->spans, by_rank_and_end);
    join_arrows(t);
    *out = DT_PASSED_ON(t);
    return DT_OK;
}

void trace_spans_destroy(struct trace_spans *t)
{
    if (!t)
        return;
    free(t->spans);
    free(t->arrows);
    free(t);
}

/* ---- what waits for what ---- */

/* The span of the rank that ends last before `span` begins. If several end at once, one on its own
 * row is preferred, and the host's comes last. */
static int before(const struct trace_spans *t, int span)
{
    const struct span *s = &t->spans[span];
    int found = NONE;
    for (int i = past_end(t, s->rank, s->start_us + SAME_US) - 1; i >= 0 && t->spans[i].rank == s->rank; i--) {
        const struct span *other = &t->spans[i];
        if (i == span)
            continue;
        if (found != NONE && other->end_us < t->spans[found].end_us - SAME_US)
            break;
        if (found == NONE || other->row == s->row || (t->spans[found].is_host && !other->is_host && t->spans[found].row != s->row))
            found = i;
    }
    return found;
}

/* The span of the same collective on the rank that reached it last. */
static int last_to_come(const struct trace_spans *t, int span)
{
    const struct span *s = &t->spans[span];
    int last = span;
    for (int i = 0; i < t->count; i++) {
        const struct span *other = &t->spans[i];
        bool same =
            other->communicates && strcmp(other->name, s->name) == 0 && strcmp(other->group, s->group) == 0 && other->bytes == s->bytes;
        bool meets = other->start_us < s->end_us && other->end_us > s->start_us;
        if (same && meets && other->start_us > t->spans[last].start_us + SAME_US)
            last = i;
    }
    return last;
}

/* The span that `span` waits for: a message's sender, or a collective's last rank; `span` itself if
 * it waits for no other rank. */
static int cause(const struct trace_spans *t, int span)
{
    const struct span *s = &t->spans[span];
    if (!s->communicates)
        return span;
    if (s->sender != NONE)
        return s->sender;
    return strncmp(s->name, "send", 4) == 0 || strncmp(s->name, "recv", 4) == 0 ? span : last_to_come(t, span);
}

/* ---- sums ---- */

struct sum {
    int rank;
    char what[WORDS_BYTES];
    double us;
    int pieces;
};

struct sums {
    struct sum *all; /* [count] owned */
    int count, capacity;
};

static dt_status add(struct sums *sums, int rank, const char *what, double us)
{
    int at = 0;
    while (at < sums->count && (sums->all[at].rank != rank || strcmp(sums->all[at].what, what) != 0))
        at++;
    if (at == sums->count) {
        DT_TRY(dt_allocated(DT_ROOM(sums->all, sums->count, sums->capacity), "no memory for a trace"));
        sums->all[sums->count++] = (struct sum){.rank = rank};
        snprintf(sums->all[at].what, sizeof sums->all[at].what, "%s", what);
    }
    sums->all[at].us += us;
    sums->all[at].pieces++;
    return DT_OK;
}

static int by_time(const void *left, const void *right)
{
    const struct sum *a = left, *b = right;
    return (a->us < b->us) - (a->us > b->us);
}

static void describe(const struct span *s, char what[WORDS_BYTES])
{
    if (s->is_host)
        snprintf(what, WORDS_BYTES, "the host queues");
    else if (s->communicates)
        snprintf(what, WORDS_BYTES, "%s%s%s", s->name, *s->group && !strstr(s->name, s->group) ? " of " : "",
                 *s->group && !strstr(s->name, s->group) ? s->group : "");
    else
        snprintf(what, WORDS_BYTES, "%s", s->name);
}

static dt_status print_sums(struct sums *sums, const char *first, double all_us, FILE *to)
{
    struct table *table = table_create();
    table_column(table, TABLE_LEFT | TABLE_STAYS, "%s", first);
    table_columns(table, TABLE_RIGHT | TABLE_STAYS, "rank", "ms", "%", "pieces");
    qsort(sums->all, (size_t)sums->count, sizeof *sums->all, by_time);
    struct sum rest = {.rank = NONE};
    for (int i = ROWS; i < sums->count; i++) {
        rest.us += sums->all[i].us;
        rest.pieces += sums->all[i].pieces;
    }
    if (sums->count > ROWS) {
        snprintf(rest.what, sizeof rest.what, "%d others", sums->count - ROWS + 1);
        rest.us += sums->all[ROWS - 1].us;
        rest.pieces += sums->all[ROWS - 1].pieces;
        sums->all[ROWS - 1] = rest;
        sums->count = ROWS;
    }
    for (int i = 0; i < sums->count; i++) {
        table_text(table, sums->all[i].what);
        table_cell(table, sums->all[i].rank == NONE ? "-" : "%d", sums->all[i].rank);
        table_number(table, sums->all[i].us / 1e3);
        table_cell(table, "%.1f", 100 * sums->all[i].us / all_us);
        table_cell(table, "%d", sums->all[i].pieces);
    }
    return table_end(table, to);
}

/* ---- the critical path ---- */

struct picture {
    int width, ranks;
    double end_us;
    char *rows; /* [ranks][width] owned */
};

static void draw(struct picture *p, int rank, double from_us, double to_us, char letter)
{
    int first = (int)(from_us / p->end_us * p->width), last = (int)ceil(to_us / p->end_us * p->width);
    for (int column = first; rank < p->ranks && column < last && column < p->width; column++)
        p->rows[(size_t)rank * (size_t)p->width + (size_t)column] = letter;
}

static char letter_of(const struct span *s)
{
    return s->is_host ? 'h' : s->communicates ? '=' : s->computes ? '#' : 'c';
}

/* Walk the path from its end to its beginning. */
static dt_status walk(const struct trace_spans *t, struct sums *sums, struct picture *picture)
{
    int span = 0;
    char what[WORDS_BYTES];
    for (int i = 1; i < t->count; i++)
        if (t->spans[i].end_us > t->spans[span].end_us)
            span = i;
    for (double until = t->spans[span].end_us; span != NONE && until > SAME_US;) {
        int from = cause(t, span);
        const struct span *s = &t->spans[span];
        double start = fmin(t->spans[from].start_us, until);
        describe(s, what);
        DT_TRY(add(sums, s->rank, what, until - start));
        draw(picture, s->rank, start, until, letter_of(s));
        int next = before(t, from);
        double end = next == NONE ? 0 : fmin(t->spans[next].end_us, start);
        if (start - end > SAME_US)
            DT_TRY(add(sums, t->spans[from].rank, "nothing that the trace shows", start - end));
        until = end;
        span = next;
    }
    return DT_OK;
}

static void print_picture(const struct picture *p, FILE *to)
{
    fputs("\n", to);
    for (int r = 0; r < p->ranks; r++) {
        const char *row = p->rows + (size_t)r * (size_t)p->width;
        if (strspn(row, " ") < (size_t)p->width)
            fprintf(to, "rank %-4d %.*s\n", r, p->width, row);
    }
    fputs("# computes  = communicates  c copies  h the host queues: the ranks that the step waits for, from its beginning to its end\n",
          to);
}

dt_status trace_path_print(const struct trace_spans *t, int width, FILE *to)
{
    struct sums sums = {0};
    struct picture picture = {.width = width > 30 ? width - 10 : 20, .ranks = t->spans[t->count - 1].rank + 1};
    char number[FORMAT_BYTES];
    for (int i = 0; i < t->count; i++)
        picture.end_us = fmax(picture.end_us, t->spans[i].end_us);
    picture.rows = malloc((size_t)picture.ranks * (size_t)picture.width + 1);
    DT_TRY(dt_allocated(picture.rows, "no memory for a picture"));
    memset(picture.rows, ' ', (size_t)picture.ranks * (size_t)picture.width);
    picture.rows[(size_t)picture.ranks * (size_t)picture.width] = 0;
    dt_status status = walk(t, &sums, &picture);
    line_print(to, "critical path of %s ms, over %d rank%s", format_number(picture.end_us / 1e3, number), picture.ranks,
               picture.ranks == 1 ? "" : "s");
    fputs("\n", to);
    DT_THEN(status, print_sums(&sums, "on the critical path", picture.end_us, to));
    if (status == DT_OK)
        print_picture(&picture, to);
    free(picture.rows);
    free(sums.all);
    return status;
}

/* ---- one rank ---- */

/* Say what a computing span waited for. */
static void describe_wait(const struct trace_spans *t, int waited, double begin_us, char what[WORDS_BYTES])
{
    const struct span *s = &t->spans[waited];
    char name[WORDS_BYTES];
    if (s->end_us < begin_us - SAME_US) {
        snprintf(what, WORDS_BYTES, "nothing that the trace shows");
        return;
    }
    int from = cause(t, waited);
    describe(s, name);
    if (from != waited && t->spans[from].rank != s->rank)
        snprintf(what, WORDS_BYTES, "waits for %.100s, and that for rank %d", name, t->spans[from].rank);
    else
        snprintf(what, WORDS_BYTES, "waits for %.100s", name);
}

dt_status trace_rank_print(const struct trace_spans *t, int rank, FILE *to)
{
    struct sums sums = {0};
    double until = 0, end = 0;
    char what[WORDS_BYTES], number[FORMAT_BYTES];
    dt_status status = DT_OK;
    int computing = 0;
    for (int i = 0; i < t->count && status == DT_OK; i++) {
        const struct span *s = &t->spans[i];
        end = fmax(end, s->end_us);
        if (s->rank != rank || !s->computes)
            continue;
        int waited = before(t, i);
        if (s->start_us - until > SAME_US) {
            snprintf(what, sizeof what, "nothing that the trace shows");
            if (waited != NONE)
                describe_wait(t, waited, s->start_us, what);
            status = add(&sums, rank, what, s->start_us - until);
        }
        DT_THEN(status, add(&sums, rank, "computes", s->end_us - fmax(until, s->start_us)));
        until = fmax(until, s->end_us);
        computing++;
    }
    if (status == DT_OK && computing == 0)
        status = dt_fail(DT_ERR_INVALID, "the trace has no computing span of rank %d", rank);
    if (status == DT_OK && end - until > SAME_US)
        status = add(&sums, rank, "finishes before the last rank", end - until);
    if (status == DT_OK) {
        line_print(to, "rank %d: %s ms", rank, format_number(end / 1e3, number));
        fputs("\n", to);
        status = print_sums(&sums, "what it does", end, to);
    }
    free(sums.all);
    return status;
}
