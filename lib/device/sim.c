/* The sim device: counts memory and computes nothing. Without a description (options.sim) it does
 * no more, for `dtbench check`; with one it records all operations, for the engine to replay. Its
 * addresses are unique and lie where no process has memory, so that an access by mistake faults at
 * once. */
#include "lib/device/sim.h"
#include "lib/base/grow.h"
#include "lib/device/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_device {
    struct dt_device base;
    uintptr_t next_address;
    struct dt_sim_device description;
    bool described, stands_for_gpu;
    struct dt_sim_program *program;     /* the open recording; NULL: none */
    uint32_t epoch;                     /* number of the program, from 1 */
    const struct dt_sim_moment *events; /* of the last program; owned by the caller */
    char (*stream_names)[32];           /* [stream_count] names of all streams ever created */
    int stream_count;
    struct dt_sim_slot *slots; /* [slot_count] likewise */
    int slot_count;
    uint64_t allocation_hash;
};

/* A stream's queue is full if it holds the kernels of this number of marks. */
enum { QUEUE_MARKS = 8 };

struct sim_stream {
    struct dt_stream base;
    int number;
    /* the following members belong to the program of this epoch */
    uint32_t epoch;
    double kernels;              /* since the last mark */
    uint32_t marks[QUEUE_MARKS]; /* events, the oldest at mark_count % QUEUE_MARKS */
    uint32_t mark_count;
};

struct sim_event {
    struct dt_event base;
    bool recorded;
    uint32_t epoch, number; /* number: the event's, in the program of that epoch */
};

/* Above all addresses that a process gets by default: not canonical on x86-64, and outside the user
 * half on arm64. */
#define SIM_FIRST_ADDRESS ((uintptr_t)1 << 55)

static struct sim_device *sim_of(const struct dt_device *device)
{
    return (struct sim_device *)device;
}

static dt_status sim_create(const struct dt_device_options *options, struct dt_device **out)
{
    struct sim_device *device = calloc(1, sizeof *device);
    DT_TRY(dt_allocated(device, "sim device: no host memory"));
    device->next_address = SIM_FIRST_ADDRESS;
    device->described = options->sim != NULL;
    device->stands_for_gpu = options->stands_for && options->stands_for->gpus;
    if (options->sim)
        device->description = *options->sim;
    *out = &device->base;
    return DT_OK;
}

static void sim_destroy(struct dt_device *base)
{
    struct sim_device *device = sim_of(base);
    for (int i = 0; i < device->slot_count; i++)
        free(device->slots[i].ranks);
    dt_sim_program_destroy(device->program);
    free(device->slots);
    free(device->stream_names);
    free(device);
}

static void sim_info(const struct dt_device *device, struct dt_device_info *out)
{
    snprintf(out->name, sizeof out->name, "simulated device");
    out->threads = 1;
}

/* ---- recording ---- */

const struct dt_sim_device *dt_sim_device_of(const struct dt_device *device)
{
    const struct sim_device *sim = sim_of(device);
    return device->backend == &dt_device_sim && sim->described ? &sim->description : NULL;
}

const struct dt_costs *dt_sim_costs_of(const struct dt_device *device)
{
    const struct dt_sim_device *described = dt_sim_device_of(device);
    return described ? described->costs : NULL;
}

bool dt_sim_stands_for_gpu(const struct dt_device *device)
{
    return device->backend == &dt_device_sim && sim_of(device)->stands_for_gpu;
}

dt_status dt_sim_record_start(struct dt_device *base, bool coalesce)
{
    struct sim_device *device = sim_of(base);
    dt_status status = DT_OK;
    int number;
    if (!dt_sim_device_of(base) || device->program)
        return dt_fail(DT_ERR_INVALID, "sim device: %s", device->program ? "a program is open" : "nothing describes it");
    DT_TRY(dt_sim_program_create(coalesce, &device->program));
    for (int i = 0; i < device->stream_count && status == DT_OK; i++)
        status = dt_sim_program_add_stream(device->program, device->stream_names[i], &number);
    for (int i = 0; i < device->slot_count && status == DT_OK; i++)
        status = dt_sim_program_add_slot(device->program, &number);
    device->epoch++;
    device->events = NULL;
    return status;
}

