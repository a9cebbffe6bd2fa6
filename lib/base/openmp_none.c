#include "lib/base/openmp.h"

#include <dlfcn.h>

/* Our own kernels have one thread here, but a library in this process (oneDNN) may have brought an OpenMP runtime, which must be held to
 * the share of this rank all the same. */
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
