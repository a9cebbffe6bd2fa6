/* Traces: what ran when, in the JSON that Perfetto (ui.perfetto.dev) and Chrome (about:tracing) show.
 *
 * A trace has processes (a rank), in each of them threads (a queue), and on each thread spans that do not overlap.
 * Source  "Trace Event Format", Google, 2016: complete events "X", metadata events "M", flow events "s" and "f",
 * counters "C". */
#ifndef LIB_DEVICE_TRACE_H
#define LIB_DEVICE_TRACE_H

#include "lib/device/device.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_trace;

/* What to trace. */
struct dt_trace_wish {
    const char *path;  /* NULL: nothing */
    const char *ranks; /* "0,3,8-15"; NULL: all of them */
};

/* Errors: DT_ERR_INVALID for a text that is not such a list, or names other ranks than 0 to world_size - 1. */
dt_status dt_trace_ranks_check(const char *ranks, int world_size);
bool dt_trace_has(const struct dt_trace_wish *wish, int rank);

/* One span. Times from the trace's start. */
struct dt_trace_span {
    int process, thread;
    const char *name, *category;
    int64_t start_ns, end_ns;
    double bytes;        /* shown with it; 0: none */
    const char *group;   /* likewise: the communicator; NULL */
    double waited_s;     /* likewise: for others, before bytes moved; 0: none */
    struct dt_pass pass; /* likewise: the micro-batch and part; dt_no_pass(): neither */
};

/* Begin a file; it replaces what was there. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_trace_open(const char *path, struct dt_trace **out);
/* Names, shown in the order of the numbers. Nothing here fails at once: dt_trace_close does. */
void dt_trace_process(struct dt_trace *trace, int process, const char *name);
void dt_trace_thread(struct dt_trace *trace, int process, int thread, const char *name);
void dt_trace_span(struct dt_trace *trace, const struct dt_trace_span *span);
/* What a process holds of each category (enum dt_category) from a time on: a counter, which viewers draw as a curve. */
void dt_trace_memory(struct dt_trace *trace, int process, int64_t at_ns, const uint64_t *held_bytes);
/* One end of a message between two processes on communicators of the span's group: both ends tell the messages of a group, sender and
 * receiver in the same order. dt_trace_close draws an arrow from the begin of the sending span to the end of the receiving one, where both
 * are told, and not backwards in time, as clocks of different machines may have it. */
void dt_trace_message(struct dt_trace *trace, const struct dt_trace_span *span, int peer, bool sends);
/* End the file. Takes NULL. Errors: DT_ERR_IO, when anything could not be written, and DT_ERR_HOST_MEMORY; the file is then removed. */
dt_status dt_trace_close(struct dt_trace *trace);

#endif
