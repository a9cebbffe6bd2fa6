/* Calls to the OpenMP runtime: openmp.c, or openmp_none.c in a build without it. */
#pragma once

/* Threads that parallel regions started by the calling thread will use. */
void dt_openmp_set_threads(int threads);

/* "OpenMP 4.5", or "no OpenMP". */
const char *dt_openmp_version(void);
