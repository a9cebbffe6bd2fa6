#include "schedules/run/rank_processors.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "schedules/run/ranks_per_node.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Now, less what stood there before. */
static void take_differences(struct rank_processors *p)
{
    p->use.seconds = dt_clock_s() - p->use.seconds;
    p->use.own_s = dt_processor_clock_s() - p->use.own_s;
    p->use.busy_s = dt_processors_busy_s("/proc/stat", &p->usable) - p->use.busy_s;
}

dt_status rank_processors_begin(struct rank_processors *p, struct dt_comm *world, int threads)
{
    struct place {
        struct host_name host;
        struct dt_processors usable;
    } mine = {0}, *all;
    int size = dt_comm_size(world);
    *p = (struct rank_processors){.use = {.host = -1, .threads = threads}};
    all = calloc((size_t)size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the processors of %d ranks", size);
    gethostname(mine.host.text, sizeof mine.host.text - 1);
    dt_processors_of(0, &mine.usable);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    for (int i = 0; status == DT_OK && i < size; i++) {
        if (strcmp(all[i].host.text, mine.host.text) != 0)
            continue;
        dt_processors_add(&p->usable, &all[i].usable);
        p->use.host = p->use.host < 0 ? i : p->use.host;
    }
    free(all);
    p->use.processors = dt_machine_processors_among(&p->usable);
    p->use.watched = dt_processors_count(&p->usable);
    take_differences(p);
    return status;
}

dt_status rank_processors_end(struct rank_processors *p, struct dt_comm *world, char *text, size_t bytes)
{
    int size = dt_comm_size(world);
    struct processor_use *all = calloc((size_t)size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the processors of %d ranks", size);
    take_differences(p);
    dt_status status = dt_host_all_gather(world, &p->use, sizeof p->use, all);
    if (status == DT_OK)
        doubts_of_processors(all, size, text, bytes);
    free(all);
    return status;
}
