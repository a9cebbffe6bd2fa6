/* The functions of a device backend, and the common parts of its objects, which lib/device/device.c
 * owns. Included only by backends.
 *
 * A backend's own device, stream and event structures begin with these and are allocated by its
 * create functions. lib/device/device.c checks arguments and keeps the ledger, so that every
 * backend counts the same bytes; a backend sees only valid arguments and sizes above 0. */
#pragma once

#include "lib/device/device.h"

struct dt_device {
    const struct dt_device_backend *backend; /* set by dt_device_create */
    const struct dt_device_kind *kind;       /* the same */
    struct dt_device_options options;        /* the same; local_size is at least 1 */
    struct dt_ledger ledger, host_ledger;    /* create sets limits that the backend knows; options override them */
    uint64_t live;                           /* a hash of all allocations (address, size and category), independent of their order */
    struct dt_stream *capturing;             /* origin of the open capture; NULL: none */
    uint64_t live_at_begin;                  /* `live` at its beginning, and the peaks before it */
    struct dt_memory_usage usage_at_begin;
    struct dt_spans *spans; /* lib/device/span.c; NULL: nothing is traced */
    struct dt_pass pass;    /* the pass that work is queued for (dt_pass_enter) */
};

struct dt_stream {
    struct dt_device *device; /* both are set by dt_stream_create */
    char name[32];
    struct dt_event *mark; /* of dt_stream_mark; NULL: it has not been needed yet */
};

struct dt_event {
    struct dt_device *device; /* both are set by dt_event_create and dt_event_create_timed */
    bool timed;
};

struct dt_graph {
    struct dt_device *device;     /* these are set by dt_graph_end */
    uint64_t live;                /* `live` must be this at a launch */
    struct dt_memory_usage usage; /* the peaks of a launch */
};

/* Contracts are those of the functions of the same names in lib/device/device.h. An entry marked
 * optional may be NULL. If `missing` is set, the other entries are unused. */
struct dt_device_backend {
    const char *kind;
    const char *missing; /* for a backend that is not in this build: what it is and how to add it; else NULL */
    bool (*available)(char *reason, size_t reason_bytes); /* optional: always available; writes `reason` only if it returns false */
    bool (*look)(
        int index,
        struct dt_device_info *out); /* optional: all ranks share one device. Sets all but kind; *out is zeroed; index is not negative */
    dt_status (*create)(const struct dt_device_options *options, struct dt_device **out);
    void (*destroy)(struct dt_device *device);                                          /* also frees streams and buffers that are left */
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
    int64_t (*event_clock_ns)(const struct dt_event *event); /* optional: dt_clock_ns at the last mark, which has been passed */
    dt_status (*pass_enter)(struct dt_device *device, struct dt_pass pass); /* optional: for a backend with its own recording */
    void (*event_idle)(const struct dt_event *start, const struct dt_event *end,
                       struct dt_stream_idle *out); /* optional; both events have been passed; *out is zeroed */

    /* Fills data and block; on_host of *out says in which memory. Must not block the queue. */
    dt_status (*alloc)(struct dt_stream *stream, size_t bytes, struct dt_buffer *out);
    void (*free)(struct dt_stream *stream, const struct dt_buffer *buffer);

    dt_status (*copy)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*copy_from_host)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*copy_to_host)(struct dt_stream *stream, void *to, const void *from, size_t bytes);
    dt_status (*count_to_host)(struct dt_stream *stream, size_t bytes); /* optional: if no data exists, count several pieces as one copy */
    dt_status (*zero)(struct dt_stream *stream, void *to, size_t bytes);

    bool captures; /* if false, the other entries are NULL */
    dt_status (*graph_begin)(struct dt_stream *origin);
    /* End the capture and return it, or discard it if out is NULL. Does not launch it. */
    dt_status (*graph_end)(struct dt_stream *origin, struct dt_graph **out);
    dt_status (*graph_launch)(struct dt_graph *graph, struct dt_stream *stream);
    void (*graph_destroy)(struct dt_graph *graph); /* waits for the graph's last launch */
};

/* Defined in each folder by backend.c, or by none.c in builds without it. */
extern const struct dt_device_backend dt_device_cpu, dt_device_cuda, dt_device_sim;
