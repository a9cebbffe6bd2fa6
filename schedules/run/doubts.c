#include "schedules/run/doubts.h"

#include "lib/base/statistics.h"
#include "lib/base/text.h"

#include <stdbool.h>
#include <stdio.h>

static const double most_lost = 0.1, most_cv = 0.2;

/* The kernel counts processor time in ticks of 0.01 s; ten ticks are more than rounding. */
static const double least_lost_s = 0.1;

enum { FEWEST_STEPS = 3 };

static void doubt_machine(const struct processor_use *machine, int threads, double own_s, const char *whose, char *text, size_t bytes)
{
    if (threads > machine->processors)
        dt_append(text, bytes, "; ", "%s%d threads on %d processor%s", whose, threads, machine->processors,
                  machine->processors > 1 ? "s" : "");
    double wanted = threads < machine->watched ? threads : machine->watched, others = (machine->busy_s - own_s) / machine->seconds;
    double lost = others - (machine->watched - wanted); /* in seconds of processors; a comparison with NAN is false */
    if (lost > most_lost * wanted && lost * machine->seconds > least_lost_s)
        dt_append(text, bytes, "; ", "%sother work took %.1f of %d processors", whose, others, machine->watched);
}

void doubts_of_processors(const struct processor_use *ranks, int count, char *text, size_t bytes)
{
    bool one_machine = true;
    for (int i = 0; i < count; i++)
        one_machine &= ranks[i].host == 0;
    for (int i = 0; i < count; i++) {
        char whose[48];
        int threads = 0;
        double own_s = 0;
        if (ranks[i].host != i)
            continue;
        for (int j = i; j < count; j++) {
            threads += ranks[j].host == i ? ranks[j].threads : 0;
            own_s += ranks[j].host == i ? ranks[j].own_s : 0;
        }
        snprintf(whose, sizeof whose, "rank %d's machine: ", i);
        doubt_machine(&ranks[i], threads, own_s, one_machine ? "" : whose, text, bytes);
    }
}

void doubts_of_steps(const double *step_s, int count, char *text, size_t bytes)
{
    struct dt_statistics steps;
    if (count < FEWEST_STEPS || dt_statistics_compute(step_s, count, &steps) < 0 || !(steps.cv > most_cv))
        return;
    dt_append(text, bytes, "; ", "the %d timed steps differ by %.0f %% (cv)", count, 100 * steps.cv);
}
