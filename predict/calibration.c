#include "predict/calibration.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/base/statistics.h"
#include "lib/model/probe.h"
#include "lib/sim/program.h"
#include "predict/profile.h"
#include "schedules/config/families.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 3 };
enum { COPIED_BYTES = 64 << 20, QUICK_COPIED_BYTES = 1 << 20 };
enum { QUEUED = 8 }; /* collectives that GPUs queue before the host waits, so that waiting does not count in their time */
enum { REPETITIONS = 7, QUICK_REPETITIONS = 2 };

/* The state with which one rank measures. */
struct measuring {
    const struct calibration_request *request;
    const struct dt_world *place;
    struct dt_device *device;
    struct dt_comm *world;
    const struct calibration_hooks *hooks;
    const struct dt_model_family *family; /* the family whose kernels are measured now */
    struct dt_probe *probe;
    double *everybody; /* [2 * ranks] numbers that the ranks exchange */
    int beside;        /* ranks that share this rank's processors, itself included */
    int threads;
    int done, total; /* number of measurements */
    struct calibration *out;
};

static dt_status report_progress(struct measuring *m)
{
    return m->hooks->progress(m->hooks->context, ++m->done, m->total);
}

/* ---- kernels ---- */

/* Long enough for the clock, short enough for hundreds of windows. If there are more ranks than
 * processors, the operating system switches between them every few milliseconds, and a window must
 * hold several turns. */
static double window_s(const struct measuring *m, int ranks)
{
    double turns = ceil((double)(ranks < m->beside ? ranks : m->beside) * m->threads / dt_machine_processors());
    return (m->request->quick ? 0.0005 : 0.003) * turns;
}

/* Seconds of one call, the median of several windows. */
static dt_status time_windows(const struct measuring *m, double length_s, double *out)
{
    double seconds[WINDOWS];
    int times = 1; /* calls between two readings of the clock, so that waiting for the device hardly counts */
    for (int w = 0; w < WINDOWS; w++) {
        double start = dt_clock_s(), now = start;
        int done = 0;
        while (now - start < length_s) {
            DT_TRY(dt_probe_run(m->probe, times));
            done += times;
            now = dt_clock_s();
            times = (int)fmin(fmax(1, length_s / 4 * done / (now - start)), 256);
        }
        seconds[w] = (now - start) / done;
    }
    return dt_statistics_quantile(seconds, WINDOWS, 0.5, out);
}

/* A barrier after which all ranks go on at the same moment: ranks that wait for others sleep, and
 * wake up one by one. */
static dt_status begin_together(const struct measuring *m)
{
    const double wake_up_s = 0.0015;
    double start = dt_clock_s() + wake_up_s;
    DT_TRY(dt_host_all_gather(m->world, &start, sizeof start, m->everybody));
    for (int r = 0; r < dt_comm_size(m->world); r++)
        start = fmax(start, m->everybody[r]);
    dt_sleep_until_s(start);
    return DT_OK;
}

/* The harmonic mean over the ranks, which is the reciprocal of their mean speed: the order in which
 * ranks ran does not matter. */
static dt_status mean(const struct measuring *m, double mine, double *out)
{
    double speed = 0;
    DT_TRY(dt_host_all_gather(m->world, &mine, sizeof mine, m->everybody));
    for (int r = 0; r < dt_comm_size(m->world); r++)
        speed += 1 / m->everybody[r] / dt_comm_size(m->world);
    *out = 1 / speed;
    return DT_OK;
}

/* Send rank 0's value to all ranks. */
static dt_status share(const struct measuring *m, double *value)
{
    DT_TRY(dt_host_all_gather(m->world, value, sizeof *value, m->everybody));
    *value = m->everybody[0];
    return DT_OK;
}

