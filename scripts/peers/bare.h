/* What the programs on bare oneDNN share. `program` begins each error. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* End the program where a call of oneDNN has failed; 0 is success. */
static inline void bare_check(const char *program, int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: %s: oneDNN status %d\n", program, what, status);
        exit(1);
    }
}

static inline double bare_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whole pages, never NULL. */
static inline void *bare_allocate(const char *program, size_t bytes)
{
    void *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!data) {
        fprintf(stderr, "%s: out of memory\n", program);
        exit(1);
    }
    return data;
}
