#include "lib/base/clock.h"
#include "schedules/predict/calibration_points.h"

#include "gpt/cost/probe.h"
#include "lib/base/machine.h"
#include "lib/base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOWS = 3, REGION_BYTES = 48 << 20, QUICK_REGION_BYTES = 8 << 20 };

/* One rank's measuring. */
struct measuring {
    const struct calibration_request *request;
    struct dt_device *device;
    struct dt_comm *world;
    struct gpt_probe *probe;
    double *everybody; /* [ranks] */
    int threads;
};

/* Long enough for a clock, short enough for hundreds of them. Where ranks outnumber processors the operating system gives each its turn
 * every few milliseconds, and a window holds several of those. */
static double window_s(const struct measuring *m, int ranks)
{
    double turns = ceil((double)ranks * m->threads / dt_machine_processors());
    return (m->request->quick ? 0.0005 : 0.003) * turns;
}

/* Seconds of one call, the median of several windows. */
static dt_status time_windows(const struct measuring *m, double length_s, double *out)
{
    double seconds[WINDOWS];
    struct dt_statistics statistics;
    int times = 1; /* between two looks at the clock: waiting for the device is none of the kernel's time */
    for (int w = 0; w < WINDOWS; w++) {
        double start = dt_clock_s(), now = start;
        int done = 0;
        while (now - start < length_s) {
            DT_TRY(gpt_probe_run(m->probe, times));
            done += times;
            now = dt_clock_s();
            times = (int)fmin(fmax(1, length_s / 4 * done / (now - start)), 256);
        }
        seconds[w] = (now - start) / done;
    }
    DT_TRY(dt_statistics_compute(seconds, WINDOWS, &statistics));
    *out = statistics.median;
    return DT_OK;
}

/* All ranks come here, and leave at the same moment: ranks that wait for others sleep, and wake up one by one. */
static dt_status meet(const struct measuring *m)
{
    const double wake_up_s = 0.0015;
    double start = dt_clock_s() + wake_up_s;
    DT_TRY(dt_host_all_gather(m->world, &start, sizeof start, m->everybody));
    for (int r = 0; r < dt_comm_size(m->world); r++)
        start = fmax(start, m->everybody[r]);
    dt_sleep_until_s(start);
    return DT_OK;
}

/* The ranks' harmonic mean, which is that of their speeds: together they get so much done, whoever had the processors when. */
static dt_status mean(const struct measuring *m, double mine, double *out)
{
    double speed = 0;
    DT_TRY(dt_host_all_gather(m->world, &mine, sizeof mine, m->everybody));
    for (int r = 0; r < dt_comm_size(m->world); r++)
        speed += 1 / m->everybody[r] / dt_comm_size(m->world);
    *out = 1 / speed;
    return DT_OK;
}

/* What rank 0 found, on all of them. */
static dt_status share(const struct measuring *m, double *value)
{
    DT_TRY(dt_host_all_gather(m->world, value, sizeof *value, m->everybody));
    *value = m->everybody[0];
    return DT_OK;
}

static dt_status measure_kernel(const struct measuring *m, struct gpt_measured *what)
{
    int ranks = dt_comm_size(m->world);
    double mine;
    DT_TRY(gpt_probe_set(m->probe, what));
    DT_TRY(gpt_probe_run(m->probe, 1)); /* makes what is made once */
    if (dt_comm_rank(m->world) == 0)
        DT_TRY(time_windows(m, window_s(m, 1), &what->alone_s));
    DT_TRY(share(m, &what->alone_s));
    what->together_s = what->alone_s;
    if (ranks == 1)
        return DT_OK;
    DT_TRY(meet(m));
    DT_TRY(time_windows(m, window_s(m, ranks), &mine));
    DT_TRY(mean(m, mine, &what->together_s));
    what->together_s = fmax(what->together_s, what->alone_s); /* less is noise */
    return DT_OK;
}

static dt_status add_kernel(const struct measuring *m, struct gpt_measured *what, struct calibration *out)
{
    if (out->kernels.count == GPT_MEASURED_MAX)
        return dt_fail(DT_ERR_INVALID, "more than %d measurements: name fewer numbers of ranks, or dtypes", GPT_MEASURED_MAX);
    what->ranks = dt_comm_size(m->world);
    what->threads = m->threads;
    DT_TRY(measure_kernel(m, what));
    out->kernels.entries[out->kernels.count++] = *what;
    return DT_OK;
}

static dt_status measure(struct measuring *m, const struct calibration_hooks *hooks, struct calibration *out)
{
    struct gpt_measured what;
    int total = calibration_count(m->request, dt_comm_size(m->world)), done = 0;
    for (; calibration_kernel(m->request, done, &what); done++) {
        DT_TRY(add_kernel(m, &what, out));
        DT_TRY(hooks->progress(hooks->context, done + 1, total));
    }
    if (dt_comm_size(m->world) == 1)
        return DT_OK;
    return calibration_run_collectives(m->request, m->device, m->world, hooks, done, out);
}

dt_status calibration_run(const struct calibration_request *request, struct dt_device *device, struct dt_comm *world,
                          const struct calibration_hooks *hooks, struct calibration *out)
{
    struct dt_device_info info;
    dt_device_info(device, &info);
    struct measuring m = {.request = request,
                          .device = device,
                          .world = world,
                          .threads = info.threads,
                          .everybody = calloc((size_t)dt_comm_size(world), sizeof(double))};
    dt_status status = m.everybody ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", dt_comm_size(world));
    if (status == DT_OK)
        status = gpt_probe_create(device, request->quick ? QUICK_REGION_BYTES : REGION_BYTES, &m.probe);
    if (status == DT_OK)
        status = measure(&m, hooks, out);
    gpt_probe_destroy(m.probe);
    if (dt_comm_size(world) > 1)
        snprintf(out->library, sizeof out->library, "%s", dt_comm_library(world));
    free(m.everybody);
    return status;
}
