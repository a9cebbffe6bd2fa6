/* The GPU's condition, from NVML, the library that nvidia-smi uses. It comes with the driver and is
 * loaded when first needed; without it conditions are unknown, and all else works.
 * Source  NVIDIA, "NVML API Reference Guide": the functions, and the values of the enumerations
 *         below. No required package has its header, so the used declarations are repeated here. */
#include "lib/base/shared_library.h"
#include "lib/device/cuda/internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct nvmlDevice_st *nvml_device;
typedef int nvml_result; /* 0: success */

enum {
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_POLICY_POWER = 0,
    NVML_POLICY_THERMAL = 1
};

struct nvml_violation {
    unsigned long long reference_us, violation_ns;
};

struct dt_nvml {
    nvml_device device;
    nvml_result (*init)(void);
    nvml_result (*find)(const char *address, nvml_device *out);
    nvml_result (*clock)(nvml_device device, int type, unsigned *mhz);
    nvml_result (*highest_clock)(nvml_device device, int type, unsigned *mhz);
    nvml_result (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    nvml_result (*power)(nvml_device device, unsigned *milliwatts);
    nvml_result (*power_limit)(nvml_device device, unsigned *milliwatts);
    nvml_result (*energy)(nvml_device device, unsigned long long *millijoules);
    nvml_result (*reasons)(nvml_device device, unsigned long long *bits);
    nvml_result (*violation)(nvml_device device, int policy, struct nvml_violation *out);
    nvml_result (*ecc)(nvml_device device, int *now, int *pending);
    nvml_result (*mig)(nvml_device device, unsigned *now, unsigned *pending);
    nvml_result (*persistence)(nvml_device device, int *mode);
    nvml_result (*processes)(nvml_device device, unsigned *count, void *all);
};

/* Values of functions that this NVML lacks stay unknown; false if one of the first two is
 * missing. */
static bool load(struct dt_nvml *n)
{
    const struct dt_shared_function functions[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlDeviceGetHandleByPciBusId_v2", &n->find},
        {"nvmlDeviceGetClockInfo", &n->clock},
        {"nvmlDeviceGetMaxClockInfo", &n->highest_clock},
        {"nvmlDeviceGetTemperature", &n->temperature},
        {"nvmlDeviceGetPowerUsage", &n->power},
        {"nvmlDeviceGetEnforcedPowerLimit", &n->power_limit},
        {"nvmlDeviceGetTotalEnergyConsumption", &n->energy},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &n->reasons},
        {"nvmlDeviceGetViolationStatus", &n->violation},
        {"nvmlDeviceGetEccMode", &n->ecc},
        {"nvmlDeviceGetMigMode", &n->mig},
        {"nvmlDeviceGetPersistenceMode", &n->persistence},
        {"nvmlDeviceGetComputeRunningProcesses_v3", &n->processes},
    };
    char reason[256];
    void *library = dt_shared_library_open("libnvidia-ml.so.1", "DTBENCH_LIBNVML", NULL, reason, sizeof reason);
    if (!library)
        return false;
    dt_shared_library_find(library, functions, sizeof functions / sizeof functions[0]);
    return n->init && n->find;
}

static double clock_of(nvml_result (*ask)(nvml_device, int, unsigned *), nvml_device device, int type)
{
    unsigned mhz;
    bool known = ask && ask(device, type, &mhz) == 0;
    return known ? mhz : NAN;
}

static double watts_of(nvml_result (*ask)(nvml_device, unsigned *), nvml_device device)
{
    unsigned milliwatts;
    bool known = ask && ask(device, &milliwatts) == 0;
    return known ? milliwatts / 1e3 : NAN;
}

static double slow_time(const struct dt_nvml *n, int policy)
{
    struct nvml_violation violation;
    bool known = n->violation && n->violation(n->device, policy, &violation) == 0;
    return known ? (double)violation.violation_ns / 1e9 : NAN;
}

static void read_slowdowns(const struct dt_nvml *n, struct dt_device_condition *out)
{
    static const struct {
        unsigned long long bit;
        enum dt_slowdown slowdown;
    } reasons[] = {{0x01, DT_SLOWDOWN_IDLE},     {0x02, DT_SLOWDOWN_CLOCKS_SET}, {0x04, DT_SLOWDOWN_POWER_CAP},
                   {0x08, DT_SLOWDOWN_HARDWARE}, {0x10, DT_SLOWDOWN_SYNC_BOOST}, {0x20, DT_SLOWDOWN_HEAT},
                   {0x40, DT_SLOWDOWN_HEAT},     {0x80, DT_SLOWDOWN_POWER_BRAKE}};
    unsigned long long bits = 0;
    out->slowdown_known = n->reasons && n->reasons(n->device, &bits) == 0;
    for (size_t i = 0; out->slowdown_known && i < sizeof reasons / sizeof reasons[0]; i++)
        out->slowdown[reasons[i].slowdown] |= (bits & reasons[i].bit) != 0;
}

/* Called without room for the list, it returns the number of processes. In a container it may see
 * none, not even this process: then the number is unknown. */
static int count_processes(const struct dt_nvml *n)
{
    unsigned count = 0;
    nvml_result result = n->processes ? n->processes(n->device, &count, NULL) : -1;
    return (result == 0 || result == NVML_INSUFFICIENT_SIZE) && count > 0 ? (int)count : -1;
}

struct dt_nvml *dt_nvml_open(const char *address)
{
    struct dt_nvml *n = calloc(1, sizeof *n);
    if (n && load(n) && n->init() == 0 && n->find(address, &n->device) == 0)
        return n;
    free(n);
    return NULL;
}

void dt_nvml_read(const struct dt_nvml *n, struct dt_device_condition *out)
{
    unsigned celsius;
    unsigned long long millijoules;
    out->known = true;
    out->clock_mhz = clock_of(n->clock, n->device, NVML_CLOCK_SM);
    out->clock_limit_mhz = clock_of(n->highest_clock, n->device, NVML_CLOCK_SM);
    out->memory_clock_mhz = clock_of(n->clock, n->device, NVML_CLOCK_MEMORY);
    if (n->temperature && n->temperature(n->device, NVML_TEMPERATURE_GPU, &celsius) == 0)
        out->temperature_c = celsius;
    out->power_w = watts_of(n->power, n->device);
    out->power_limit_w = watts_of(n->power_limit, n->device);
    if (n->energy && n->energy(n->device, &millijoules) == 0)
        out->energy_j = (double)millijoules / 1e3;
    out->power_slow_s = slow_time(n, NVML_POLICY_POWER);
    out->heat_slow_s = slow_time(n, NVML_POLICY_THERMAL);
    read_slowdowns(n, out);
    int on = 0, pending = 0;
    unsigned mig = 0, mig_pending = 0;
    if (n->ecc && n->ecc(n->device, &on, &pending) == 0)
        out->ecc = on != 0;
    if (n->mig && n->mig(n->device, &mig, &mig_pending) == 0)
        out->mig = mig != 0;
    if (n->persistence && n->persistence(n->device, &on) == 0)
        out->persistence = on != 0;
    out->processes = count_processes(n);
}

void dt_nvml_close(struct dt_nvml *n)
{
    free(n);
}
