/* NVML of a GPU that is not there: libnvidia-ml.so.1 for the tests, by DTBENCH_LIBNVML.
 * FAKE_NVML_REASONS: the bits that hold clocks down; FAKE_NVML_PROCESSES: how many compute on it.
 * Every question about energy finds 2 J more, and about time held down by heat 0.25 s more where
 * the reasons say heat. It has no function for MIG. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { INSUFFICIENT_SIZE = 7, NOT_FOUND = 6, NOT_SUPPORTED = 3, HEAT = 0x20 };

static int device;
static unsigned long long energy, hot_ns;

static unsigned number(const char *variable)
{
    const char *value = getenv(variable);
    return value ? (unsigned)strtoul(value, NULL, 0) : 0;
}

EXPORT int nvmlInit_v2(void)
{
    return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **out)
{
    *out = &device;
    return strcmp(address, "no such GPU") == 0 ? NOT_FOUND : 0;
}

EXPORT int nvmlDeviceGetClockInfo(void *of, int type, unsigned *mhz)
{
    *mhz = type == 1 ? 1380 : 2619;
    return 0;
}

EXPORT int nvmlDeviceGetMaxClockInfo(void *of, int type, unsigned *mhz)
{
    *mhz = type == 1 ? 1980 : 2619;
    return 0;
}

EXPORT int nvmlDeviceGetTemperature(void *of, int sensor, unsigned *celsius)
{
    *celsius = 61;
    return 0;
}

EXPORT int nvmlDeviceGetPowerUsage(void *of, unsigned *milliwatts)
{
    *milliwatts = 350500;
    return 0;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *of, unsigned *milliwatts)
{
    return NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *of, unsigned long long *millijoules)
{
    *millijoules = energy += 2000;
    return 0;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *of, unsigned long long *bits)
{
    *bits = number("FAKE_NVML_REASONS");
    return 0;
}

EXPORT int nvmlDeviceGetViolationStatus(void *of, int policy, unsigned long long out[2])
{
    if (policy == 1 && (number("FAKE_NVML_REASONS") & HEAT))
        hot_ns += 250000000;
    out[0] = 0;
    out[1] = policy == 1 ? hot_ns : 0;
    return 0;
}

EXPORT int nvmlDeviceGetEccMode(void *of, int *now, int *pending)
{
    *now = *pending = 1;
    return 0;
}

EXPORT int nvmlDeviceGetPersistenceMode(void *of, int *mode)
{
    *mode = 0;
    return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *of, unsigned *count, void *all)
{
    *count = number("FAKE_NVML_PROCESSES");
    return *count > 0 ? INSUFFICIENT_SIZE : 0;
}
