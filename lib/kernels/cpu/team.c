#include "lib/kernels/cpu/team.h"

#include <stdlib.h>

#if defined(_OPENMP)
#include <omp.h>

void dt_cpu_parallel(int threads, dt_cpu_part part, void *argument)
{
#pragma omp parallel num_threads(threads)
    part(argument, omp_get_thread_num(), omp_get_num_threads());
}
#else
void dt_cpu_parallel(int threads, dt_cpu_part part, void *argument)
{
    part(argument, 0, 1);
}
#endif

struct dt_cpu_share dt_cpu_share(size_t count, size_t granule, int thread, int threads)
{
    size_t granules = (count + granule - 1) / granule, t = (size_t)thread, n = (size_t)threads;
    size_t first = granules * t / n * granule, end = granules * (t + 1) / n * granule;
    return (struct dt_cpu_share){first < count ? first : count, end < count ? end : count};
}

dt_status dt_cpu_scratch_reserve(struct dt_cpu_scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return DT_OK;
    dt_cpu_scratch_free(scratch);
    scratch->data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    DT_TRY(dt_allocated(scratch->data, "cpu kernels: no host memory for %zu bytes of scratch", bytes));
    scratch->bytes = bytes;
    return DT_OK;
}

void dt_cpu_scratch_free(struct dt_cpu_scratch *scratch)
{
    free(scratch->data);
    *scratch = (struct dt_cpu_scratch){0};
}
