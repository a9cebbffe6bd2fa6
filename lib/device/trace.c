#include "lib/device/trace.h"

#include "lib/base/grow.h"
#include "lib/base/output_file.h"
#include "lib/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message_end {
    int group;    /* index in groups */
    int from, to; /* processes */
    bool sends;   /* true: the sender's end */
    int number;   /* place of this end in the order in which ends were reported */
    int receipt;  /* after pair_ends, of a sender's end: index of the receiver's end; -1: none */
    int thread;
    int64_t at_ns;
};

struct dt_trace {
    struct dt_output_file output;
    FILE *file; /* output.stream */
    bool begun;
    char **groups; /* [group_count] names of communicators with messages */
    int group_count;
    struct message_end *ends; /* [end_count] */
    int end_count, end_room;
    bool no_memory;
};

dt_status dt_trace_open(const char *path, struct dt_trace **out)
{
    DT_FREED struct dt_trace *trace = calloc(1, sizeof *trace);
    *out = NULL;
    DT_TRY(dt_allocated(trace, "%s: no host memory for a trace", path));
    dt_status status = dt_output_open(path, &trace->output);
    if (status < 0)
        return dt_fail(status, "the trace: %s", dt_error_message());
    trace->file = trace->output.stream;
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", trace->file);
    *out = DT_PASSED_ON(trace);
    return DT_OK;
}

static void next(struct dt_trace *trace)
{
    fputs(trace->begun ? ",\n" : "\n", trace->file);
    trace->begun = true;
}

/* Write a JSON string. Names are dtbench's own; characters outside printable ASCII are omitted. */
static void put_text(struct dt_trace *trace, const char *text)
{
    fputc('"', trace->file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', trace->file);
        if (*text >= ' ' && *text < 127)
            fputc(*text, trace->file);
    }
    fputc('"', trace->file);
}

static void put_metadata(struct dt_trace *trace, int process, int thread, const char *what, const char *name)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s_name\", \"args\": {\"name\": ", process, thread, what);
    put_text(trace, name);
    fprintf(trace->file, "}},\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s_sort_index\", \"args\": {\"sort_index\": %d}}",
            process, thread, what, strcmp(what, "process") == 0 ? process : thread);
}

void dt_trace_process(struct dt_trace *trace, int process, const char *name)
{
    put_metadata(trace, process, 0, "process", name);
}

void dt_trace_thread(struct dt_trace *trace, int process, int thread, const char *name)
{
    put_metadata(trace, process, thread, "thread", name);
}

/* Traces use microseconds. Whole nanoseconds are kept, so that consecutive spans do not overlap. */
static void put_us(struct dt_trace *trace, const char *key, int64_t ns)
{
    fprintf(trace->file, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_arguments(struct dt_trace *trace, const struct dt_trace_span *span)
{
    const char *before = ", \"args\": {", *end = "";
    if (span->bytes > 0 || span->group) {
        fprintf(trace->file, "%s\"bytes\": %.0f, \"waited_us\": %.3f", before, span->bytes, span->waited_s * 1e6);
        if (span->group) {
            fputs(", \"communicator\": ", trace->file);
            put_text(trace, span->group);
        }
        before = ", ";
        end = "}";
    }
    if (span->pass.micro_batch >= 0) {
        fprintf(trace->file, "%s\"micro_batch\": %d, \"part\": %d", before, span->pass.micro_batch, span->pass.part);
        end = "}";
    }
    fputs(end, trace->file);
}

void dt_trace_span(struct dt_trace *trace, const struct dt_trace_span *span)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d", span->process, span->thread);
    put_us(trace, "ts", span->start_ns);
    put_us(trace, "dur", span->end_ns - span->start_ns);
    fputs(", \"name\": ", trace->file);
    put_text(trace, span->name);
    fputs(", \"cat\": ", trace->file);
    put_text(trace, span->category);
    put_arguments(trace, span);
    fputc('}', trace->file);
}

void dt_trace_memory(struct dt_trace *trace, int process, int64_t at_ns, const uint64_t *held_bytes)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"C\", \"pid\": %d, \"tid\": 0, \"name\": \"device memory\", \"cat\": \"memory\"", process);
    put_us(trace, "ts", at_ns);
    fputs(", \"args\": {", trace->file);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        fprintf(trace->file, "%s\"%s\": %" PRIu64, c ? ", " : "", dt_category_name((enum dt_category)c), held_bytes[c]);
    fputs("}}", trace->file);
}

