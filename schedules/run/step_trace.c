#include "schedules/run/step_trace.h"

#include "lib/device/trace.h"
#include "schedules/run/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step_trace {
    struct dt_comm *world;
    struct dt_trace *file; /* rank 0 */
    struct dt_trace_wish wish;
};

/* What a rank sends before its spans. */
struct header {
    struct rank_clock clock;
    int count, messages;            /* its spans, and those of them that are messages */
    int64_t zero_ns, zero_error_ns; /* time 0 of its spans, on its clock: struct dt_spans_recorded */
};

/* `failure` tells the other ranks what a rank could not do. */
static dt_status agree(struct dt_comm *world, dt_status mine, const char *failure)
{
    int status = mine, *all;
    dt_status gathered = dt_host_collect(world, &status, sizeof status, &all);
    for (int i = 0; gathered == DT_OK && mine == DT_OK && i < dt_comm_size(world); i++)
        if (all[i] < 0)
            gathered = dt_fail(all[i], "rank %d cannot %s", i, failure);
    free(all);
    return mine < 0 ? mine : gathered;
}

dt_status step_trace_open(const struct dt_trace_wish *wish, struct dt_comm *world, struct step_trace **out)
{
    DT_DESTROYED(step_trace_close) struct step_trace *trace = calloc(1, sizeof *trace);
    DT_TRY(dt_allocated(trace, "no host memory for a trace"));
    trace->world = world;
    trace->wish = *wish;
    char failure[512];
    snprintf(failure, sizeof failure, "write the trace %s", wish->path);
    DT_TRY(agree(world, dt_comm_rank(world) == 0 ? dt_trace_open(wish->path, &trace->file) : DT_OK, failure));
    *out = DT_PASSED_ON(trace);
    return DT_OK;
}

dt_status step_trace_close(struct step_trace *trace)
{
    if (!trace)
        return DT_OK;
    dt_status status = dt_trace_close(trace->file);
    free(trace);
    return status;
}

/* Each rank's time 0 on the clock of rank 0. */
static void read_clocks(const struct header *headers, int size, struct dt_trace_clock *clocks)
{
    for (int i = 0; i < size; i++) {
        clocks[i].zero_ns = headers[i].zero_ns - rank_clock_ahead_ns(&headers[0].clock, &headers[i].clock, &clocks[i].error_ns);
        clocks[i].error_ns += headers[i].zero_error_ns;
    }
}

static void name_rank(struct dt_trace *file, int rank, const struct header *header, int64_t error_ns)
{
    char name[160];
    if (error_ns > 0)
        snprintf(name, sizeof name, "rank %d (%.63s, times to %.1f us)", rank, header->clock.host.text, (double)error_ns / 1e3);
    else
        snprintf(name, sizeof name, "rank %d (%.63s)", rank, header->clock.host.text);
    dt_trace_process(file, rank, name);
}

/* What rank 0 knows and writes of the ranks. */
struct writing {
    struct dt_trace *file;
    struct dt_trace_clock *clocks; /* [size] */
    int *named;                    /* [size] number of a rank's rows that have a name, from the first */
};

/* A row of the trace: the phases are the first, then come the streams. */
static int row_of(const struct dt_span *span)
{
    return span->category == DT_SPAN_PHASE ? 0 : span->stream_number + 1;
}

/* Report the ends of messages, by the rank's own clock. */
static void report_messages(struct writing *w, int rank, const struct dt_span *spans, int count)
{
    for (int i = 0; i < count; i++) {
        struct dt_trace_span bar = {.process = rank,
                                    .thread = row_of(&spans[i]),
                                    .start_ns = spans[i].start_ns,
                                    .end_ns = spans[i].end_ns,
                                    .group = spans[i].group};
        dt_trace_message(w->file, &bar, spans[i].peer, spans[i].sends);
    }
}

static void write_spans(struct writing *w, int rank, const struct dt_span *spans, int count)
{
    static const char *const categories[] = {
        [DT_SPAN_COMPUTE] = "compute",
        [DT_SPAN_COMMUNICATION] = "communication",
        [DT_SPAN_COPY] = "copy",
        [DT_SPAN_PHASE] = "phase",
    };
    const struct dt_span *counted = NULL; /* the last span whose memory has been written */
    for (int i = 0; i < count; i++) {
        const struct dt_span *span = &spans[i];
        int thread = row_of(span);
        if (thread > w->named[rank]) { /* streams are numbered in the order of their first spans */
            dt_trace_thread(w->file, rank, thread, span->stream);
            w->named[rank] = thread;
        }
        struct dt_trace_span bar = {
            .process = rank,
            .thread = thread,
            .name = span->name,
            .category = categories[span->category],
            .start_ns = w->clocks[rank].zero_ns + span->start_ns,
            .end_ns = w->clocks[rank].zero_ns + span->end_ns,
            .bytes = (double)span->bytes,
            .group = span->group[0] ? span->group : NULL,
            .pass = span->pass,
        };
        if (!span->inside)
            dt_trace_span(w->file, &bar);
        /* Computation is queued in the order in which it runs; work of other streams may begin much
         * later than it is queued. */
        bool computes = span->category == DT_SPAN_COMPUTE;
        if (computes && (!counted || memcmp(counted->held_bytes, span->held_bytes, sizeof span->held_bytes) != 0))
            dt_trace_memory(w->file, rank, bar.start_ns, span->held_bytes);
        counted = computes ? span : counted;
    }
}

