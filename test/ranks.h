/* A test program whose cases train: alone, or started by mpirun on any number of ranks, whose world
 * and device they share. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/launch/launch.h"
#include "schedules/run/measure.h"
#include "test/check.h"
#include "test/lib/device/device_kind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct dt_world world;
static struct dt_comm *everyone; /* the communicator of `device`, which lives as long */
static struct dt_device *device;

/* "device=cpu": what an experiment of these tests is set to. */
static inline const char *ranks_device_setting(void)
{
    static char setting[32];
    snprintf(setting, sizeof setting, "device=%s", test_device_kind());
    return setting;
}

/* How far losses may be from those of one cpu device, when another kind of device sums in other
 * orders. */
static inline double ranks_tolerance(double on_cpu)
{
    return strcmp(test_device_kind(), "cpu") == 0 || on_cpu > 1e-4 ? on_cpu : 1e-4;
}

/* Send rank 0's `values` [count] to all ranks, so that only rank 0 does the work. False, with NAN
 * in `values`, after a failure. */
static inline bool ranks_take_from_0(double *values, int count)
{
    size_t bytes = (size_t)count * sizeof *values;
    double *all = malloc((size_t)world.size * bytes);
    dt_status status = all ? dt_host_all_gather(everyone, values, bytes, all) : DT_ERR_HOST_MEMORY;
    CHECK(status == DT_OK, "%s", dt_error_message());
    for (int i = 0; i < count; i++)
        values[i] = status == DT_OK ? all[i] : NAN;
    free(all);
    return status == DT_OK;
}

/* The parts of a step add up to it. Comparisons with NAN are false: a part that is not known fails,
 * too. */
static inline void ranks_check_times(const struct measure_result *result, const char *what)
{
    const struct dt_step_metrics *t = &result->metrics.step;
    struct dt_metrics all = {0};
    CHECK_OK(dt_metrics_set_steps(&all, result->step_s, result->steps_done));
    double parts = t->forward_s + t->backward_s + t->optimizer_s + t->exposed_comm_s + t->bubble_s + t->data_s + t->host_s;
    CHECK(fabs(parts / all.step_s.median - 1) < 0.01, "%s: %g s of a step of %g s", what, parts, all.step_s.median);
    CHECK(t->forward_s > 0 && t->backward_s > 0 && t->exposed_comm_s >= 0 && t->bubble_s >= 0 && t->host_s >= 0, "%s: times", what);
}

static inline int ranks_main(const struct test_case *cases, int count)
{
    char reason[256];
    struct dt_comm_options options = {.step_timeout_s = 60, .init_timeout_s = 60};
    if (!dt_device_available(test_device_kind(), reason, sizeof reason)) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    if (dt_world_from_environment(&world) < 0) {
        printf("Bail out! %s\n", dt_error_message());
        return 1;
    }
    bool share = strcmp(test_device_kind(), "cuda") == 0 && dt_device_count("cuda") < world.local_size; /* too few GPUs */
    struct dt_device_options device_options = {
        .threads = 1, .local_rank = world.local_rank, .local_size = world.local_size, .share = share};
    options.share_devices = share;
    if (dt_device_create(test_device_kind(), &device_options, &device) < 0 || dt_comm_create(device, &world, &options, &everyone) < 0) {
        printf("Bail out! %s\n", dt_error_message());
        return 1;
    }
    if (world.rank > 0) /* only rank 0 prints; a failure of another rank shows in its exit code */
        dup2(STDERR_FILENO, STDOUT_FILENO);
    int failed = test_main(cases, count);
    dt_comm_destroy(everyone);
    dt_device_destroy(device);
    dt_comm_library_finish();
    return failed;
}
