/* Spans: when the work on a device's streams began and ended, piece by piece, for the trace of a step.
 *
 * Between dt_spans_start and dt_spans_collect every dt_span_begin and dt_span_end marks its stream with a timed event; at other times both
 * do nothing. lib/device/device.c marks copies, lib/comm/comm.c collectives and messages, lib/kernels and families' traced kernels themselves: whoever queues
 * work need not know. A span's time is the stream's own, waiting for peers included, but not waiting for other streams before the work. */
#ifndef LIB_DEVICE_SPAN_H
#define LIB_DEVICE_SPAN_H

#include "lib/device/device.h"
#include "lib/device/memory.h"

enum dt_span_category { DT_SPAN_COMPUTE, DT_SPAN_COMMUNICATION, DT_SPAN_COPY, DT_SPAN_PHASE };

struct dt_span {
    char name[40];                          /* "layer_norm", "all_reduce", ... */
    char stream[32];                        /* the stream's name */
    int stream_number;                      /* from 0, by the order of their first spans: two streams may have one name */
    char group[32];                         /* of communication: the communicator; else "" */
    enum dt_span_category category;         /* DT_SPAN_PHASE: of a schedule's step, and of no stream */
    uint64_t bytes;                         /* that move; 0 where it does not say */
    struct dt_pass pass;                    /* dt_pass_enter */
    int peer;                               /* of a message: the other rank in the world; -1: not a message */
    bool sends;                             /* of a message */
    bool inside;                            /* one more message of a group, whose first one has the span */
    int64_t start_ns, end_ns;               /* from dt_spans_start on */
    uint64_t held_bytes[DT_CATEGORY_COUNT]; /* of the device's memory when it was queued, in program order (lib/device/memory.h) */
};

/* What was recorded. Owner of all: the caller. */
struct dt_spans_recorded {
    struct dt_span *all; /* [count] in the order in which they were queued */
    int count;
    int64_t zero_ns,
        zero_error_ns; /* dt_clock_ns at their time 0, known to so much to either side; 0 where marks are read off that clock */
};

/* From now on; times count from where `stream` is now, which is waited for: synchronize the others first. Not inside a graph's capture. One
 * at a time. Errors: DT_ERR_INVALID when it has started already, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status dt_spans_start(struct dt_stream *stream);

/* Around the queueing of one piece of work. A span inside another of the same stream is part of that one. group may be NULL. */
dt_status dt_span_begin(struct dt_stream *stream, const char *name, enum dt_span_category category, uint64_t bytes, const char *group);
dt_status dt_span_end(struct dt_stream *stream);
/* The span that is open on `stream` is, or is among others, a message of `bytes` bytes from or to rank `peer` of the world. Its bytes
 * become more by them. */
dt_status dt_span_message(struct dt_stream *stream, bool sends, int peer, uint64_t bytes);

/* When a timed event of the device was passed, from dt_spans_start on. Errors: DT_ERR_INVALID when nothing is recorded, or not passed. */
dt_status dt_spans_time_of(const struct dt_device *device, const struct dt_event *event, int64_t *out_ns);

/* All spans since dt_spans_start, and no more from here on. All streams are synchronized. *out is zeroed after an error.
 * Errors: DT_ERR_INVALID when it had not started, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status dt_spans_collect(struct dt_device *device, struct dt_spans_recorded *out);

/* Drop what was marked, where a step failed. Streams may still be busy with it. */
void dt_spans_forget(struct dt_device *device);

#endif
