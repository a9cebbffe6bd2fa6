/* A step from its common beginning to its common end, divided completely into each rank's phases.
 *
 *   forward, backward, optimizer   kernels run
 *   exposed communication          compute waits for collectives, for messages that are being sent,
 *                                  for copies from or to host memory, or at the end of the step for
 *                                  other ranks bubble it waits for a message that a neighbouring
 *                                  stage has not yet made, or is done while other stages are not
 *                                  data it waits for its samples to be read from a file host it
 *                                  waits for the host: for launches, at the beginning and at the
 *                                  end of the step
 *
 * A wait for a message is bubble until the sender has made the message, and communication after
 * that. Both times count from the step's first mark on their ranks: with different clocks, ranks
 * begin a step together as exactly as the preceding exchange allows. */
#pragma once

#include "lib/record/metrics.h"
#include "schedules/step/timeline.h"

/* What a rank waits for that is done before the others. */
enum step_end { STEP_ENDS_ALONE, STEP_ENDS_WITH_RANKS, STEP_ENDS_WITH_STAGES };

/* What one rank measures of its step. */
struct step_times {
    struct timeline_times timeline;
    int64_t bubble_ns; /* the bubble's part of the waits for messages */
    double data_s;     /* until its samples were read, before anything was queued */
    double own_s;      /* until this rank was done; time outside the timeline is the host's */
};

struct step_messages {
    struct timeline_message *all; /* [count] */
    int count;
};

void step_messages_sort(struct step_messages *messages); /* sort by key, as receivers expect it */

/* The part of the waits for the received messages that passed before these were made. sent: the
 * lists of `senders` ranks; each message is in one of them. */
int64_t step_bubble_ns(const struct step_messages *received, const struct step_messages *sent, int senders);

/* Set the times of *out, which add up to step_s, the step time of the slowest rank. */
void step_times_divide(const struct step_times *times, double step_s, enum step_end end, struct dt_step_metrics *out);
