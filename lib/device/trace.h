/* Traces: what ran when, in the JSON that Perfetto (ui.perfetto.dev) and Chrome (about:tracing) show.
 *
 * A trace has processes (a rank), in each of them threads (a queue), and on each thread spans that do not overlap.
 * Source  "Trace Event Format", Google, 2016: complete events "X", metadata events "M". */
#ifndef LIB_DEVICE_TRACE_H
#define LIB_DEVICE_TRACE_H

#include "lib/base/status.h"

struct dt_trace;

/* One span. Times in seconds from the trace's start. */
struct dt_trace_span {
    int process, thread;
    const char *name, *category;
    double start_s, duration_s;
    double bytes;      /* shown with it; 0: none */
    const char *group; /* likewise: the communicator; NULL */
    double waited_s;   /* likewise: for others, before bytes moved; 0: none */
};

/* Begin a file; it replaces what was there. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_trace_open(const char *path, struct dt_trace **out);
/* Names, shown in the order of the numbers. Nothing here fails at once: dt_trace_close does. */
void dt_trace_process(struct dt_trace *trace, int process, const char *name);
void dt_trace_thread(struct dt_trace *trace, int process, int thread, const char *name);
void dt_trace_span(struct dt_trace *trace, const struct dt_trace_span *span);
/* End the file. Takes NULL. Errors: DT_ERR_IO, when anything could not be written; the file is then removed. */
dt_status dt_trace_close(struct dt_trace *trace);

#endif
