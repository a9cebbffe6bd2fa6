/* Spans: when the work on a device's streams began and ended, piece by piece, for the trace of a
 * step.
 *
 * Between dt_spans_start and dt_spans_collect every dt_span_begin and dt_span_end marks its stream
 * with a timed event; at other times both do nothing. lib/device/device.c marks copies,
 * lib/comm/comm.c collectives and messages, and lib/kernels and the model families' traced kernels
 * mark themselves; code that queues work does not. A span's time is the stream's: it includes
 * waiting for peers, but not waiting for other streams before the work. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/memory.h"

enum dt_span_category { DT_SPAN_COMPUTE, DT_SPAN_COMMUNICATION, DT_SPAN_COPY, DT_SPAN_PHASE };

struct dt_span {
    char name[40];                          /* "layer_norm", "all_reduce", ... */
    char stream[32];                        /* the stream's name */
    int stream_number;                      /* from 0, by the order of their first spans: two streams may have one name */
    char group[32];                         /* of communication: the communicator's name; else "" */
    enum dt_span_category category;         /* DT_SPAN_PHASE: a phase of a schedule's step, on no stream */
    uint64_t bytes;                         /* bytes moved; 0: not known */
    struct dt_pass pass;                    /* set by dt_pass_enter */
    int peer;                               /* of a message: the other rank in the world; -1: not a message */
    bool sends;                             /* of a message: true if sent */
    bool inside;                            /* a further message of a group; the first message has the group's span */
    int64_t start_ns, end_ns;               /* since dt_spans_start */
    uint64_t held_bytes[DT_CATEGORY_COUNT]; /* device memory in use when the work was queued, in program order (lib/device/memory.h) */
};

/* Recorded spans. The caller owns all. */
struct dt_spans_recorded {
    struct dt_span *all; /* [count] in queueing order */
    int count;
    int64_t zero_ns, zero_error_ns; /* dt_clock_ns at their time 0, and its uncertainty (+-); 0: exact, marks have that clock */
};

/* Start recording. Time 0 is the current end of `stream`'s queue, which is waited for: synchronize
 * the other streams first. Not inside a graph's capture. Only one recording at a time. Errors:
 * DT_ERR_INVALID if one has started already, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status dt_spans_start(struct dt_stream *stream);

/* Call these before and after queueing one piece of work. A span inside another one of the same
 * stream counts as part of it. group may be NULL. */
dt_status dt_span_begin(struct dt_stream *stream, const char *name, enum dt_span_category category, uint64_t bytes, const char *group);
dt_status dt_span_end(struct dt_stream *stream);
/* The span that is open on `stream` contains a message of `bytes` bytes from or to rank `peer` of
 * the world. The bytes are added to the span's. */
dt_status dt_span_message(struct dt_stream *stream, bool sends, int peer, uint64_t bytes);

/* When a timed event of the device was passed, since dt_spans_start. Errors: DT_ERR_INVALID if
 * nothing is being recorded, or the event was not passed. */
dt_status dt_spans_time_of(const struct dt_device *device, const struct dt_event *event, int64_t *out_ns);

/* Return all spans since dt_spans_start, and stop recording. Synchronizes all streams. *out is
 * zeroed after an error. Errors: DT_ERR_INVALID if recording had not started, DT_ERR_HOST_MEMORY,
 * DT_ERR_DEVICE. */
dt_status dt_spans_collect(struct dt_device *device, struct dt_spans_recorded *out);

/* Discard the recording after a step failed. Streams may still be busy with it. */
void dt_spans_forget(struct dt_device *device);
