#include "schedules/run/run_checkpoints.h"

#include "lib/base/clock.h"

#include <string.h>

/* Reduce the steps by those made: warm-up steps come first. */
static dt_status take_steps(struct experiment *e, int made)
{
    int all = e->steps.warmup + e->steps.timed, left = all - made;
    if (left <= 0)
        return dt_fail(DT_ERR_INVALID, "checkpoint.from: step %d is the last of this run's %d steps; there is nothing left to do", made,
                       all);
    e->steps.warmup = e->steps.warmup < left ? e->steps.warmup : left - 1;
    e->steps.timed = left - e->steps.warmup;
    e->steps_made = made;
    return DT_OK;
}

static dt_status load(struct run_checkpoints *c, struct experiment *e, struct dt_metrics *metrics)
{
    bool by_itself = strcmp(e->checkpoint.from, "auto") == 0;
    const char *path = by_itself ? e->checkpoint.path : e->checkpoint.from;
    double begun_s = dt_clock_s();
    if (!*path || (by_itself && !checkpoint_exists(path)))
        return DT_OK;
    DT_TRY(trainer_load(c->trainer, path, &c->first_step));
    metrics->load_s = dt_clock_s() - begun_s;
    return take_steps(e, c->first_step);
}

dt_status run_checkpoints_begin(struct run_checkpoints *c, struct experiment *e, struct trainer *trainer, struct dt_comm *world,
                                struct dt_metrics *metrics)
{
    *c = (struct run_checkpoints){.experiment = e, .trainer = trainer, .world = world, .folder.lock = -1};
    if (*e->checkpoint.path) {
        metrics->saves = metrics->save_s = metrics->checkpoint_bytes = 0;
        DT_TRY(checkpoint_folder_open(e->checkpoint.path, world, &c->folder));
    }
    return *e->checkpoint.from ? load(c, e, metrics) : DT_OK;
}

void run_checkpoints_end(struct run_checkpoints *c)
{
    if (c->trainer)
        checkpoint_folder_close(&c->folder);
}

dt_status run_checkpoints_save(struct run_checkpoints *c, int steps, bool last, struct dt_metrics *metrics)
{
    const struct experiment *e = c->experiment;
    double begun_s = dt_clock_s(), bytes, sum_and_highest[2];
    int made = c->first_step + steps;
    uint64_t own;
    if (!*e->checkpoint.path || !(last || (e->checkpoint.save_every > 0 && made % e->checkpoint.save_every == 0)))
        return DT_OK;
    DT_TRY(trainer_save(c->trainer, &c->folder, made, !last, &own));
    bytes = (double)own;
    DT_TRY(dt_host_reduce(c->world, &bytes, 1, sum_and_highest));
    metrics->checkpoint_bytes = sum_and_highest[0];
    metrics->save_s += dt_clock_s() - begun_s;
    metrics->saves++;
    return DT_OK;
}
