/* Traces: the begin and end of all work, in the JSON that Perfetto (ui.perfetto.dev) and Chrome
 * (about:tracing) show.
 *
 * A trace has processes (a rank), in each of them threads (a queue), and on each thread spans that
 * do not overlap.
 * Source  "Trace Event Format", Google, 2016: complete events "X", metadata events "M", flow events
 *         "s" and "f", counters "C". */
#pragma once

#include "lib/device/device.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_trace;

/* What to trace. */
struct dt_trace_wish {
    const char *path;  /* NULL: nothing */
    const char *ranks; /* "0,3,8-15"; NULL: all of them */
};

/* Errors: DT_ERR_INVALID if the text is not such a list, or names ranks outside 0 to world_size -
 * 1. */
dt_status dt_trace_ranks_check(const char *ranks, int world_size);
bool dt_trace_has(const struct dt_trace_wish *wish, int rank);

/* One span. Times from the trace's start. */
struct dt_trace_span {
    int process, thread;
    const char *name, *category;
    int64_t start_ns, end_ns;
    double bytes;        /* shown with the span; 0: none */
    const char *group;   /* shown too: the communicator; NULL: none */
    double waited_s;     /* shown too: time waited for other ranks, before bytes moved; 0: none */
    struct dt_pass pass; /* shown too: the micro-batch and part; dt_no_pass(): neither */
};

/* Create the file; an existing one is replaced. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status dt_trace_open(const char *path, struct dt_trace **out);
/* Names, shown in the order of the numbers. Errors of these functions are reported by
 * dt_trace_close. */
void dt_trace_process(struct dt_trace *trace, int process, const char *name);
void dt_trace_thread(struct dt_trace *trace, int process, int thread, const char *name);
void dt_trace_span(struct dt_trace *trace, const struct dt_trace_span *span);
/* Memory that a process holds in each category (enum dt_category) from a time on: a counter, which
 * viewers draw as a curve. */
void dt_trace_memory(struct dt_trace *trace, int process, int64_t at_ns, const uint64_t *held_bytes);
/* Report one end of a message between two processes, on the communicator of the span's group.
 * Sender and receiver report the messages of a group in the same order. dt_trace_close draws an
 * arrow from the begin of the sending span to the end of the receiving one, if both ends were
 * reported. It draws no arrow backwards in time, which only wrong clocks can cause. */
void dt_trace_message(struct dt_trace *trace, const struct dt_trace_span *span, int peer, bool sends);

/* Time 0 of a process in the trace's time, correct to +- error_ns. */
struct dt_trace_clock {
    int64_t zero_ns, error_ns;
};
/* Put processes 0 to count - 1 on one clock. clocks [count]: what is known of their times 0; the
 * messages that were reported count from these. No message arrives before it is sent, which narrows
 * the errors: clocks receives the middle of what remains, and the earliest time 0 becomes 0. Where
 * messages contradict a clock's error, it stays as it was.
 * Source  A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating global time in distributed
 *         systems", ICDCS 1987: bounds of clocks by messages; solved as differences with bounds
 *         (R. Bellman, "On a routing problem", 1958). */
void dt_trace_place(struct dt_trace *trace, struct dt_trace_clock *clocks, int count);
/* End the file. Takes NULL. Errors: DT_ERR_IO, if anything could not be written, and
 * DT_ERR_HOST_MEMORY; the file is then removed. */
dt_status dt_trace_close(struct dt_trace *trace);
