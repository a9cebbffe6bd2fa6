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
 * most micro-batches at a time. */
static dt_status record_ends(void *context, void *value)
{
    const struct question *q = context;
    const struct experiment *e = q->experiment;
    struct short_form *out = value;
    struct simulated_system *system;
    int last = 0;
    while (experiment_rank_of_kind(e, last + 1) >= 0)
        last++;
    out->fits = true;
    DT_TRY(simulated_system_create_on(q->forms->machine, e, &system));
    dt_status status = DT_OK;
    for (int end = last > 0 ? 1 : 0; end >= 0 && out->fits && status == DT_OK; end--) {
        struct dt_memory_usage usage;
        double most = q->forms->capacity_bytes;
        status = simulation_fits(e, system, experiment_rank_of_kind(e, end ? last : 0), most, &out->fits, &usage);
        out->bytes = fmax(out->bytes, out->fits ? (double)usage.device.peak_total_bytes : most);
    }
    simulated_system_destroy(system);
    return status;
}

dt_status short_forms_find(struct short_forms *f, const struct experiment *e, struct short_form *out)
{
    struct experiment few = *e;
    int micro_batches = e->strategy.stages > 1 ? 2 * e->strategy.stages : 2;
    if (e->batch_size * micro_batches % e->strategy.micro_batches == 0)
        simulation_take_few(&few, micro_batches);
    DT_TRY(experiment_resolve(&few, NULL, "a shortened experiment"));
    return once_find(f->known, few.hash, strlen(few.hash), record_ends, &(struct question){f, &few}, out);
}
