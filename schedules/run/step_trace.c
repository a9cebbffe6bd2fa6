#include "schedules/run/step_trace.h"

#include "lib/device/trace.h"
#include "schedules/run/rank_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step_trace {
    struct dt_comm *world;
    struct dt_trace *file; /* rank 0 */
    struct dt_trace_wish wish;
};

/* What a rank says of itself before it sends its spans. */
struct header {
    struct rank_clock clock;
    int count;
    int64_t zero_ns, zero_error_ns; /* of its spans, on its clock: struct dt_spans_recorded */
};

/* Where a rank's time 0 is on the clock of rank 0, to error_ns on either side. */
struct placed {
    int64_t zero_ns, error_ns;
};

/* `failure` names what a rank could not do, for the others. */
static dt_status agree(struct dt_comm *world, dt_status mine, const char *failure)
{
    int size = dt_comm_size(world), status = mine, *all = calloc((size_t)size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", size);
    dt_status gathered = dt_host_all_gather(world, &status, sizeof status, all);
    for (int i = 0; gathered == DT_OK && mine == DT_OK && i < size; i++)
        if (all[i] < 0)
            gathered = dt_fail(all[i], "rank %d cannot %s", i, failure);
    free(all);
    return mine < 0 ? mine : gathered;
}

dt_status step_trace_open(const struct dt_trace_wish *wish, struct dt_comm *world, struct step_trace **out)
{
    struct step_trace *trace = *out = calloc(1, sizeof *trace);
    if (!trace)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a trace");
    trace->world = world;
    trace->wish = *wish;
    char failure[512];
    snprintf(failure, sizeof failure, "write the trace %s", wish->path);
    dt_status status = agree(world, dt_comm_rank(world) == 0 ? dt_trace_open(wish->path, &trace->file) : DT_OK, failure);
    if (status < 0) {
        step_trace_close(trace);
        *out = NULL;
    }
    return status;
}

dt_status step_trace_close(struct step_trace *trace)
{
    if (!trace)
        return DT_OK;
    dt_status status = dt_trace_close(trace->file);
    free(trace);
    return status;
}

/* The earliest rank's time 0 becomes the trace's. */
static void place_ranks(const struct header *headers, int size, struct placed *placed)
{
    int64_t earliest_ns = INT64_MAX;
    for (int i = 0; i < size; i++) {
        placed[i].zero_ns = headers[i].zero_ns - rank_clock_ahead_ns(&headers[0].clock, &headers[i].clock, &placed[i].error_ns);
        placed[i].error_ns += headers[i].zero_error_ns;
        earliest_ns = placed[i].zero_ns < earliest_ns ? placed[i].zero_ns : earliest_ns;
    }
    for (int i = 0; i < size; i++)
        placed[i].zero_ns -= earliest_ns;
}

static void name_rank(struct dt_trace *file, int rank, const struct header *header, int64_t error_ns)
{
    char name[160];
    if (error_ns > 0)
        snprintf(name, sizeof name, "rank %d (%.63s, times to %.1f us)", rank, header->clock.host, (double)error_ns / 1e3);
    else
        snprintf(name, sizeof name, "rank %d (%.63s)", rank, header->clock.host);
    dt_trace_process(file, rank, name);
}

/* Rows of a rank: the phases first, then its streams. */
static void write_rank(struct dt_trace *file, int rank, const struct header *header, const struct placed *placed,
                       const struct dt_span *spans)
{
    static const char *const categories[] = {
        [DT_SPAN_COMPUTE] = "compute",
        [DT_SPAN_COMMUNICATION] = "communication",
        [DT_SPAN_COPY] = "copy",
        [DT_SPAN_PHASE] = "phase",
    };
    int named = 0; /* streams are numbered in the order in which they come */
    name_rank(file, rank, header, placed->error_ns);
    dt_trace_thread(file, rank, 0, "phases");
    for (int i = 0; i < header->count; i++) {
        const struct dt_span *span = &spans[i];
        int thread = span->category == DT_SPAN_PHASE ? 0 : span->stream_number + 1;
        if (thread > named) {
            dt_trace_thread(file, rank, thread, span->stream);
            named = thread;
        }
        struct dt_trace_span bar = {
            .process = rank,
            .thread = thread,
            .name = span->name,
            .category = categories[span->category],
            .start_ns = placed->zero_ns + span->start_ns,
            .end_ns = placed->zero_ns + span->end_ns,
            .bytes = (double)span->bytes,
            .group = span->group[0] ? span->group : NULL,
            .pass = span->pass,
        };
        if (!span->inside)
            dt_trace_span(file, &bar);
        if (span->peer >= 0)
            dt_trace_message(file, &bar, span->peer, span->sends);
    }
}

/* Everybody's spans to everybody, as long as the longest list; rank 0 writes. */
static dt_status exchange(struct step_trace *trace, const struct header *headers, const struct dt_span *mine)
{
    int size = dt_comm_size(trace->world), most = 1, rank = dt_comm_rank(trace->world);
    for (int i = 0; i < size; i++)
        most = headers[i].count > most ? headers[i].count : most;
    size_t bytes = (size_t)most * sizeof(struct dt_span);
    struct dt_span *padded = calloc((size_t)most, sizeof *padded), *all = calloc((size_t)size, bytes);
    struct placed *placed = calloc((size_t)size, sizeof *placed);
    dt_status status = padded && all && placed ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the spans of %d ranks", size);
    status = agree(trace->world, status, "hold all ranks' spans");
    if (status == DT_OK) {
        if (headers[rank].count > 0)
            memcpy(padded, mine, (size_t)headers[rank].count * sizeof *mine);
        status = dt_host_all_gather(trace->world, padded, bytes, all);
    }
    if (status == DT_OK)
        place_ranks(headers, size, placed);
    for (int i = 0; status == DT_OK && trace->file && i < size; i++)
        if (dt_trace_has(&trace->wish, i))
            write_rank(trace->file, i, &headers[i], &placed[i], all + (size_t)i * (size_t)most);
    free(placed);
    free(padded);
    free(all);
    return status;
}

dt_status step_trace_run(struct step_trace *trace, struct trainer *trainer, int step)
{
    size_t size = (size_t)dt_comm_size(trace->world);
    struct header mine = {0}, *headers = calloc(size, sizeof *headers);
    struct dt_spans_recorded spans = {0};
    dt_status status = headers ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %zu ranks", size);
    status = agree(trace->world, status, "trace a step"); /* and they begin together */
    if (status == DT_OK)
        status = rank_clock_read(trace->world, &mine.clock);
    if (status == DT_OK)
        status = trainer_traced_step(trainer, step, &spans);
    mine.count = spans.count;
    mine.zero_ns = spans.zero_ns;
    mine.zero_error_ns = spans.zero_error_ns;
    if (status == DT_OK)
        status = dt_host_all_gather(trace->world, &mine, sizeof mine, headers);
    if (status == DT_OK)
        status = exchange(trace, headers, spans.all);
    free(spans.all);
    free(headers);
    return status;
}