static dt_status measure_kernel(const struct measuring *m, struct dt_measured *what)
{
    int ranks = dt_comm_size(m->world);
    double mine;
    DT_TRY(dt_probe_set(m->probe, what));
    DT_TRY(dt_probe_run(m->probe, 1)); /* this creates what the library keeps for the shape */
    if (dt_comm_rank(m->world) == 0)
        DT_TRY(time_windows(m, window_s(m, 1), &what->alone_s));
    DT_TRY(share(m, &what->alone_s));
    what->together_s = what->alone_s;
    if (ranks == 1 || !calibration_shares(m->request))
        return DT_OK;
    DT_TRY(begin_together(m));
    DT_TRY(time_windows(m, window_s(m, ranks), &mine));
    DT_TRY(mean(m, mine, &what->together_s));
    what->together_s = fmax(what->together_s, what->alone_s); /* a lower value is noise */
    return DT_OK;
}

static dt_status add_kernel(const struct measuring *m, struct dt_measured *what)
{
    if (m->out->kernels.count == DT_MEASURED_MAX)
        return dt_fail(DT_ERR_INVALID, "more than %d measurements: name fewer numbers of ranks, or dtypes", DT_MEASURED_MAX);
    what->ranks = m->beside;
    what->threads = calibration_shares(m->request) ? m->threads : 1;
    DT_TRY(measure_kernel(m, what));
    what->kernel += what->kernel < DT_PRICED_SHARED ? 0 : profile_shift(m->family);
    m->out->kernels.entries[m->out->kernels.count++] = *what;
    return DT_OK;
}

static dt_status measure_kernels(struct measuring *m)
{
    struct dt_measured what;
    for (int i = 0; calibration_kernel(m->request, m->family, i, &what); i++) {
        dt_status status = add_kernel(m, &what);
        if (status < 0 && status != DT_ERR_UNAVAILABLE) /* the family does not support this dtype: there is nothing to measure */
            return status;
        DT_TRY(report_progress(m));
    }
    return DT_OK;
}

/* ---- copies between host and GPU ---- */

struct copying {
    struct dt_stream *stream;
    struct dt_buffer device, host;
};

static dt_status copy(const struct copying *c, size_t bytes, bool to_host)
{
    DT_TRY(to_host ? dt_copy_to_host(c->stream, c->host.data, c->device.data, bytes)
                   : dt_copy_from_host(c->stream, c->device.data, c->host.data, bytes));
    return dt_stream_synchronize(c->stream);
}

/* Seconds of one copy: the median of several, after a first one that does not count. */
static dt_status time_copy(const struct copying *c, size_t bytes, bool to_host, double *out)
{
    double seconds[REPETITIONS];
    DT_TRY(copy(c, bytes, to_host));
    for (int i = 0; i < REPETITIONS; i++) {
        double start = dt_clock_s();
        DT_TRY(copy(c, bytes, to_host));
        seconds[i] = dt_clock_s() - start;
    }
    return dt_statistics_quantile(seconds, REPETITIONS, 0.5, out);
}

static dt_status time_copies(const struct copying *c, size_t bytes, struct calibration_gpu *gpu)
{
    double from, to;
    DT_TRY(time_copy(c, bytes, false, &from));
    DT_TRY(time_copy(c, bytes, true, &to));
    DT_TRY(time_copy(c, sizeof(float), false, &gpu->copy_s));
    gpu->copy_bytes_per_s = (double)bytes / fmax(from, to);
    return DT_OK;
}

static dt_status measure_copies(const struct measuring *m)
{
    size_t bytes = m->request->quick ? QUICK_COPIED_BYTES : COPIED_BYTES;
    struct copying c = {.stream = NULL};
    if (dt_comm_rank(m->world) > 0)
        return DT_OK;
    DT_TRY(dt_stream_create(m->device, "copies", &c.stream));
    dt_status status = dt_alloc(c.stream, DT_WORKSPACE, bytes, &c.device);
    DT_THEN(status, dt_alloc_host(c.stream, DT_WORKSPACE, bytes, &c.host));
    DT_THEN(status, time_copies(&c, bytes, &m->out->gpu));
    dt_free(c.stream, &c.host);
    dt_free(c.stream, &c.device);
    dt_stream_destroy(c.stream);
    return status;
}

