/* Collectives and messages by size, with nothing else going on. How much processor time they take meanwhile says how much they slow down
 * kernels that run at the same time, and are slowed down by them. */
#include "lib/base/clock.h"
#include "schedules/predict/calibration_points.h"

#include "lib/base/machine.h"
#include "lib/base/statistics.h"
#include "lib/sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 7, QUICK_REPETITIONS = 2 };

struct exchange {
    struct dt_comm *world;
    struct dt_stream *stream;
    struct dt_buffer send, receive; /* each of the largest size */
    double *everybody;              /* [2 * ranks] */
};

/* There and back again: twice the message. */
static dt_status queue_message(struct exchange *x, size_t elems)
{
    int rank = dt_comm_rank(x->world);
    if (rank > 1)
        return DT_OK;
    if (rank == 0)
        DT_TRY(dt_send(x->world, x->send.data, elems, DT_FP32, 1, x->stream));
    DT_TRY(dt_recv(x->world, x->receive.data, elems, DT_FP32, 1 - rank, x->stream));
    return rank == 1 ? dt_send(x->world, x->send.data, elems, DT_FP32, 0, x->stream) : DT_OK;
}

/* bytes: as lib/sim/program.h counts them. */
static dt_status queue(struct exchange *x, int kind, double bytes)
{
    size_t elems = (size_t)bytes / sizeof(float), part = elems / (size_t)dt_comm_size(x->world);
    part = part ? part : 1;
    switch (kind) {
    case DT_SIM_ALL_REDUCE: return dt_all_reduce(x->world, x->send.data, elems, DT_FP32, DT_AVG, x->stream);
    case DT_SIM_REDUCE_SCATTER: return dt_reduce_scatter(x->world, x->send.data, x->receive.data, part, DT_FP32, DT_AVG, x->stream);
    case DT_SIM_ALL_GATHER: return dt_all_gather(x->world, x->send.data, x->receive.data, part, DT_FP32, x->stream);
    case DT_SIM_BROADCAST: return dt_broadcast(x->world, x->send.data, elems, DT_FP32, 0, x->stream);
    case DT_SIM_REDUCE: return dt_reduce(x->world, x->send.data, elems, DT_FP32, DT_AVG, 0, x->stream);
    default: return queue_message(x, elems);
    }
}

/* Ranks come to each repetition together because they left the last one together. Seconds are the median, processor time is of all. */
static dt_status time_exchange(struct exchange *x, int repetitions, struct dt_sim_measured *m)
{
    double seconds[REPETITIONS], wall = 0, processor = dt_processor_clock_s();
    struct dt_statistics statistics;
    for (int i = 0; i < repetitions; i++) {
        double start = dt_clock_s();
        DT_TRY(queue(x, m->kind, m->bytes));
        DT_TRY(dt_stream_synchronize(x->stream));
        seconds[i] = dt_clock_s() - start;
        wall += seconds[i];
    }
    int ranks = dt_comm_size(x->world), times = m->kind == DT_SIM_MESSAGE ? 2 : 1;
    bool takes_part = m->kind != DT_SIM_MESSAGE || dt_comm_rank(x->world) < 2;
    double mine[2] = {takes_part ? dt_processor_clock_s() - processor : 0, wall};
    DT_TRY(dt_statistics_compute(seconds, repetitions, &statistics));
    m->seconds = statistics.median / times;
    DT_TRY(dt_host_all_gather(x->world, mine, sizeof mine, x->everybody));
    processor = 0;
    for (int r = 0; r < ranks; r++)
        processor += x->everybody[2 * r];
    m->load = fmin(fmax(processor / (x->everybody[1] * dt_machine_processors()), 0.01), 1);
    return DT_OK;
}

static dt_status measure_all(const struct calibration_request *request, struct exchange *x, const struct calibration_hooks *hooks, int done,
                             struct calibration *out)
{
    struct dt_sim_measured m;
    int total = calibration_count(request, dt_comm_size(x->world));
    for (int i = 0; calibration_collective(request, i, &m); i++) {
        if (out->collectives.count == DT_SIM_MEASURED_MAX)
            return dt_fail(DT_ERR_INVALID, "more than %d measured collectives: name fewer numbers of ranks", DT_SIM_MEASURED_MAX);
        m.ranks = dt_comm_size(x->world);
        DT_TRY(queue(x, m.kind, m.bytes)); /* touches the memory */
        DT_TRY(dt_stream_synchronize(x->stream));
        DT_TRY(dt_host_all_gather(x->world, &m.seconds, sizeof m.seconds, x->everybody));
        DT_TRY(time_exchange(x, request->quick ? QUICK_REPETITIONS : REPETITIONS, &m));
        DT_TRY(dt_host_all_gather(x->world, &m.seconds, sizeof m.seconds, x->everybody));
        m.seconds = x->everybody[0];
        out->collectives.entries[out->collectives.count++] = m;
        DT_TRY(hooks->progress(hooks->context, ++done, total));
    }
    return DT_OK;
}

static size_t largest_bytes(const struct calibration_request *request)
{
    struct dt_sim_measured m;
    double most = 0;
    for (int i = 0; calibration_collective(request, i, &m); i++)
        most = fmax(most, m.bytes);
    return (size_t)most + 4096 * sizeof(float); /* parts are rounded up */
}

dt_status calibration_run_collectives(const struct calibration_request *request, struct dt_device *device, struct dt_comm *world,
                                      const struct calibration_hooks *hooks, int done, struct calibration *out)
{
    struct exchange x = {.world = world, .everybody = calloc(2 * (size_t)dt_comm_size(world), sizeof(double))};
    size_t bytes = largest_bytes(request);
    dt_status status = x.everybody ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", dt_comm_size(world));
    if (status == DT_OK)
        status = dt_stream_create(device, "network", &x.stream);
    if (status == DT_OK)
        status = dt_alloc(x.stream, DT_COMMUNICATION, bytes, &x.send);
    if (status == DT_OK)
        status = dt_alloc(x.stream, DT_COMMUNICATION, bytes, &x.receive);
    if (status == DT_OK)
        status = dt_zero(x.stream, x.send.data, bytes);
    if (status == DT_OK)
        status = measure_all(request, &x, hooks, done, out);
    if (x.stream) {
        dt_free(x.stream, &x.receive);
        dt_free(x.stream, &x.send);
    }
    dt_stream_destroy(x.stream);
    free(x.everybody);
    return status;
}
