/* Which oneDNN a number was measured with. */
#include "lib/device/cpu/stream.h"

#include <dnnl.h>
#include <stdio.h>

void dt_cpu_library_version(char *out, size_t out_bytes)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(out, out_bytes, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}
