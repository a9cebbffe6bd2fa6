/* How a step's time is spent: events divide the compute stream's time into phases.
 *
 * timeline_enter marks the compute stream: from here on its time belongs to `phase`, until the next
 * mark. A step's phases therefore add up to the step. TIMELINE_EXPOSED is the time that the compute
 * stream waits for a network stream, or for a copy from or to host memory: exposed communication.
 * TIMELINE_MESSAGE is the same for a message from a neighbouring stage of a pipeline; a part of it
 * is the pipeline's bubble (schedules/step/step_times.h).
 *
 * Messages have keys, which are the same on both ranks and unique in a step of a pipeline. */
#pragma once

#include "lib/device/span.h"

enum timeline_phase { TIMELINE_FORWARD, TIMELINE_BACKWARD, TIMELINE_OPTIMIZER, TIMELINE_EXPOSED, TIMELINE_MESSAGE, TIMELINE_PHASES };

/* One rank's end of a message, in ns from the step's first mark. */
struct timeline_message {
    uint64_t key;
    int64_t begin_ns, end_ns; /* received: compute began to wait, and went on. Sent: both are when compute had made it */
};

struct timeline_times {
    int64_t phase_ns[TIMELINE_PHASES]; /* without host_ns; copies within the compute stream are EXPOSED */
    int64_t host_ns;                   /* compute had nothing queued */
    int64_t all_ns;                    /* with host_ns: from the first mark to the last */
};

struct timeline;

dt_status timeline_create(struct dt_device *device, struct dt_stream *compute, struct timeline **out);
void timeline_destroy(struct timeline *timeline); /* takes NULL; compute must be synchronized */

/* Synchronize all streams, even after one has failed; NULL entries are skipped. Errors: the first
 * one's. */
dt_status streams_synchronize(struct dt_stream *const *streams, size_t count);

dt_status timeline_start(struct timeline *timeline); /* forget earlier marks; the step begins here, in FORWARD */
dt_status timeline_enter(struct timeline *timeline, enum timeline_phase phase);
/* compute waits for `event` of a network or copy stream; the wait counts as EXPOSED, then the phase
 * goes on as before. */
dt_status timeline_wait(struct timeline *timeline, const struct dt_event *event);
/* The same for all work queued so far on another stream. */
dt_status timeline_follow(struct timeline *timeline, struct dt_stream *source);
/* timeline_wait for message `key`, which the stream of `event` receives; the wait counts as MESSAGE. */
dt_status timeline_receive(struct timeline *timeline, const struct dt_event *event, uint64_t key);
/* Mark that compute has made message `key`, which another stream now sends. */
dt_status timeline_send(struct timeline *timeline, uint64_t key);
/* Close the step. After the compute stream is synchronized, timeline_collect gives the time of each
 * phase. */
dt_status timeline_stop(struct timeline *timeline);
dt_status timeline_collect(const struct timeline *timeline, struct timeline_times *out);
const struct dt_event *timeline_begin(const struct timeline *timeline); /* the first mark */
/* The step's messages, received or sent, in order: *out [*count], the caller's to free. Errors:
 * also DT_ERR_HOST_MEMORY. */
dt_status timeline_messages(const struct timeline *timeline, bool sent, struct timeline_message **out, int *count);
/* The phases one by one, if lib/device/span.h records: *out [*count] in order, the caller's to
 * free. */
dt_status timeline_spans(const struct timeline *timeline, struct dt_span **out, int *count);
