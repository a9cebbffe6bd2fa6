#include "lib/device/trace.h"

#include "lib/base/output_file.h"

#include <stdbool.h>
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

void dt_trace_span(struct dt_trace *trace, const struct dt_trace_span *span)
{
    next(trace);
    fprintf(trace->file, "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": ", span->process, span->thread,
            span->start_s * 1e6, span->duration_s * 1e6);
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

dt_status dt_trace_close(struct dt_trace *trace)
{
    if (!trace)
        return DT_OK;
    fputs("\n]}\n", trace->file);
    dt_status status = dt_output_close(&trace->output, true);
    free(trace);
    return status == DT_OK ? DT_OK : dt_fail(status, "the trace: %s", dt_error_message());
}
