/* A step from its common begin to its common end, divided without a rest: what every rank's share of it is.
 *
 *   forward, backward, optimizer   kernels run
 *   exposed communication          compute waits for collectives, for the moving of messages, for copies from or to host memory, or at the end
 *                                  of the step for other ranks
 *   bubble                         it waits for a neighbouring stage of its pipeline that has not yet made what comes next, or has nothing
 *                                  left to do while other stages have
 *   data                           it waits for its samples to be read from a file
 *   host                           it waits for the host: for launches, at the begin and at the end of the step
 *
 * A wait for a message is bubble until the sender had made it, and communication from then on. Both times count from the step's first mark
 * on their ranks: where clocks differ, ranks begin a step together as well as the exchange before it lets them. */
#ifndef SCHEDULES_STEP_STEP_TIMES_H
#define SCHEDULES_STEP_STEP_TIMES_H

#include "lib/record/metrics.h"
#include "schedules/step/timeline.h"

/* What a rank that is done before the others waits for. */
enum step_end { STEP_ENDS_ALONE, STEP_ENDS_WITH_RANKS, STEP_ENDS_WITH_STAGES };

/* What one rank knows of its step. */
struct step_times {
    struct timeline_times timeline;
    int64_t bubble_ns; /* of the waits for messages */
    double data_s;     /* until its samples were read, before anything was queued */
    double own_s;      /* until it was done itself; what is not in the timeline is the host's */
};

struct step_messages {
    struct timeline_message *all; /* [count] */
    int count;
};

void step_messages_sort(struct step_messages *messages); /* by key, as senders' must be */

/* How much of the waits for the received messages passed before they were made. sent: of `senders` ranks, one of which has sent each. */
int64_t step_bubble_ns(const struct step_messages *received, const struct step_messages *sent, int senders);

/* Set the times of *out, which add up to step_s: the step of the rank that was done last. */
void step_times_divide(const struct step_times *times, double step_s, enum step_end end, struct dt_step_metrics *out);

#endif
