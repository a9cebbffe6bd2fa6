/* Why what was measured may not be what the machine can do, in words for whoever reads the table or the record. What GPUs say of themselves is in
 * lib/device/condition.h. */
#ifndef SCHEDULES_RUN_DOUBTS_H
#define SCHEDULES_RUN_DOUBTS_H

#include <stddef.h>

/* A rank on processors, over the timed steps. What is said of its machine is the same for all ranks of it. */
struct processor_use {
    int host;       /* the first rank on the same machine: which machine it is */
    int threads;    /* of this rank */
    int processors; /* of the machine that its ranks may use, or a container's quota of them */
    int watched;    /* of which busy_s is the time: all that its ranks may run on */
    double seconds; /* that the steps took */
    double own_s;   /* processor time of this rank */
    double busy_s;  /* processor time of everybody, and what the hypervisor gave to other machines; NAN: unknown */
};

/* Each appends to `text`, with "; " between doubts. */

/* More threads than processors; other work that took more than a tenth of the processors that the ranks' threads could have used. Work on
 * processors that the ranks leave idle is none. ranks: [count] in the order of the world. */
void doubts_of_processors(const struct processor_use *ranks, int count, char *text, size_t bytes);

/* Steps that differ by more than a fifth: their coefficient of variation, of three steps at least. */
void doubts_of_steps(const double *step_s, int count, char *text, size_t bytes);

#endif
