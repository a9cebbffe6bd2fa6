/* Where a step's time goes: the compute stream's time divided into phases by events.
 *
 * timeline_enter marks the compute stream: from here on its time belongs to `phase`, until the next mark. A step's phases therefore add up
 * to the step. TIMELINE_EXPOSED is the time in which the compute stream waits for a network stream, or for a copy from or to host memory:
 * communication that nothing hides, a pipeline's bubble included, because a stage in its bubble waits for a message. */
#ifndef SCHEDULES_STEP_TIMELINE_H
#define SCHEDULES_STEP_TIMELINE_H

#include "lib/device/span.h"

enum timeline_phase { TIMELINE_OTHER, TIMELINE_FORWARD, TIMELINE_BACKWARD, TIMELINE_OPTIMIZER, TIMELINE_EXPOSED, TIMELINE_PHASES };

struct timeline;

dt_status timeline_create(struct dt_device *device, struct dt_stream *compute, struct timeline **out);
void timeline_destroy(struct timeline *timeline); /* takes NULL; compute must be synchronized */

dt_status timeline_start(struct timeline *timeline); /* forget earlier marks; the step begins here, in OTHER */
dt_status timeline_enter(struct timeline *timeline, enum timeline_phase phase);
/* compute waits for `event` of a network or copy stream; the wait counts as EXPOSED, then the phase goes on as before. */
dt_status timeline_wait(struct timeline *timeline, const struct dt_event *event);
/* Close the step. After the compute stream is synchronized, timeline_collect gives the time of each phase. */
dt_status timeline_stop(struct timeline *timeline);
dt_status timeline_collect(const struct timeline *timeline, int64_t phase_ns[TIMELINE_PHASES]);
/* The same one by one while lib/device/span.h records: *out [*count], the caller's to free, in order. */
dt_status timeline_spans(const struct timeline *timeline, struct dt_span **out, int *count);

#endif
