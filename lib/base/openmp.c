#include "lib/base/openmp.h"

#include <omp.h>

void dt_openmp_set_threads(int threads)
{
    omp_set_num_threads(threads);
}

/* The standard identifies its version by the month of its release. */
const char *dt_openmp_version(void)
{
    if (_OPENMP >= 202111)
        return "OpenMP 5.2";
    if (_OPENMP >= 202011)
        return "OpenMP 5.1";
    if (_OPENMP >= 201811)
        return "OpenMP 5.0";
    return _OPENMP >= 201511 ? "OpenMP 4.5" : "OpenMP before 4.5";
}
