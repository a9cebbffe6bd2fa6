#include "predict/simulation_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simulation_trace {
    struct dt_trace *trace;
    struct dt_trace_wish wish;
    bool (*named)[DT_SIM_MAX_STREAMS + 1]; /* [world_size] queues of the rank that have a name; the first is the host */
    uint64_t (*held)[DT_CATEGORY_COUNT];   /* [world_size] the memory of the rank that was written last */
};

/* The category of a span: the host's work, a collective or message, a copy, or a kernel. */
static const char *category_of(const struct dt_sim_span *span)
{
    if (span->queue < 0)
        return "host";
    if (span->group_name)
        return "communication";
    return span->bytes > 0 ? "copy" : "compute";
}

static void on_span(void *context, const struct dt_sim_span *span)
{
    struct simulation_trace *t = context;
    int thread = span->queue + 1; /* the host's queue is -1 */
    if (!dt_trace_has(&t->wish, span->rank))
        return;
    if (!t->named[span->rank][thread]) {
        t->named[span->rank][thread] = true;
        dt_trace_thread(t->trace, span->rank, thread, span->queue_name);
    }
    struct dt_trace_span bar = {
        .process = span->rank,
        .thread = thread,
        .name = span->label,
        .category = category_of(span),
        .start_ns = llround(span->start_s * 1e9),
        .end_ns = llround(span->end_s * 1e9),
        .bytes = span->bytes,
        .group = span->group_name,
        .waited_s = span->moving_s - span->start_s,
        .pass = {span->micro_batch, span->part},
    };
    dt_trace_span(t->trace, &bar);
    /* Computation is queued in the order in which it runs; work of other queues may begin much
     * later. */
    bool computes = strcmp(bar.category, "compute") == 0;
    if (computes && memcmp(t->held[span->rank], span->held_bytes, sizeof t->held[0]) != 0) {
        memcpy(t->held[span->rank], span->held_bytes, sizeof t->held[0]);
        dt_trace_memory(t->trace, span->rank, bar.start_ns, t->held[span->rank]);
    }
    if (span->peer >= 0)
        dt_trace_message(t->trace, &bar, span->peer, span->sends);
}

dt_status simulation_trace_open(const struct dt_trace_wish *wish, const struct simulated_system *s, int world_size,
                                struct simulation_trace **out, struct dt_sim_collector *collector)
{
    struct simulation_trace *t = calloc(1, sizeof *t);
    *out = NULL;
    DT_TRY(dt_allocated(t, "no host memory for a trace"));
    *t = (struct simulation_trace){
        .wish = *wish, .named = calloc((size_t)world_size, sizeof *t->named), .held = calloc((size_t)world_size, sizeof *t->held)};
    dt_status status = dt_allocated(t->named && t->held, "no host memory for a trace of %d ranks", world_size);
    DT_THEN(status, dt_trace_open(wish->path, &t->trace));
    if (status < 0) {
        simulation_trace_close(t);
        return status;
    }
    for (int rank = 0; rank < world_size; rank++) {
        char name[64];
        if (!dt_trace_has(wish, rank))
            continue;
        snprintf(name, sizeof name, "rank %d (node %d, GPU %d)", rank, rank / s->placement.ranks_per_node,
                 rank % s->placement.ranks_per_node);
        dt_trace_process(t->trace, rank, name);
    }
    *collector = (struct dt_sim_collector){.context = t, .span = on_span};
    *out = t;
    return DT_OK;
}

dt_status simulation_trace_close(struct simulation_trace *t)
{
    if (!t)
        return DT_OK;
    dt_status status = dt_trace_close(t->trace);
    free(t->named);
    free(t->held);
    free(t);
    return status;
}
