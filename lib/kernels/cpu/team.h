/* One kernel's work divided over threads. */
#pragma once

#include "lib/device/cpu/device.h"

#include <stddef.h>

/* The share of thread `thread` of `threads`. Both count the threads that really run, which may be
 * fewer than requested. */
typedef void (*dt_cpu_part)(void *argument, int thread, int threads);

/* Run `part` on a team of at most `threads` threads, including the caller. Returns when all are
 * done. */
void dt_cpu_parallel(int threads, dt_cpu_part part, void *argument);

/* This thread's elements [first, end) of `count`: equal shares, which end at multiples of
 * `granule`. */
struct dt_cpu_share {
    size_t first, end;
};
struct dt_cpu_share dt_cpu_share(size_t count, size_t granule, int thread, int threads);

/* A kernel over independent items, such as rows of a matrix: computes the items from `first` up to
 * `end`, with the kernels k. */
typedef void (*dt_cpu_items)(const void *k, const void *arguments, size_t first, size_t end);

struct dt_cpu_work {
    dt_cpu_items make;
    const void *k;
    size_t count, granule; /* number of items; threads' shares end at multiples of `granule` */
    int threads;           /* the most threads to use */
};

/* Queue the kernel on a stream of the cpu device, with a copy of `arguments` (at most
 * DT_CPU_WORK_BYTES). `label` is a string literal. */
enum { DT_CPU_WORK_BYTES = 208 };
dt_status dt_cpu_submit_work(struct dt_stream *stream, const char *label, const struct dt_cpu_work *work, const void *arguments,
                             size_t arguments_bytes);

/* Host memory that only grows: memory that a kernel needs besides its arguments, kept from call to
 * call. */
struct dt_cpu_scratch {
    void *data; /* page-aligned */
    size_t bytes;
};

/* Reserve at least `bytes`; the content is lost when the memory grows. Errors:
 * DT_ERR_HOST_MEMORY. */
dt_status dt_cpu_scratch_reserve(struct dt_cpu_scratch *scratch, size_t bytes);
void dt_cpu_scratch_free(struct dt_cpu_scratch *scratch); /* takes a zeroed one */
