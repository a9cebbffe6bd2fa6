/* An experiment on all ranks of a test against one device that divides and saves nothing: equal
 * losses, and on every rank the bytes that were predicted, by category. */
#pragma once

#include "schedules/config/parse.h"
#include "schedules/run/measure.h"
#include "schedules/run/memory_fit.h"
#include "test/ranks.h"
#include "test/schedules/run/expected_traffic.h"

#include <stdlib.h>

enum { STEPS = 3 };

static inline dt_status parse_one(const char *base, const char *const *sets, int count, struct experiment *out)
{
    struct experiment *all = NULL;
    int number = 0;
    dt_status status = experiments_parse(base, strlen(base), "test", sets, count, &all, &number);
    if (status == DT_OK)
        *out = all[0];
    free(all);
    return status;
}

/* NAN stays in `losses` where a step was not done. */
static inline void train_on_one_device(const char *base, double batch_size, double learning_rate, double losses[STEPS])
{
    struct experiment alone;
    struct measure_result result = {0};
    struct dt_world one = {.size = 1, .local_size = 1, .launcher = "none"};
    struct dt_comm_options options = {0};
    struct dt_device_options device_options = {.threads = 1, .local_size = 1};
    struct dt_device *own = NULL;
    struct dt_comm *self = NULL;

    CHECK_OK(parse_one(base, NULL, 0, &alone));
    alone.batch_size = batch_size * world.size;
    alone.optimizer.learning_rate = learning_rate;
    CHECK_OK(dt_device_create("cpu", &device_options, &own));
    CHECK_OK(dt_comm_create(own, &one, &options, &self));
    CHECK_OK(measure_run(&alone, own, self, NULL, &result));
    for (int i = 0; i < result.losses_done; i++)
        losses[i] = result.losses[i];
    measure_result_finish(&result);
    dt_comm_destroy(self);
    dt_device_destroy(own);
}

/* The samples of all ranks, batch_size of each, on one device of rank 0; on every rank, the
 * losses. */
static inline bool train_alone(const char *base, double batch_size, double learning_rate, double losses[STEPS])
{
    for (int i = 0; i < STEPS; i++)
        losses[i] = NAN;
    if (world.rank == 0)
        train_on_one_device(base, batch_size, learning_rate, losses);
    return ranks_take_from_0(losses, STEPS) && !isnan(losses[STEPS - 1]);
}

static inline void compare_bytes(const struct dt_memory_bytes *seen, const struct dt_memory_bytes *predicted, const char *where,
                                 const char *what)
{
    CHECK(seen->peak_total_bytes == predicted->peak_total_bytes, "%s: %s: %zu bytes, predicted %zu", what, where,
          (size_t)seen->peak_total_bytes, (size_t)predicted->peak_total_bytes);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        CHECK(seen->peak_bytes[c] == predicted->peak_bytes[c], "%s: %s %s: %zu bytes, predicted %zu", what, where,
              dt_category_name((enum dt_category)c), (size_t)seen->peak_bytes[c], (size_t)predicted->peak_bytes[c]);
}

/* What the communicators have counted is the closed form of the busiest rank. */
static inline void compare_traffic(const struct experiment *e, const struct dt_step_metrics *counted, const char *what)
{
    struct dt_step_metrics most = {0};
    for (int rank = 0; rank < world.size; rank++) {
        struct step_traffic traffic;
        struct dt_step_metrics expected;
        CHECK_OK(expected_traffic(e, rank, &traffic));
        step_traffic_measure(&traffic, &expected);
        most.comm_bytes = fmax(most.comm_bytes, expected.comm_bytes);
        most.link_bytes = fmax(most.link_bytes, expected.link_bytes);
        most.all_reduce_bytes = fmax(most.all_reduce_bytes, expected.all_reduce_bytes);
        most.reduce_scatter_bytes = fmax(most.reduce_scatter_bytes, expected.reduce_scatter_bytes);
        most.all_gather_bytes = fmax(most.all_gather_bytes, expected.all_gather_bytes);
        most.broadcast_bytes = fmax(most.broadcast_bytes, expected.broadcast_bytes);
        most.reduce_bytes = fmax(most.reduce_bytes, expected.reduce_bytes);
        most.all_to_all_bytes = fmax(most.all_to_all_bytes, expected.all_to_all_bytes);
        most.send_bytes = fmax(most.send_bytes, expected.send_bytes);
    }
    CHECK(counted->all_reduce_bytes == most.all_reduce_bytes, "%s: all_reduce %g bytes, expected %g", what, counted->all_reduce_bytes,
          most.all_reduce_bytes);
    CHECK(counted->reduce_scatter_bytes == most.reduce_scatter_bytes, "%s: reduce_scatter %g bytes, expected %g", what,
          counted->reduce_scatter_bytes, most.reduce_scatter_bytes);
    CHECK(counted->all_gather_bytes == most.all_gather_bytes, "%s: all_gather %g bytes, expected %g", what, counted->all_gather_bytes,
          most.all_gather_bytes);
    CHECK(counted->broadcast_bytes == most.broadcast_bytes && counted->reduce_bytes == most.reduce_bytes,
          "%s: broadcast, reduce %g, %g bytes", what, counted->broadcast_bytes, counted->reduce_bytes);
    CHECK(counted->all_to_all_bytes == most.all_to_all_bytes, "%s: all_to_all %g bytes, expected %g", what, counted->all_to_all_bytes,
          most.all_to_all_bytes);
    CHECK(counted->send_bytes == most.send_bytes, "%s: send %g bytes, expected %g", what, counted->send_bytes, most.send_bytes);
    bool copies = e->tensor.size > 1 && e->model.family->tensor_copies(&e->model, e->tensor.size) > 1; /* whose groups are smaller */
    CHECK(copies || counted->link_bytes == most.link_bytes, "%s: %g bytes on links, expected %g", what, counted->link_bytes,
          most.link_bytes);
    CHECK(counted->comm_bytes == most.comm_bytes, "%s: %g bytes, expected %g", what, counted->comm_bytes, most.comm_bytes);
}

/* Train `e` on all ranks. what: in messages. */
static inline void train_and_compare(const struct experiment *e, const double reference[STEPS], const char *what)
{
    struct measure_result result;
    struct dt_memory_usage predicted, left;
    if (test_leave_out())
        return;
    dt_memory_reset_peak(device);
    dt_status status = measure_run(e, device, everyone, NULL, &result);
    CHECK(status == DT_OK && result.losses_done == STEPS, "%s: %s", what, dt_error_message());
    for (int i = 0; status == DT_OK && i < STEPS; i++)
        CHECK(fabs(result.losses[i] / reference[i] - 1) <= ranks_tolerance(1e-5), "%s: step %d: loss %.9g, one device has %.9g", what, i,
              result.losses[i], reference[i]);
    CHECK_OK(memory_fit_predict(e, world.rank, &predicted, NULL));
    if (status == DT_OK) {
        ranks_check_times(&result, what);
        compare_traffic(e, &result.metrics.step, what);
        compare_bytes(&result.ranks[world.rank].memory.device, &predicted.device, "device", what);
        compare_bytes(&result.ranks[world.rank].memory.host, &predicted.host, "host", what);
    }
    dt_memory_usage(device, &left);
    CHECK(left.device.current_total_bytes == 0 && left.host.current_total_bytes == 0, "%s: memory is left behind", what);
    measure_result_finish(&result);
}
