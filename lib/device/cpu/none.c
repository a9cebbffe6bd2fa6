/* The cpu device of a build without oneDNN. No cpu device, stream or event ever exists here, so nothing but these entries is called. */
#include "lib/device/backend.h"

#include <stdio.h>

static const char missing[] = "this build has no oneDNN: install libdnnl-dev and configure with -Dcpu=enabled";

static bool none_available(char *reason, size_t reason_bytes)
{
    snprintf(reason, reason_bytes, "%s", missing);
    return false;
}

static dt_status none_create(const struct dt_device_options *options, struct dt_device **out)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "cpu device: %s", missing);
}

static bool none_look(int index, struct dt_device_info *out)
{
    return false;
}

const struct dt_device_backend dt_device_cpu = {.kind = "cpu", .available = none_available, .look = none_look, .create = none_create};
