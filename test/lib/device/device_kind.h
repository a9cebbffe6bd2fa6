/* The kind of device that a test's body runs on, where one body serves several: DTBENCH_TEST_DEVICE
 * ("cuda" for the emulated GPU), or "cpu". */
#pragma once

#include <stdlib.h>

static inline const char *test_device_kind(void)
{
    const char *kind = getenv("DTBENCH_TEST_DEVICE");
    return kind && *kind ? kind : "cpu";
}
