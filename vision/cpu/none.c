/* Stands in for backend.c and its entries in a build without oneDNN. */
#include "vision/kernels.h"

#include <stdio.h>

static const char missing[] = "this build has no oneDNN; install libdnnl-dev and configure with -Dcpu=enabled";

static bool none_available(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", missing);
    return false;
}

static dt_status none_create(struct vision_kernels *k)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "cpu kernels: %s", missing);
}

static void none_destroy(struct vision_kernels *k)
{
}

/* The rest is never reached: there is no object to call it with. */
const struct vision_kernel_table vision_kernels_cpu = {
    .name = "cpu", .available = none_available, .create = none_create, .destroy = none_destroy};
