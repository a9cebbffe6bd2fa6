#include "schedules/run/training_time.h"
#include "schedules/checkpoint/checkpoint.h"

#include <math.h>
#include <string.h>

bool training_loads(const struct experiment *e)
{
    return *e->checkpoint.from && strcmp(e->checkpoint.from, "auto") != 0;
}

double storage_wait_s(const struct storage_times *times, double step_s)
{
    return fmax(times->read_s - step_s, 0);
}

/* The number of saves before the last one, which is after the last step, and how many steps follow
 * the last of them. */
static double saves_before_the_last(const struct experiment *e, double steps, double *after)
{
    double every = e->checkpoint.save_every, before = every > 0 ? fmax(ceil(steps / every) - 1, 0) : 0;
    *after = steps - before * every;
    return before;
}

void training_time_predict(const struct experiment *e, const struct storage_times *times, double steps, double steps_s,
                           struct dt_metrics *out)
{
    double after, before = saves_before_the_last(e, steps, &after), step_s = steps > 0 ? steps_s / steps : 0;
    bool saves = *e->checkpoint.path, beside = e->checkpoint.asynchronous;
    out->load_s = training_loads(e) ? times->load_s : NAN;
    out->steps_s = steps_s;
    out->save_s = out->saves = out->checkpoint_bytes = NAN;
    if (saves) {
        double left_s = fmax(times->write_s - e->checkpoint.save_every * step_s, 0);
        out->saves = before + 1;
        out->save_s = (before + 1) * times->save_s;
        if (beside && before > 0)
            out->save_s = before * fmax(times->copy_s - times->beside * step_s, 0) + (before - 1) * left_s +
                          fmax(times->write_s - after * step_s, 0) + times->save_s;
        out->checkpoint_bytes = (double)checkpoint_bytes(e);
    }
    out->training_s = steps_s + (training_loads(e) ? times->load_s : 0) + (saves ? out->save_s : 0);
}
