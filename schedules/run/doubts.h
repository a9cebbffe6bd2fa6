/* Reasons why a measurement may not show what the machine can do, as text for tables and records.
 * The state of GPUs is in lib/device/condition.h. */
#pragma once

#include <stddef.h>

/* A rank's use of processors over the timed steps. Facts about its machine are the same for all
 * ranks of the machine. */
struct processor_use {
    int host;       /* identifies the machine: its first rank */
    int threads;    /* of this rank */
    int processors; /* processors of the machine that its ranks may use, or a container's quota */
    int watched;    /* processors whose time busy_s is: all that the machine's ranks may run on */
    double seconds; /* duration of the steps */
    double own_s;   /* processor time of this rank */
    double busy_s;  /* processor time of all processes, and time that the hypervisor gave to other machines; NAN: unknown */
};

/* Each function appends to `text`, with "; " between doubts. */

/* Doubts: there are more threads than processors; or other work took more than a tenth of the
 * processors that the ranks' threads could have used. Work on processors that the ranks leave idle
 * does not count. ranks: [count] in the order of the world. */
void doubts_of_processors(const struct processor_use *ranks, int count, char *text, size_t bytes);

/* Doubt: steps differ by more than a fifth (their coefficient of variation, with at least three
 * steps). */
void doubts_of_steps(const double *step_s, int count, char *text, size_t bytes);