/* ---- collectives ----
 *
 * Collectives and messages by size, while nothing else runs. Their processor time shows how much
 * they and concurrent kernels slow each other down. */

#define SIZE_S 2.0 /* limit in seconds of all repetitions of one size, without the first two */
#define LONG_S 0.5 /* sizes after one that takes this long are left out */

/* A group of ranks that measures collectives. */
struct exchange {
    struct dt_comm *group; /* NULL: this rank is no member */
    int nodes;             /* nodes that the group spans */
    int processors;        /* of all these nodes */
    int queued;            /* collectives that are queued before a wait */
    struct dt_stream *stream;
    struct dt_buffer send, receive;  /* each has room for the largest size */
    double *everybody;               /* [2 * ranks] */
    struct calibration_times *times; /* gets each repetition's time; NULL: times are not kept */
};

/* From rank 0 to rank 1 and back: the message is sent twice. */
static dt_status queue_message(struct exchange *x, size_t elems)
{
    int rank = dt_comm_rank(x->group);
    if (rank > 1)
        return DT_OK;
    if (rank == 0)
        DT_TRY(dt_send(x->group, x->send.data, elems, DT_FP32, 1, x->stream));
    DT_TRY(dt_recv(x->group, x->receive.data, elems, DT_FP32, 1 - rank, x->stream));
    return rank == 1 ? dt_send(x->group, x->send.data, elems, DT_FP32, 0, x->stream) : DT_OK;
}

/* bytes: in the sense of lib/sim/program.h. */
static dt_status queue(struct exchange *x, enum dt_sim_collective kind, double bytes)
{
    size_t elems = (size_t)bytes / sizeof(float), part = elems / (size_t)dt_comm_size(x->group);
    part = part ? part : 1;
    switch (kind) {
    case DT_SIM_ALL_REDUCE: return dt_all_reduce(x->group, x->send.data, elems, DT_FP32, DT_AVG, x->stream);
    case DT_SIM_REDUCE_SCATTER: return dt_reduce_scatter(x->group, x->send.data, x->receive.data, part, DT_FP32, DT_AVG, x->stream);
    case DT_SIM_ALL_GATHER: return dt_all_gather(x->group, x->send.data, x->receive.data, part, DT_FP32, x->stream);
    case DT_SIM_BROADCAST: return dt_broadcast(x->group, x->send.data, elems, DT_FP32, 0, x->stream);
    case DT_SIM_REDUCE: return dt_reduce(x->group, x->send.data, elems, DT_FP32, DT_AVG, 0, x->stream);
    case DT_SIM_COLLECTIVES:
    case DT_SIM_ALL_TO_ALL:
    case DT_SIM_SHIFT:
    case DT_SIM_OPERATIONS: break;
    }
    return queue_message(x, elems);
}

double calibration_load(const double (*told)[2], int ranks, int processors)
{
    double busy_s = 0, wall_s = told[0][1];
    for (int r = 0; r < ranks; r++)
        busy_s += told[r][0];
    return fmin(fmax(busy_s / (wall_s * processors), 0.01), 1);
}

/* One repetition of the collective, concurrently with `products` repetitions of the probe's
 * product. Returns the seconds until both are done. */
static dt_status repeat(struct exchange *x, const struct measuring *m, const struct dt_sim_measured *what, int products, double *out_s)
{
    double start = dt_clock_s();
    for (int q = 0; q < x->queued; q++)
        DT_TRY(queue(x, what->kind, what->bytes));
    if (products > 0)
        DT_TRY(dt_probe_run(m->probe, products));
    DT_TRY(dt_stream_synchronize(x->stream));
    *out_s = (dt_clock_s() - start) / x->queued;
    return DT_OK;
}

/* The ranks begin each repetition together, since they ended the previous one together. Seconds:
 * median over the repetitions; processor time: sum over the ranks. */
