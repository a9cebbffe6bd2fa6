#include "lib/base/openmp.h"

#include <dlfcn.h>

/* Our own kernels have one thread in this build, but a library in this process (oneDNN) may have an
 * OpenMP runtime, which must be limited to this rank's share of processors. */
void dt_openmp_set_threads(int threads)
{
    void (*set_threads)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set_threads)
        set_threads(threads);
}

const char *dt_openmp_version(void)
{
    return "no OpenMP";
}
