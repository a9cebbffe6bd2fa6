/* The critical path of a traced step (lib/device/trace.h): the chain of spans, each waiting for the
 * one before it, that is as long as the step.
 *
 * Method  From the span that ends last back to the beginning. The trace shows what a span waits
 *         for: a received message waits for the sending span (its arrow); a collective waits for
 *         the rank that arrived last; any other span waits for the span of its rank that ends last
 *         before it begins, on any row, preferably its own if several end at once. If no span ends
 *         shortly before, the trace does not explain the time between. A trace of some ranks has
 *         the path of these.
 * Limits  A span that ends by chance just before another one begins is taken for its cause. Clocks
 *         of several machines agree within what the trace says. */
#pragma once

#include "lib/base/status.h"

#include <stdio.h>

struct trace_spans;

/* Errors: DT_ERR_IO, DT_ERR_INVALID for a file that is not dtbench's trace, DT_ERR_HOST_MEMORY.
 * Owner of *out: the caller. */
dt_status trace_spans_read(const char *path, struct trace_spans **out);
void trace_spans_destroy(struct trace_spans *spans); /* takes NULL */
DT_DESTROYS(trace_spans_destroy, struct trace_spans)

/* Print where the step's time is spent along the critical path, and its ranks over time as a
 * picture of `width` columns. For one rank: what its computation waits for. Errors: DT_ERR_INVALID
 * for a rank that is not in the trace; DT_ERR_HOST_MEMORY. */
dt_status trace_path_print(const struct trace_spans *spans, int width, FILE *to);
dt_status trace_rank_print(const struct trace_spans *spans, int rank, FILE *to);