static dt_status time_exchange(struct exchange *x, const struct measuring *measuring, int repetitions, struct dt_sim_measured *m)
{
    double seconds[CALIBRATION_REPETITIONS], wall = 0, processor = dt_processor_clock_s();
    for (int i = 0; i < repetitions; i++) {
        DT_TRY(repeat(x, measuring, m, 0, &seconds[i]));
        wall += seconds[i] * x->queued;
    }
    int times = m->kind == DT_SIM_MESSAGE ? 2 : 1;
    bool takes_part = m->kind != DT_SIM_MESSAGE || dt_comm_rank(x->group) < 2;
    double mine[2] = {takes_part ? dt_processor_clock_s() - processor : 0, wall};
    DT_TRY(dt_statistics_quantile(seconds, repetitions, 0.5, &m->seconds));
    m->seconds /= times;
    if (x->times)
        x->times->count = repetitions;
    for (int i = 0; x->times && i < repetitions; i++)
        x->times->alone_s[i] = seconds[i] / times;
    DT_TRY(dt_host_all_gather(x->group, mine, sizeof mine, x->everybody));
    m->load = calibration_load((const double(*)[2])x->everybody, dt_comm_size(x->group), x->processors);
    return DT_OK;
}

/* Time the collective concurrently with a product. The product is repeated until it takes about as
 * long as the collective; the number of repetitions is the same on all ranks. */
