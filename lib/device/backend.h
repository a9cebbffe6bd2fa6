/* What a device backend provides, and the parts of its objects that lib/device/device.c owns. Included by the backends only.
 *
 * A backend's own device, stream and event structures begin with these and are allocated by its create functions. lib/device/device.c
 * checks arguments and keeps the ledger, so that every backend counts the same bytes; a backend sees only valid arguments and sizes above
 * 0. */
#ifndef LIB_DEVICE_BACKEND_H
#define LIB_DEVICE_BACKEND_H

#include "lib/device/device.h"

struct dt_device {
    const struct dt_device_backend *backend; /* set by dt_device_create */
    const struct dt_device_kind *kind;       /* the same */
    struct dt_device_options options;        /* the same; local_size is at least 1 */
    struct dt_ledger ledger, host_ledger;    /* create sets the limits where it knows sizes of its own; options override them */
    uint64_t live;                           /* a number made of all that is allocated: address, size and category, in no order */
    struct dt_stream *capturing;             /* the origin of the capture that is open; NULL */
    uint64_t live_at_begin;                  /* of that capture; and the peaks before it */
    struct dt_memory_usage usage_at_begin;
    struct dt_spans *spans; /* lib/device/span.c; NULL: nothing is traced */
    struct dt_pass pass;    /* of what is queued now, as dt_pass_enter said */
};

struct dt_stream {
    struct dt_device *device; /* these two are set by dt_stream_create */
    char name[32];
};

struct dt_event {
    struct dt_device *device; /* these two are set by dt_event_create and dt_event_create_timed */
    bool timed;
};

struct dt_graph {
    struct dt_device *device;     /* these are set by dt_graph_end */
    uint64_t live;                /* what must be allocated at a launch */
    struct dt_memory_usage usage; /* the peaks of a launch */
};

/* Contracts are those of the function of the same name in lib/device/device.h. An entry marked optional may be NULL. Where `missing` is set,
 * nothing else is looked at. */
struct dt_device_backend {
    const char *kind;
    const char *missing; /* of a backend that is not in this build: what it is and what brings it; else NULL */
    bool (*available)(char *reason, size_t reason_bytes); /* optional: always; writes `reason` only where it returns false */
    bool (*look)(
        int index,
        struct dt_device_info *out); /* optional: one device does for all ranks. All but kind; *out is zeroed; index is not negative */
    dt_status (*create)(const struct dt_device_options *options, struct dt_device **out);
    void (*destroy)(struct dt_device *device);                                          /* frees streams and buffers that are left, too */
    void (*info)(const struct dt_device *device, struct dt_device_info *out);           /* all but kind; *out is zeroed */
    void (*condition)(const struct dt_device *device, struct dt_device_condition *out); /* optional; *out is initialised */
    uint64_t (*reserved_bytes)(const struct dt_device *device);                         /* optional: 0 */

    dt_status (*stream_create)(struct dt_device *device, const char *name, struct dt_stream **out);
    void (*stream_destroy)(struct dt_stream *stream);
    dt_status (*stream_synchronize)(struct dt_stream *stream);
    dt_status (*stream_wait)(struct dt_stream *stream, const struct dt_event *event);

    dt_status (*event_create)(struct dt_device *device, bool timed, struct dt_event **out);
    void (*event_destroy)(struct dt_event *event);
    dt_status (*event_record)(struct dt_event *event, struct dt_stream *stream);
    dt_status (*event_elapsed_ns)(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);
    int64_t (*event_clock_ns)(const struct dt_event *event); /* optional: when the last mark was passed, on dt_clock_ns; it is */
    dt_status (*pass_enter)(struct dt_device *device, struct dt_pass pass); /* optional: a recording of its own wants to know */
    void (*event_idle)(const struct dt_event *start, const struct dt_event *end,
                       struct dt_stream_idle *out); /* optional; both passed; *out is zeroed */

    /* Fills data and block; on_host of *out says which memory. Must not block the queue. */
    dt_status (*alloc)(struct dt_stream *stream, size_t bytes, struct dt_buffer *out);
    void (*free)(struct dt_stream *stream, const struct dt_buffer *buffer);

    dt_status (*copy)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*copy_from_host)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*copy_to_host)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*count_to_host)(struct dt_stream *stream, size_t bytes); /* optional: where nothing is moved, pieces together as one copy */
    dt_status (*zero)(struct dt_stream *stream, void *to, size_t bytes);

    bool captures; /* where it is false the rest is NULL */
    dt_status (*graph_begin)(struct dt_stream *origin);
    /* End the capture and give what was captured, or throw it away where out is NULL. Does not launch it. */
    dt_status (*graph_end)(struct dt_stream *origin, struct dt_graph **out);
    dt_status (*graph_launch)(struct dt_graph *graph, struct dt_stream *stream);
    void (*graph_destroy)(struct dt_graph *graph); /* waits for its last launch */
};

/* In each folder backend.c, or none.c where it is not compiled in. */
extern const struct dt_device_backend dt_device_cpu, dt_device_cuda, dt_device_sim;

#endif