dt_status dt_sim_record_finish(struct dt_device *base, struct dt_sim_program **out)
{
    struct sim_device *device = sim_of(base);
    *out = device->program;
    device->program = NULL;
    return dt_sim_program_finish(*out);
}

static dt_status sim_pass_enter(struct dt_device *device, struct dt_pass pass)
{
    struct dt_sim_program *program = sim_of(device)->program;
    return program ? dt_sim_program_pass(program, pass.micro_batch, pass.part) : DT_OK;
}

dt_status dt_sim_host(struct dt_device *device, double seconds)
{
    struct dt_sim_program *program = sim_of(device)->program;
    return program ? dt_sim_program_host(program, seconds) : DT_OK;
}

/* The host continues once the stream's queue has room for more kernels. */
static dt_status queue_kernels(struct sim_stream *stream, struct dt_sim_program *program, double kernels)
{
    const struct sim_device *device = sim_of(stream->base.device);
    double room = device->description.queue_kernels;
    if (stream->epoch != device->epoch) {
        stream->epoch = device->epoch;
        stream->kernels = 0;
        stream->mark_count = 0;
    }
    stream->kernels += kernels;
    if (room <= 0 || stream->kernels < room / QUEUE_MARKS)
        return DT_OK;
    uint32_t *mark = &stream->marks[stream->mark_count % QUEUE_MARKS];
    if (stream->mark_count >= QUEUE_MARKS)
        DT_TRY(dt_sim_program_host_wait(program, *mark));
    stream->kernels = 0;
    stream->mark_count++;
    return dt_sim_program_record(program, stream->number, mark);
}

static double slowed_s(const struct dt_stream *stream, double seconds)
{
    const struct dt_sim_device *d = dt_sim_device_of(stream->device);
    return d && d->slowdown > 0 ? d->slowdown * seconds : seconds;
}

_Static_assert(DT_SIM_HELD_KINDS == (int)DT_CATEGORY_COUNT, "a recorded program has the memory of each category");

dt_status dt_sim_work(struct dt_stream *stream, double kernels, double host_s, double seconds, const char *label)
{
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    if (!program)
        return DT_OK;
    DT_TRY(dt_sim_program_host(program, host_s));
    DT_TRY(dt_sim_program_held(program, stream->device->ledger.usage.current_bytes));
    DT_TRY(dt_sim_program_work(program, number, slowed_s(stream, seconds), label));
    return queue_kernels((struct sim_stream *)stream, program, kernels);
}

dt_status dt_sim_shared_work(struct dt_stream *stream, double seconds, double load, const char *label)
{
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    if (!program)
        return DT_OK;
    DT_TRY(dt_sim_program_held(program, stream->device->ledger.usage.current_bytes));
    return dt_sim_program_shared_work(program, number, slowed_s(stream, seconds), load, label);
}

dt_status dt_sim_host_memory(struct dt_stream *stream, double bytes, const char *label)
{
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    return program ? dt_sim_program_copy(program, number, DT_SIM_WITHIN_HOST, bytes, label) : DT_OK;
}

struct dt_sim_program *dt_sim_recording_of(const struct dt_device *device)
{
    return sim_of(device)->program;
}

struct dt_sim_program *dt_sim_recording(const struct dt_stream *stream, int *out_stream)
{
    *out_stream = ((const struct sim_stream *)stream)->number;
    return sim_of(stream->device)->program;
}

void dt_sim_replayed(struct dt_device *device, const struct dt_sim_moment *events)
{
    sim_of(device)->events = events;
}

uint64_t dt_sim_allocation_hash(const struct dt_device *device)
{
    return sim_of(device)->allocation_hash;
}

int dt_sim_slot_count(const struct dt_device *device)
{
    return sim_of(device)->slot_count;
}

const struct dt_sim_slot *dt_sim_slot(const struct dt_device *device, int index)
{
    return &sim_of(device)->slots[index];
}

dt_status dt_sim_add_slot(struct dt_device *base, const char *name, const int *ranks, int size, int *out_slot)
{
    struct sim_device *device = sim_of(base);
    *out_slot = -1;
    if (!device->described)
        return DT_OK;
    DT_FREED int *copy = malloc((size_t)size * sizeof *copy);
    bool memory = copy && DT_ONE_MORE(device->slots, device->slot_count);
    DT_TRY(dt_allocated(memory, "no host memory for a communicator of %d ranks", size));
    memcpy(copy, ranks, (size_t)size * sizeof *copy);
    *out_slot = device->slot_count++;
    device->slots[*out_slot] = (struct dt_sim_slot){.ranks = DT_PASSED_ON(copy), .size = size};
    snprintf(device->slots[*out_slot].name, sizeof device->slots->name, "%s", name);
    int number;
    return device->program ? dt_sim_program_add_slot(device->program, &number) : DT_OK;
}