/* ---- messages ---- */

/* -1: no memory. */
static int find_group(struct dt_trace *trace, const char *name)
{
    for (int i = 0; i < trace->group_count; i++)
        if (strcmp(trace->groups[i], name) == 0)
            return i;
    if (!DT_ONE_MORE(trace->groups, trace->group_count))
        return -1;
    trace->groups[trace->group_count] = strdup(name);
    return trace->groups[trace->group_count] ? trace->group_count++ : -1;
}

void dt_trace_message(struct dt_trace *trace, const struct dt_trace_span *span, int peer, bool sends)
{
    int group = find_group(trace, span->group);
    if (group < 0 || !DT_ROOM(trace->ends, trace->end_count, trace->end_room)) {
        trace->no_memory = true;
        return;
    }
    int64_t last_ns = span->end_ns > span->start_ns ? span->end_ns - 1 : span->start_ns;
    trace->ends[trace->end_count] = (struct message_end){
        .group = group,
        .from = sends ? span->process : peer,
        .to = sends ? peer : span->process,
        .sends = sends,
        .number = trace->end_count,
        .receipt = -1,
        .thread = span->thread,
        .at_ns = sends ? span->start_ns : last_ns,
    };
    trace->end_count++;
}

static int compare_channels(const struct message_end *a, const struct message_end *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to == b->to ? 0 : a->to < b->to ? -1 : 1;
}

/* Sort by channel, then sends before receives, then in order of report. */
static int compare_ends(const void *left, const void *right)
{
    const struct message_end *a = left, *b = right;
    int order = compare_channels(a, b);
    if (order == 0 && a->sends != b->sends)
        order = a->sends ? -1 : 1;
    return order ? order : a->number < b->number ? -1 : 1;
}

static void put_end(struct dt_trace *trace, const struct message_end *end)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d", end->sends ? "s" : "f\", \"bp\": \"e",
            end->sends ? end->from : end->to, end->thread);
    put_us(trace, "ts", end->at_ns);
    char id[96];
    snprintf(id, sizeof id, "%s %d>%d #%d", trace->groups[end->group], end->from, end->to, end->number);
    fputs(", \"name\": \"message\", \"cat\": \"message\", \"id\": ", trace->file);
    put_text(trace, id);
    fputc('}', trace->file);
}

/* Sort the ends, and find the two of each message: sender and receiver count alike. */
static void pair_ends(struct dt_trace *trace)
{
    if (trace->end_count == 0)
        return;
    struct message_end *end = trace->ends + trace->end_count, *received;
    qsort(trace->ends, (size_t)trace->end_count, sizeof *trace->ends, compare_ends);
    for (struct message_end *sent = trace->ends; sent < end; sent = received) {
        int count = 0, i = 0;
        for (received = sent; received < end && received->sends && compare_channels(received, sent) == 0; received++) {
            received->number = count++;
            received->receipt = -1;
        }
        for (; received < end && compare_channels(received, sent) == 0; received++) {
            received->number = i++;
            if (received->number < count)
                sent[received->number].receipt = (int)(received - trace->ends);
        }
    }
}

static void put_arrows(struct dt_trace *trace)
{
    pair_ends(trace);
    for (int i = 0; i < trace->end_count; i++) {
        const struct message_end *sent = &trace->ends[i];
        if (!sent->sends || sent->receipt < 0 || sent->at_ns > trace->ends[sent->receipt].at_ns)
            continue;
        put_end(trace, sent);
        put_end(trace, &trace->ends[sent->receipt]);
    }
}

/* What a process's time 0 may be. */
struct bounds {
    int64_t least_ns, most_ns;
};

