/* How far a prediction can be trusted: what the profile has been held against, and how far off it was. */
#ifndef CLI_PLAN_CONFIDENCE_H
#define CLI_PLAN_CONFIDENCE_H

#include "schedules/predict/simulated_system.h"

struct confidence {
    bool measured;      /* runs of this mode were measured with this profile's software */
    double error;       /* of the step time: the median of these; where there are none, the largest nine of ten stay below */
    const char *source; /* where that stands; NULL: nothing of this profile was ever measured */
};

/* Of an experiment on a machine. */
struct confidence confidence_of(const struct experiment *experiment, const struct simulated_machine *machine);

/* The next thing about the experiment that lies outside of what was measured ("GPT1T: the largest measured model is GPT175B"); false past
 * the last. *at is 0 at first. */
bool confidence_next_doubt(const struct experiment *experiment, const struct simulated_machine *machine, int *at, char *text,
                           size_t text_bytes);

/* Is a difference of `margin` (0.03: 3 %) between two predictions one that can be told? */
static inline bool confidence_tells(const struct confidence *a, const struct confidence *b, double margin)
{
    return margin > (a->error > b->error ? a->error : b->error);
}

#endif