/* ---- streams and events ---- */

static dt_status sim_stream_create(struct dt_device *base, const char *name, struct dt_stream **out)
{
    struct sim_device *device = sim_of(base);
    DT_FREED struct sim_stream *stream = calloc(1, sizeof *stream);
    DT_TRY(dt_allocated(stream && DT_ONE_MORE(device->stream_names, device->stream_count), "sim stream %s: no host memory", name));
    int number;
    DT_TRY(device->program ? dt_sim_program_add_stream(device->program, name, &number) : DT_OK);
    stream->number = device->stream_count++;
    snprintf(device->stream_names[stream->number], sizeof device->stream_names[0], "%s", name);
    *out = &DT_PASSED_ON(stream)->base;
    return DT_OK;
}

static void sim_stream_destroy(struct dt_stream *stream)
{
    free(stream);
}

static dt_status sim_stream_synchronize(struct dt_stream *stream)
{
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    return program ? dt_sim_program_synchronize(program, number) : DT_OK;
}

/* Events recorded before the program began count as passed. */
static dt_status sim_stream_wait(struct dt_stream *stream, const struct dt_event *base)
{
    const struct sim_event *event = (const struct sim_event *)base;
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    bool ahead = program && event->recorded && event->epoch == sim_of(stream->device)->epoch;
    return ahead ? dt_sim_program_wait(program, number, event->number) : DT_OK;
}

static dt_status sim_event_create(struct dt_device *device, bool timed, struct dt_event **out)
{
    struct sim_event *event = calloc(1, sizeof *event);
    DT_TRY(dt_allocated(event, "sim event: no host memory"));
    *out = &event->base;
    return DT_OK;
}

static void sim_event_destroy(struct dt_event *event)
{
    free(event);
}

static dt_status sim_event_record(struct dt_event *base, struct dt_stream *stream)
{
    struct sim_event *event = (struct sim_event *)base;
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    event->recorded = true;
    event->epoch = program ? sim_of(stream->device)->epoch : 0;
    return program ? dt_sim_program_record(program, number, &event->number) : DT_OK;
}

/* Find both marks in the last program. False if it was not replayed or does not contain them. */
static bool find_moments(const struct dt_event *start_base, const struct dt_event *end_base, const struct dt_sim_moment **start,
                         const struct dt_sim_moment **end)
{
    const struct sim_event *first = (const struct sim_event *)start_base, *last = (const struct sim_event *)end_base;
    const struct sim_device *device = sim_of(start_base->device);
    if (!device->events || first->epoch != device->epoch || last->epoch != device->epoch)
        return false;
    *start = &device->events[first->number];
    *end = &device->events[last->number];
    return true;
}

double dt_sim_event_s(const struct dt_event *event)
{
    const struct dt_sim_moment *start, *end;
    return find_moments(event, event, &start, &end) ? end->at_s : NAN;
}

static dt_status sim_event_elapsed_ns(const struct dt_event *start_base, const struct dt_event *end_base, int64_t *out_ns)
{
    const struct dt_sim_moment *start, *end;
    if (!((const struct sim_event *)start_base)->recorded || !((const struct sim_event *)end_base)->recorded)
        return dt_fail(DT_ERR_INVALID, "elapsed time: an event was never recorded");
    *out_ns = find_moments(start_base, end_base, &start, &end) ? llround((end->at_s - start->at_s) * 1e9) : 0;
    return DT_OK;
}

static void sim_event_idle(const struct dt_event *start_base, const struct dt_event *end_base, struct dt_stream_idle *out)
{
    const struct dt_sim_moment *start, *end;
    if (!find_moments(start_base, end_base, &start, &end))
        return;
    out->host_ns = llround((end->idle.host_s - start->idle.host_s) * 1e9);
    out->copy_ns = llround((end->idle.copy_s - start->idle.copy_s) * 1e9);
}

/* ---- memory ---- */

