/* One kernel's work spread over threads. */
#ifndef LIB_KERNELS_CPU_TEAM_H
#define LIB_KERNELS_CPU_TEAM_H

#include "lib/device/cpu/device.h"

#include <stddef.h>

/* The part of `thread` out of `threads`; both count what really runs, which may be fewer than asked for. */
typedef void (*dt_cpu_part)(void *argument, int thread, int threads);

/* Run `part` on a team of at most `threads` threads, the caller among them; returns when all are done. */
void dt_cpu_parallel(int threads, dt_cpu_part part, void *argument);

/* Elements [first, end) of `count` that are this thread's: even shares, whose ends are multiples of `granule`. */
struct dt_cpu_share {
    size_t first, end;
};
struct dt_cpu_share dt_cpu_share(size_t count, size_t granule, int thread, int threads);

/* A kernel on items that stand alone, such as the rows of a matrix: those from `first` up to `end`, of the kernels k. */
typedef void (*dt_cpu_items)(const void *k, const void *arguments, size_t first, size_t end);

struct dt_cpu_work {
    dt_cpu_items make;
    const void *k;
    size_t count, granule; /* items; the threads' shares of them end at multiples of `granule` */
    int threads;           /* at most */
};

/* Queue it on a stream of the cpu device, with a copy of `arguments` (at most DT_CPU_WORK_BYTES). `label` is a string literal. */
enum { DT_CPU_WORK_BYTES = 208 };
dt_status dt_cpu_submit_work(struct dt_stream *stream, const char *label, const struct dt_cpu_work *work, const void *arguments,
                             size_t arguments_bytes);

/* Host memory that only grows: what a kernel needs beside its arguments, kept from call to call. */
struct dt_cpu_scratch {
    void *data; /* page-aligned */
    size_t bytes;
};

/* At least `bytes`; what was there is lost when it grows. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_cpu_scratch_reserve(struct dt_cpu_scratch *scratch, size_t bytes);
void dt_cpu_scratch_free(struct dt_cpu_scratch *scratch); /* takes a zeroed one */

#endif
