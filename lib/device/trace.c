#include "lib/device/trace.h"

#include "lib/base/output_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dt_trace {
    struct dt_output_file output;
    FILE *file; /* output.stream */
    bool begun;
};

dt_status dt_trace_open(const char *path, struct dt_trace **out)
{
    struct dt_trace *trace = calloc(1, sizeof *trace);
    *out = NULL;
    if (!trace)
        return dt_fail(DT_ERR_HOST_MEMORY, "%s: no host memory for a trace", path);
    dt_status status = dt_output_open(path, &trace->output);
    if (status < 0) {
        free(trace);
        return dt_fail(status, "the trace: %s", dt_error_message());
    }
    trace->file = trace->output.stream;
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", trace->file);
    *out = trace;
    return DT_OK;
}

static void next(struct dt_trace *trace)
{
    fputs(trace->begun ? ",\n" : "\n", trace->file);
    trace->begun = true;
}

/* A JSON string. Names are dtbench's own; what is not printable ASCII is left out. */
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

/* Traces count in microseconds. Whole nanoseconds keep spans that follow each other from overlapping. */
static void put_us(struct dt_trace *trace, const char *key, int64_t ns)
{
    fprintf(trace->file, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
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
    if (span->bytes > 0 || span->group) {
        fprintf(trace->file, ", \"args\": {\"bytes\": %.0f, \"waited_us\": %.3f", span->bytes, span->waited_s * 1e6);
        if (span->group) {
            fputs(", \"communicator\": ", trace->file);
            put_text(trace, span->group);
        }
        fputc('}', trace->file);
    }
    fputc('}', trace->file);
}

void dt_trace_flow(struct dt_trace *trace, int process, int thread, bool begins, int64_t at_ns, const char *id)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d", begins ? "s" : "f\", \"bp\": \"e", process, thread);
    put_us(trace, "ts", at_ns);
    fputs(", \"name\": \"message\", \"cat\": \"message\", \"id\": ", trace->file);
    put_text(trace, id);
    fputc('}', trace->file);
}

/* One rank, or two with a dash between. NULL: it is neither. */
static const char *read_ranks(const char *text, long *first, long *last)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    *first = *last = strtol(text, &end, 10);
    if (*end == '-') {
        text = end + 1;
        if (*text < '0' || *text > '9')
            return NULL;
        *last = strtol(text, &end, 10);
    }
    return *first <= *last && (*end == 0 || *end == ',') ? end : NULL;
}

dt_status dt_trace_ranks_check(const char *ranks, int world_size)
{
    long first, last;
    const char *at = ranks;
    do {
        at = read_ranks(at, &first, &last);
        if (!at || last >= world_size)
            return dt_fail(DT_ERR_INVALID, "--trace-ranks %s: expected ranks from 0 to %d, such as 0,3,8-15", ranks, world_size - 1);
    } while (*at++ == ',');
    return DT_OK;
}

bool dt_trace_has(const struct dt_trace_wish *wish, int rank)
{
    long first, last;
    bool has = !wish->ranks;
    for (const char *at = wish->ranks; at && !has; at = *at == ',' ? at + 1 : NULL) {
        at = read_ranks(at, &first, &last);
        if (!at)
            return false;
        has = first <= rank && rank <= last;
    }
    return has;
}

dt_status dt_trace_close(struct dt_trace *trace)
{
    if (!trace)
        return DT_OK;
    fputs("\n]}\n", trace->file);
    dt_status status = dt_output_close(&trace->output, true);
    free(trace);
    return status == DT_OK ? DT_OK : dt_fail(status, "the trace: %s", dt_error_message());
}
