/* The functions of lib/kernels/backend.h on the host's processor, with the data in k->host: on the
 * cpu device for all arrays, on the cuda device for parameters in host memory. */
#pragma once

#include "lib/kernels/backend.h"

/* Initialise k->host for step 1, with `threads` threads; the caller sets k->host.submit. Errors:
 * DT_ERR_UNAVAILABLE if this build has no loops for the processor. */
dt_status dt_host_init(struct dt_kernels *k, int threads);
extern const struct dt_kernel_calls dt_host_calls;
