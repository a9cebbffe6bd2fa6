#include "predict/search/search.h"

#include "predict/simulation.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct short_forms {
    const struct simulated_machine *machine;
    double capacity_bytes;
    struct once *known; /* of struct short_form */
};

dt_status short_forms_create(const struct simulated_machine *machine, double capacity_bytes, struct short_forms **out)
{
    struct short_forms *f = calloc(1, sizeof *f);
    *out = f;
    DT_TRY(dt_allocated(f, "no host memory for short forms"));
    *f = (struct short_forms){.machine = machine, .capacity_bytes = capacity_bytes};
    return once_create(sizeof(struct short_form), &f->known);
}

void short_forms_destroy(struct short_forms *f)
{
    if (f)
        once_destroy(f->known);
    free(f);
}

struct question {
    const struct short_forms *forms;
    const struct experiment *experiment;
};

/* Record the last and the first stage, which have the head and what a framework does after it, and
 * most micro-batches at a time. This is faster than simulating all. */
static dt_status record_ends(void *context, void *value)
{
    const struct short_forms *f = ((const struct question *)context)->forms;
    const struct experiment *e = ((const struct question *)context)->experiment;
    struct short_form *out = value;
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    int last = 0;
    while (experiment_rank_of_kind(e, last + 1) >= 0)
        last++;
    out->fits = true;
    DT_TRY(simulated_system_create_on(f->machine, e, &system));
    for (int end = last > 0 ? 1 : 0; end >= 0 && out->fits; end--) {
        struct dt_memory_usage usage;
        DT_TRY(simulation_fits(e, system, experiment_rank_of_kind(e, end ? last : 0), f->capacity_bytes, &out->fits, &usage));
        out->bytes = fmax(out->bytes, out->fits ? (double)usage.device.peak_total_bytes : f->capacity_bytes);
    }
    return DT_OK;
}

/* Two micro-batches, of which the second begins with what the first has left; for a pipeline two
 * for each stage, with which its ranks are close to their peak. */
dt_status short_forms_fit(struct short_forms *f, const struct experiment *e, struct short_form *out)
{
    struct experiment few = *e;
    int count = 2 * e->strategy.stages;
    if (fmod(e->batch_size * count, e->strategy.micro_batches) == 0)
        simulation_take_few(&few, count); /* unless it has no more of them */
    DT_TRY(experiment_resolve(&few, "a shortened experiment"));
    return once_find(f->known, few.hash, strlen(few.hash), record_ends, &(struct question){f, &few}, out);
}
