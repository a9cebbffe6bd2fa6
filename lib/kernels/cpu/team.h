/* One kernel's work spread over threads. */
#ifndef LIB_KERNELS_CPU_TEAM_H
#define LIB_KERNELS_CPU_TEAM_H

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

#endif
