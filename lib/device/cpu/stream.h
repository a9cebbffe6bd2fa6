/* Internals of the cpu device: a stream is a thread that works through a ring of tasks in order; an
 * event is a place in such a ring.
 *
 * Only the host thread adds entries, and no thread spins: two ranks may share a processor. Entries
 * are numbered from 1; a stream has passed entry n when all entries up to n are done. After a
 * failure a stream skips its later tasks but still passes their numbers, so that waiting threads go
 * on (and inherits the failure, see dt_cpu_stream_wait_for). */
#pragma once

#include "lib/device/backend.h"
#include "lib/device/cpu/device.h"

#include <pthread.h>

enum cpu_entry_kind {
    CPU_TASK,    /* skipped while the stream has a failure */
    CPU_CLEANUP, /* runs even then */
    CPU_MARK,
    CPU_WAIT
};

struct cpu_entry {
    enum cpu_entry_kind kind;
    dt_cpu_task task;
    const char *label;
    _Alignas(16) unsigned char arguments[DT_CPU_ARGUMENT_BYTES];
};

/* Entries `number` to `last` may have failed. last is UINT64_MAX until dt_stream_synchronize has
 * reported the failure. */
struct cpu_failure {
    dt_status status;
    uint64_t first, last;
    char text[1024];
};

struct cpu_stream {
    struct dt_stream base;
    struct cpu_stream *next; /* the device's list. A stopped stream stays in it, as events and freed blocks may still name it */
    pthread_t thread;
    int threads;    /* of one kernel */
    bool running;   /* host only: false once stopped */
    bool exchanges; /* host only: see dt_cpu_stream_exchanges */
    struct cpu_entry *ring;
    uint64_t reported; /* host only: failures up to this entry have been reported */

    pthread_mutex_t mutex; /* guards the following members, and entries: [passed, queued) are the thread's, the others the host's */
    pthread_cond_t added, advanced;
    uint64_t queued, passed;
    uint64_t awaited; /* the smallest number that a thread waits for in `advanced`; UINT64_MAX: none */
    bool idle, stop;
    int64_t starved_ns; /* only the thread: total time with an empty ring */
    struct cpu_failure failure;
};

struct cpu_event {
    struct dt_event base;
    struct cpu_stream *stream; /* host only, as the next two: the last record; NULL before the first */
    uint64_t number;           /* of its entry */
    uint64_t recorded;         /* count of records */
    pthread_mutex_t mutex;     /* guards what follows */
    uint64_t passed;           /* the latest record that was passed, by its count */
    int64_t time_ns;           /* when */
    int64_t starved_ns;        /* the stream's at that time */
};

/* Owner of *out: the device. Stop ends the thread and frees the ring, discard frees the rest.
 * Errors: DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status dt_cpu_stream_start(const char *name, int threads, struct cpu_stream **out);
void dt_cpu_stream_stop(struct cpu_stream *stream); /* waits for what is queued; a second call does nothing */
void dt_cpu_stream_discard(struct cpu_stream *stream);

/* Queue an entry; blocks while the ring is full. */
void dt_cpu_stream_push(struct cpu_stream *stream, enum cpu_entry_kind kind, const char *label, dt_cpu_task task, const void *arguments,
                        size_t arguments_bytes);

/* Queue a wait until `source` has passed entry `number`. inherit: if that entry came after a
 * failure of `source` that has not been reported yet, `stream` fails, too, so that nothing is
 * computed from invalid data. */
void dt_cpu_stream_wait_for(struct cpu_stream *stream, struct cpu_stream *source, uint64_t number, bool inherit);

bool dt_cpu_stream_has_passed(struct cpu_stream *stream, uint64_t number);
void dt_cpu_stream_drain(struct cpu_stream *stream); /* blocks until the ring is empty */

/* The rows of the backend's table that concern streams and events. */
dt_status dt_cpu_stream_synchronize(struct dt_stream *stream);
dt_status dt_cpu_stream_wait(struct dt_stream *stream, const struct dt_event *event);
dt_status dt_cpu_event_create(struct dt_device *device, bool timed, struct dt_event **out);
void dt_cpu_event_destroy(struct dt_event *event);
dt_status dt_cpu_event_record(struct dt_event *event, struct dt_stream *stream);
dt_status dt_cpu_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);
int64_t dt_cpu_event_clock_ns(const struct dt_event *event);
void dt_cpu_event_idle(const struct dt_event *start, const struct dt_event *end, struct dt_stream_idle *out);
