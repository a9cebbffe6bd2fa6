#include "cli/run/crowded.h"

#include "lib/base/machine.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For the ranks of this machine. A launcher may bind each of its ranks to some processors: then they have, all together, those of the launcher. */
static int processors_for_ranks(const struct sweep *s)
{
    struct dt_processors all, launcher;
    dt_processors_of(0, &all);
    if (s->inside) {
        dt_processors_of(getppid(), &launcher);
        dt_processors_add(&all, &launcher);
    }
    return dt_machine_processors_among(&all);
}

/* The first such experiment; -1: none. */
static int find_crowded(const struct sweep *s, int processors, struct experiment *e, int *ranks)
{
    const struct dt_device_kind *kind;
    for (int i = 0; i < s->count; i++) {
        sweep_experiment(s, i, e);
        *ranks = s->inside ? s->world.local_size : e->world_size;
        if (!s->outcomes[i].elsewhere && !s->outcomes[i].skipped && dt_crowded(e->threads, *ranks, processors) &&
            device_choose(e, &kind) == DT_OK && !kind->gpus && !kind->simulated)
            return i;
    }
    return -1;
}

void crowded_begin_anew(const struct sweep *s, const char *config, char **argv)
{
    struct experiment e;
    int count = 0, ranks;
    if (!s->inside || strcmp(config, "-") == 0 || dt_waiting_is_set() || find_crowded(s, processors_for_ranks(s), &e, &ranks) < 0)
        return;
    while (argv[count])
        count++;
    const char **again = calloc((size_t)count + 2, sizeof *again);
    if (!again)
        return;
    again[0] = "dtbench";
    again[1] = "run";
    memcpy(again + 2, argv + 1, (size_t)count * sizeof *again); /* and the NULL */
    setenv(DT_WAITING_NAME, DT_WAITING_PASSIVE, 1);
    execv("/proc/self/exe", (char **)again);
    free(again); /* threads that wait busily are slow, and no error */
}

void crowded_note(const struct sweep *s)
{
    struct experiment e;
    int processors = processors_for_ranks(s), ranks, first = find_crowded(s, processors, &e, &ranks);
    if (first < 0)
        return;
    int threads = dt_threads_of_rank(e.threads, ranks, processors);
    fprintf(stderr,
            "dtbench: note: experiment %d of %d has %d rank%s of %d thread%s on %d processor%s: the threads take turns, and its times are "
            "those of a crowded machine\n",
            first + 1, s->count, ranks, ranks > 1 ? "s" : "", threads, threads > 1 ? "s" : "", processors, processors > 1 ? "s" : "");
}