/* Spans of each rank that are sent to rank 0 at a time: a trace of many ranks may be larger than
 * its memory. */
enum { SPANS_A_ROUND = 256 };

static int in_round(int count, int at)
{
    int left = count - at;
    return left < 0 ? 0 : left < SPANS_A_ROUND ? left : SPANS_A_ROUND;
}

/* Send spans of every rank, mine [counts[own rank]], to rank 0, which takes those of each. piece
 * [SPANS_A_ROUND]; rank 0: all [size * SPANS_A_ROUND]. counts [size]: 0 for ranks that are not in
 * the trace. */
static dt_status exchange_rounds(struct step_trace *trace, const int *counts, const struct dt_span *mine, struct dt_span *piece,
                                 struct dt_span *all, struct writing *w,
                                 void (*take)(struct writing *w, int rank, const struct dt_span *spans, int count))
{
    int size = dt_comm_size(trace->world), most = 0, rank = dt_comm_rank(trace->world);
    for (int i = 0; i < size; i++)
        most = counts[i] > most ? counts[i] : most;
    for (int at = 0; at < most; at += SPANS_A_ROUND) {
        int own = in_round(counts[rank], at);
        if (own > 0)
            memcpy(piece, mine + at, (size_t)own * sizeof *piece);
        DT_TRY(dt_host_gather(trace->world, piece, SPANS_A_ROUND * sizeof *piece, all));
        for (int i = 0; w->file && i < size; i++)
            take(w, i, all + (size_t)i * SPANS_A_ROUND, in_round(counts[i], at));
    }
    return DT_OK;
}

/* Put the ranks on one clock, and begin their rows. */
static void begin_rows(struct step_trace *trace, const struct header *headers, struct writing *w)
{
    int size = dt_comm_size(trace->world);
    dt_trace_place(w->file, w->clocks, size);
    for (int i = 0; i < size; i++) {
        if (!dt_trace_has(&trace->wish, i))
            continue;
        name_rank(w->file, i, &headers[i], w->clocks[i].error_ns);
        dt_trace_thread(w->file, i, 0, "phases");
    }
}

static int count_messages(const struct dt_span *spans, int count)
{
    int messages = 0;
    for (int i = 0; i < count; i++)
        messages += spans[i].peer >= 0;
    return messages;
}

/* Send every rank's spans to rank 0, which writes them: first the messages, which the clocks are
 * read by. */
static dt_status exchange(struct step_trace *trace, const struct header *headers, const struct dt_span *mine)
{
    int size = dt_comm_size(trace->world), rank = dt_comm_rank(trace->world), picked = 0;
    size_t places = trace->file ? (size_t)size : 1;
    struct writing w = {trace->file, calloc((size_t)size, sizeof *w.clocks), calloc(places, sizeof *w.named)};
    DT_FREED struct dt_trace_clock *clocks = w.clocks;
    DT_FREED int *named = w.named;
    DT_FREED struct dt_span *piece = calloc(SPANS_A_ROUND, sizeof *piece);
    DT_FREED struct dt_span *all = calloc(places * SPANS_A_ROUND, sizeof *all);
    DT_FREED struct dt_span *messages = calloc((size_t)headers[rank].messages + 1, sizeof *messages);
    DT_FREED int *counts = calloc((size_t)size, sizeof *counts);
    DT_FREED int *message_counts = calloc((size_t)size, sizeof *counts);
    dt_status status = dt_allocated(clocks && named && piece && all && messages && counts && message_counts,
                                    "no host memory for the spans of %d ranks", size);
    DT_TRY(agree(trace->world, status, "hold all ranks' spans"));
    for (int i = 0; i < headers[rank].count; i++)
        if (mine[i].peer >= 0)
            messages[picked++] = mine[i];
    for (int i = 0; i < size; i++) {
        counts[i] = dt_trace_has(&trace->wish, i) ? headers[i].count : 0;
        message_counts[i] = dt_trace_has(&trace->wish, i) ? headers[i].messages : 0;
    }
    DT_TRY(exchange_rounds(trace, message_counts, messages, piece, all, &w, report_messages));
    if (w.file) {
        read_clocks(headers, size, w.clocks);
        begin_rows(trace, headers, &w);
    }
    return exchange_rounds(trace, counts, mine, piece, all, &w, write_spans);
}

dt_status step_trace_run(struct step_trace *trace, struct trainer *trainer, int step)
{
    size_t size = (size_t)dt_comm_size(trace->world);
    struct header mine = {0}, *headers = calloc(size, sizeof *headers);
    struct dt_spans_recorded spans = {0};
    dt_status status = dt_allocated(headers, "no host memory for %zu ranks", size);
    status = agree(trace->world, status, "trace a step"); /* this also makes the ranks begin together */
    DT_THEN(status, rank_clock_read(trace->world, &mine.clock));
    DT_THEN(status, trainer_traced_step(trainer, step, &spans));
    mine.count = spans.count;
    mine.messages = count_messages(spans.all, spans.count);
    mine.zero_ns = spans.zero_ns;
    mine.zero_error_ns = spans.zero_error_ns;
    DT_THEN(status, dt_host_all_gather(trace->world, &mine, sizeof mine, headers));
    DT_THEN(status, exchange(trace, headers, spans.all));
    free(spans.all);
    free(headers);
    return status;
}