/* Raise the least and lower the most by each message, within `known`, until nothing changes. Both
 * all leasts and all mosts then agree with the messages, and so do the middles. */
static void narrow(const struct dt_trace *trace, const struct bounds *known, struct bounds *bounds, int count)
{
    bool changed = true;
    for (int round = 0; changed && round <= count; round++) {
        changed = false;
        for (int i = 0; i < trace->end_count; i++) {
            const struct message_end *sent = &trace->ends[i];
            if (!sent->sends || sent->receipt < 0)
                continue;
            struct bounds *from = &bounds[sent->from], *to = &bounds[sent->to];
            int64_t later_ns = sent->at_ns - trace->ends[sent->receipt].at_ns; /* the receiver's time 0 is at least so much later */
            int64_t least_ns = from->least_ns + later_ns, most_ns = to->most_ns - later_ns;
            if (least_ns > known[sent->to].most_ns)
                least_ns = known[sent->to].most_ns;
            if (most_ns < known[sent->from].least_ns)
                most_ns = known[sent->from].least_ns;
            changed |= least_ns > to->least_ns || most_ns < from->most_ns;
            to->least_ns = least_ns > to->least_ns ? least_ns : to->least_ns;
            from->most_ns = most_ns < from->most_ns ? most_ns : from->most_ns;
        }
    }
}

void dt_trace_place(struct dt_trace *trace, struct dt_trace_clock *clocks, int count)
{
    int64_t earliest_ns = INT64_MAX;
    DT_FREED struct bounds *bounds = calloc(2 * (size_t)count, sizeof *bounds);
    if (!bounds) {
        trace->no_memory = true;
        return;
    }
    struct bounds *known = bounds + count;
    for (int i = 0; i < count; i++)
        bounds[i] = known[i] = (struct bounds){clocks[i].zero_ns - clocks[i].error_ns, clocks[i].zero_ns + clocks[i].error_ns};
    pair_ends(trace);
    narrow(trace, known, bounds, count);
    for (int i = 0; i < count; i++) {
        int64_t range_ns = bounds[i].most_ns - bounds[i].least_ns;
        if (range_ns >= 0)
            clocks[i] = (struct dt_trace_clock){bounds[i].least_ns + range_ns / 2, (range_ns + 1) / 2};
        earliest_ns = clocks[i].zero_ns < earliest_ns ? clocks[i].zero_ns : earliest_ns;
    }
    for (int i = 0; i < count; i++)
        clocks[i].zero_ns -= earliest_ns;
    for (int i = 0; i < trace->end_count; i++)
        trace->ends[i].at_ns += clocks[trace->ends[i].sends ? trace->ends[i].from : trace->ends[i].to].zero_ns;
}

dt_status dt_trace_ranks_check(const char *ranks, int world_size)
{
    long first, last;
    for (const char *at = ranks; at;)
        if (!dt_read_range(&at, &first, &last) || last >= world_size)
            return dt_fail(DT_ERR_INVALID, "--trace-ranks %s: expected ranks from 0 to %d, such as 0,3,8-15", ranks, world_size - 1);
    return DT_OK;
}

bool dt_trace_has(const struct dt_trace_wish *wish, int rank)
{
    long first, last;
    bool has = !wish->ranks;
    for (const char *at = wish->ranks; at && !has;)
        has = dt_read_range(&at, &first, &last) && first <= rank && rank <= last;
    return has;
}

dt_status dt_trace_close(struct dt_trace *trace)
{
    if (!trace)
        return DT_OK;
    put_arrows(trace);
    fputs("\n]}\n", trace->file);
    bool no_memory = trace->no_memory;
    dt_status status = dt_output_close(&trace->output, !no_memory);
    for (int i = 0; i < trace->group_count; i++)
        free(trace->groups[i]);
    free(trace->groups);
    free(trace->ends);
    free(trace);
    if (no_memory)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a trace's messages");
    return status == DT_OK ? DT_OK : dt_fail(status, "the trace: %s", dt_error_message());
}