static dt_status time_beside(struct exchange *x, const struct measuring *m, const struct dt_sim_measured *what)
{
    struct calibration_times *times = x->times;
    double alone_s[CALIBRATION_REPETITIONS], start = dt_clock_s(), products;
    DT_TRY(dt_probe_run(m->probe, 1));
    products = fmax(1, round(what->seconds * x->queued / (dt_clock_s() - start)));
    DT_TRY(dt_host_all_gather(x->group, &products, sizeof products, x->everybody));
    products = fmin(x->everybody[0], 1e4);
    for (int i = 0; i < times->count; i++) {
        start = dt_clock_s();
        DT_TRY(dt_probe_run(m->probe, (int)products));
        alone_s[i] = (dt_clock_s() - start) / x->queued;
    }
    DT_TRY(dt_statistics_quantile(alone_s, times->count, 0.5, &times->product_s));
    DT_TRY(dt_host_all_gather(x->group, &products, sizeof products, x->everybody)); /* this also makes all begin together */
    for (int i = 0; i < times->count; i++) {
        DT_TRY(repeat(x, m, what, (int)products, &times->beside_s[i]));
        times->beside_s[i] /= what->kind == DT_SIM_MESSAGE ? 2 : 1;
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

static dt_status create_exchange(struct measuring *m, struct exchange *x)
{
    size_t bytes = largest_bytes(m->request);
    x->everybody = m->everybody;
    x->queued = calibration_shares(m->request) ? 1 : QUEUED;
    DT_TRY(dt_stream_create(m->device, "network", &x->stream));
    DT_TRY(dt_alloc(x->stream, DT_COMMUNICATION, bytes, &x->send));
    DT_TRY(dt_alloc(x->stream, DT_COMMUNICATION, bytes, &x->receive));
    return dt_zero(x->stream, x->send.data, bytes);
}

static void finish_exchange(struct exchange *x)
{
    if (!x->stream)
        return;
    dt_free(x->stream, &x->receive);
    dt_free(x->stream, &x->send);
    dt_stream_destroy(x->stream);
}

/* The first repetition touches the memory, and its time limits the number of repetitions. */
static dt_status measure_exchange(const struct measuring *m, struct exchange *x, struct dt_sim_measured *what)
{
    double start = dt_clock_s();
    DT_TRY(queue(x, what->kind, what->bytes));
    DT_TRY(dt_stream_synchronize(x->stream));
    double first = dt_clock_s() - start;
    DT_TRY(dt_host_all_gather(x->group, &first, sizeof first, x->everybody)); /* this is also a barrier */
    int most = m->request->bench.sizes > 0 ? m->request->bench.repetitions : m->request->quick ? QUICK_REPETITIONS : REPETITIONS;
    DT_TRY(time_exchange(x, m, (int)fmin(most, fmax(2, SIZE_S / x->everybody[0])), what));
    return m->request->bench.product ? time_beside(x, m, what) : DT_OK;
}

/* Ranks that are not in the group wait until it is done. */
static dt_status add_collective(struct measuring *m, struct exchange *x, struct dt_sim_measured *what)
{
    struct dt_sim_measured_list *list = &m->out->collectives;
    if (list->count == DT_SIM_MEASURED_MAX)
        return dt_fail(DT_ERR_INVALID, "more than %d measured collectives: name fewer numbers of ranks", DT_SIM_MEASURED_MAX);
    x->times = m->request->bench.sizes > 0 ? &m->out->times[list->count] : NULL;
    if (x->group)
        DT_TRY(measure_exchange(m, x, what));
    DT_TRY(share(m, &what->seconds));
    DT_TRY(share(m, &what->load));
    list->entries[list->count++] = *what;
    return DT_OK;
}

/* Measure every kind, by size, in one group. */
static dt_status measure_group(struct measuring *m, struct exchange *x, int ranks)
{
    struct dt_sim_measured what, before = {.kind = -1};
    for (int i = 0; calibration_collective(m->request, i, &what); i++) {
        what.ranks = ranks;
        what.nodes = x->nodes;
        if (what.kind != before.kind || before.seconds < LONG_S || m->request->bench.sizes > 0) {
            DT_TRY(add_collective(m, x, &what));
            before = what;
        }
        DT_TRY(report_progress(m));
    }
    return DT_OK;
}

static bool contains(const int *ranks, int count, int rank)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* ranks: has room for the whole world. After a failure ranks may have lost each other, and no
 * communicator can be closed. */
static dt_status measure_groups(struct measuring *m, struct exchange *x, int *ranks)
{
    const struct calibration_place *place = &m->out->place;
    for (int g = 0; g < calibration_group_count(place); g++) {
        int count = calibration_group(place, g, ranks, &x->nodes);
        bool member = contains(ranks, count, dt_comm_rank(m->world));
        x->processors = dt_machine_processors() * (place->shared_processors ? 1 : x->nodes);
        DT_TRY(dt_comm_subset(m->world, ranks, member ? count : 0, "calibration", &x->group));
        DT_TRY(measure_group(m, x, count));
        dt_comm_destroy(x->group);
    }
    return DT_OK;
}

/* Measure this rank's group on the axis: every rank is in one group, and all groups are measured at
 * the same time. */
static dt_status measure_axis(struct measuring *m, struct exchange *x, int *ranks)
{
    const struct calibration_bench *b = &m->request->bench;
    const struct calibration_place *place = &m->out->place;
    int world = dt_comm_size(m->world), rank = dt_comm_rank(m->world), count = b->group ? b->group : world;
    int first = rank / (count * b->stride) * count * b->stride + rank % b->stride;
    if (world % (count * b->stride) != 0)
        return dt_fail(DT_ERR_INVALID, "groups of %d ranks, each %d after the one before: %d ranks are no multiple of %d", count, b->stride,
                       world, count * b->stride);
    x->nodes = 0;
    for (int i = 0; i < count; i++) {
        ranks[i] = first + i * b->stride;
        x->nodes += i == 0 || ranks[i] / place->ranks_per_node != ranks[i - 1] / place->ranks_per_node;
    }
    x->processors = dt_machine_processors() * (place->shared_processors ? 1 : x->nodes);
    DT_TRY(dt_comm_subset(m->world, ranks, count, "bench", &x->group));
    dt_status status = measure_group(m, x, count);
    dt_comm_destroy(x->group);
    return status;
}

static dt_status measure_collectives(struct measuring *m, struct exchange *x)
{
    DT_FREED int *ranks = calloc((size_t)dt_comm_size(m->world), sizeof *ranks);
    DT_TRY(ranks ? create_exchange(m, x) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the ranks of a group"));
    return m->request->bench.sizes > 0 ? measure_axis(m, x, ranks) : measure_groups(m, x, ranks);
}

/* ---- kernels and collectives ---- */

static dt_status measure_family(struct measuring *m, const struct dt_model_family *family)
{
    m->family = family;
    DT_TRY(dt_probe_create(family, m->device, calibration_region_bytes(m->request), &m->probe));
    dt_status status = measure_kernels(m);
    dt_probe_destroy(m->probe); /* frees its memory before the buffers of copies and collectives are allocated */
    return status;
}

/* Measure everything that involves a single rank only. */
static dt_status measure_alone(struct measuring *m)
{
    for (int f = 0; model_family(f); f++)
        if (calibration_measures(m->request, model_family(f)))
            DT_TRY(measure_family(m, model_family(f)));
    return calibration_shares(m->request) ? DT_OK : measure_copies(m);
}

/* For dtbench bench: only collectives. A concurrent product has its own probe. */
static dt_status measure_bench(struct measuring *m)
{
    DT_ENDED(finish_exchange) struct exchange exchange = {.group = NULL};
    struct dt_measured product;
    DT_TRY(calibration_place_find(m->place, m->world, &m->out->place));
    m->total = calibration_count(m->request, 1);
    if (m->request->bench.product) {
        if (!calibration_product(&m->family, &product))
            return dt_fail(DT_ERR_UNAVAILABLE, "no family of models has a product that can run with the collectives");
        DT_TRY(dt_probe_create(m->family, m->device, CALIBRATION_QUICK_REGION_BYTES, &m->probe));
        DT_TRY(dt_probe_set(m->probe, &product));
        DT_TRY(dt_probe_run(m->probe, 1));
    }
    dt_status status = measure_collectives(m, &exchange);
    dt_probe_destroy(m->probe);
    return status;
}

static dt_status measure(struct measuring *m)
{
    DT_ENDED(finish_exchange) struct exchange exchange = {.group = NULL};
    struct calibration_place *place = &m->out->place;
    DT_TRY(calibration_place_find(m->place, m->world, place));
    m->beside = place->shared_processors ? dt_comm_size(m->world) : place->ranks_per_node;
    if (!calibration_shares(m->request))
        m->beside = 1;
    m->total = calibration_count(m->request, dt_comm_size(m->world) > 1 ? calibration_group_count(place) : 0);
    if (calibration_shares(m->request) || m->request->kernels)
        DT_TRY(measure_alone(m));
    return dt_comm_size(m->world) == 1 ? DT_OK : measure_collectives(m, &exchange);
}

static void describe_gpu(const struct dt_device_info *info, struct calibration_gpu *out)
{
    snprintf(out->name, sizeof out->name, "%.63s", info->name);
    out->memory_bytes = (double)info->memory_bytes;
    out->reserved_bytes = info->available_bytes > 0 ? (double)(info->memory_bytes - info->available_bytes) : 0;
    memcpy(out->peak_flops, info->peak_flops, sizeof out->peak_flops);
}

dt_status calibration_run(const struct calibration_request *request, const struct dt_world *world, struct dt_device *device,
                          struct dt_comm *comm, const struct calibration_hooks *hooks, struct calibration *out)
{
    struct dt_device_info info;
    int ranks = dt_comm_size(comm);
    dt_device_info(device, &info);
    struct measuring m = {.request = request,
                          .device = device,
                          .place = world,
                          .world = comm,
                          .hooks = hooks,
                          .everybody = calloc(2 * (size_t)ranks, sizeof(double)),
                          .threads = info.threads,
                          .out = out};
    DT_TRY(dt_allocated(m.everybody, "no host memory for %d ranks", ranks));
    if (!calibration_shares(request))
        describe_gpu(&info, &out->gpu);
    dt_status status = request->bench.sizes > 0 ? measure_bench(&m) : measure(&m);
    free(m.everybody);
    if (ranks > 1)
        snprintf(out->library, sizeof out->library, "%s", dt_comm_library(comm));
    return status;
}