static void hash_allocation(struct sim_device *device, const struct dt_buffer *buffer, bool freed)
{
    uint64_t what = (uint64_t)buffer->bytes << 6 | (uint64_t)buffer->category << 2 | (uint64_t)buffer->on_host << 1 | freed;
    device->allocation_hash = (device->allocation_hash ^ what) * 0x100000001b3u;
    device->allocation_hash ^= device->allocation_hash >> 29;
}

/* Bytes that the described allocator adds by rounding, beyond the rounding of every device. */
static uint64_t granularity_extra(const struct sim_device *device, const struct dt_buffer *buffer)
{
    uint64_t unit = device->description.granularity_bytes, rounded = dt_ledger_rounded(buffer->bytes);
    uint64_t over = unit && !buffer->on_host ? rounded % unit : 0;
    return over ? unit - over : 0;
}

static dt_status sim_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out)
{
    struct sim_device *device = sim_of(stream->device);
    uint64_t rounded = dt_ledger_rounded(bytes), extra = granularity_extra(device, out);
    if (rounded > UINTPTR_MAX - device->next_address)
        return dt_fail(DT_ERR_OOM, "sim device: out of addresses for %zu bytes", bytes);
    if (extra)
        DT_TRY(dt_ledger_add(&device->base.ledger, out->category, extra));
    out->data = (void *)device->next_address;
    device->next_address += rounded;
    hash_allocation(device, out, false);
    return DT_OK;
}

static void sim_free(struct dt_stream *stream, const struct dt_buffer *buffer)
{
    struct sim_device *device = sim_of(stream->device);
    uint64_t extra = granularity_extra(device, buffer);
    if (extra)
        dt_ledger_remove(&device->base.ledger, buffer->category, extra);
    hash_allocation(device, buffer, true);
}

/* ---- copies and fills ---- */

/* The device moves `bytes` through its memory. */
static dt_status move_within(struct dt_stream *stream, double bytes, const char *label)
{
    const struct dt_sim_device *d = &sim_of(stream->device)->description;
    double seconds = d->memory_bytes_per_s > 0 ? bytes / d->memory_bytes_per_s : 0;
    if (d->copy_load > 0)
        return dt_sim_shared_work(stream, seconds, d->copy_load, label);
    return dt_sim_work(stream, 1, d->copy_host_s, fmax(seconds, d->kernel_s), label);
}

static dt_status move_across(struct dt_stream *stream, enum dt_sim_direction direction, size_t bytes)
{
    int number;
    struct dt_sim_program *program = dt_sim_recording(stream, &number);
    if (!program)
        return DT_OK;
    DT_TRY(dt_sim_program_host(program, sim_of(stream->device)->description.copy_host_s));
    return dt_sim_program_copy(program, number, direction, (double)bytes, direction == DT_SIM_TO_HOST ? "copy to host" : "copy from host");
}

static dt_status sim_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return move_within(stream, 2.0 * (double)bytes, "copy"); /* read and written */
}

static dt_status sim_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return move_across(stream, DT_SIM_TO_DEVICE, bytes);
}

static dt_status sim_count_to_host(struct dt_stream *stream, size_t bytes)
{
    return move_across(stream, DT_SIM_TO_HOST, bytes);
}

static dt_status sim_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to < SIM_FIRST_ADDRESS) /* the caller's own memory */
        memset(to, 0, bytes);
    return sim_count_to_host(stream, bytes);
}

static dt_status sim_zero(struct dt_stream *stream, void *to, size_t bytes)
{
    return move_within(stream, (double)bytes, "zero");
}

const struct dt_device_backend dt_device_sim = {
    .kind = "sim",
    .create = sim_create,
    .destroy = sim_destroy,
    .info = sim_info,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_synchronize = sim_stream_synchronize,
    .stream_wait = sim_stream_wait,
    .event_create = sim_event_create,
    .event_destroy = sim_event_destroy,
    .event_record = sim_event_record,
    .event_elapsed_ns = sim_event_elapsed_ns,
    .event_idle = sim_event_idle,
    .pass_enter = sim_pass_enter,
    .alloc = sim_alloc,
    .free = sim_free,
    .copy = sim_copy,
    .copy_from_host = sim_copy_from_host,
    .copy_to_host = sim_copy_to_host,
    .count_to_host = sim_count_to_host,
    .zero = sim_zero,
};
