/* The calls of lib/kernels/backend.h on the host's processor, by way of k->host: all of them on the cpu device; on the cuda device those for
 * parameters in host memory. */
#ifndef LIB_KERNELS_CPU_HOST_H
#define LIB_KERNELS_CPU_HOST_H

#include "lib/kernels/backend.h"

/* Step 1, on `threads` threads; k->host.submit is the caller's to set. Errors: DT_ERR_UNAVAILABLE where this build has no loops for the processor. */
dt_status dt_host_init(struct dt_kernels *k, int threads);
extern const struct dt_kernel_calls dt_host_calls;

#endif
