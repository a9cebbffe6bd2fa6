/* The cpu device of a build without oneDNN. */
#include "lib/device/backend.h"

const struct dt_device_backend dt_device_cpu = {
    .kind = "cpu", .missing = "this build has no oneDNN: install libdnnl-dev and configure with -Dcpu=enabled"};
