/* Lists the GPUs, their peak rates, and the reason if there is none; chooses a rank's GPU, and
 * binds to the processors near it. Opens no GPU: a context costs memory. */
#include "lib/base/text.h"
#include "lib/device/cuda/internal.h"

#include <ctype.h>
#include <cuda_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Dense products, 10^12 operations a second, as NVIDIA's data sheets give them; if a sheet gives
 * the rate with sparsity, half of that. fp16 and bf16 run on tensor cores at the same rate; fp32 is
 * not rounded to TF32. The first entry that is a prefix of the GPU's name counts. Sheets: A100
 * (June 2021), A30, A40, A800, L40S, H100 (2023: SXM, PCIe, NVL), H200 (2024: SXM, NVL), GH200
 * (2024); B200: the architecture brief of Blackwell (2024), HGX at 1,000 W. */
static const struct {
    const char *name;
    double half_tflops, fp32_tflops;
} peaks[] = {
    {"NVIDIA H200 NVL", 835.5, 60}, {"NVIDIA H200", 989.5, 67}, {"NVIDIA GH200", 989.5, 67},     {"NVIDIA H100 PCIe", 756.5, 51},
    {"NVIDIA H100 NVL", 835.5, 60}, {"NVIDIA H100", 989.5, 67}, {"NVIDIA H800 PCIe", 756.5, 51}, {"NVIDIA H800", 989.5, 67},
    {"NVIDIA A100", 312, 19.5},     {"NVIDIA A800", 312, 19.5}, {"NVIDIA A30", 165, 10.3},       {"NVIDIA A40", 149.7, 37.4},
    {"NVIDIA L40S", 362.05, 91.6},  {"NVIDIA B200", 2250, 80},
};

/* The rate of a slice of a GPU (MIG) is lower, and its name does not say by how much. */
double dt_cuda_peak_flops(const char *name, enum dt_dtype dtype)
{
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0] && !strstr(name, "MIG"); i++) {
        size_t length = strlen(peaks[i].name);
        if (strncmp(name, peaks[i].name, length) == 0 && (name[length] == 0 || strchr(" -", name[length])))
            return (dtype == DT_FP32 ? peaks[i].fp32_tflops : peaks[i].half_tflops) * 1e12;
    }
    return 0;
}

/* The kernels need tensor cores for bf16, and are compiled for this version and later ones. */
enum { OLDEST_MAJOR = 8 };

static void version_text(int version, char *out, size_t out_bytes) /* 13010: "13.1" */
{
    snprintf(out, out_bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

static void no_gpu(char *reason, size_t reason_bytes)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        snprintf(reason, reason_bytes, "CUDA_VISIBLE_DEVICES=\"%.150s\" leaves this process no GPU", visible);
    else
        snprintf(reason, reason_bytes, "the driver sees no GPU here%s",
                 getenv("SLURM_JOB_ID") ? "; ask Slurm for some (--gpus-per-node)" : "");
}

static void old_driver(char *reason, size_t reason_bytes)
{
    int driver = 0, runtime = 0;
    char has[16], needs[16];
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        snprintf(reason, reason_bytes, "no NVIDIA driver here (libcuda.so.1): run on a GPU node, and a container with its GPUs passed in");
        return;
    }
    cudaRuntimeGetVersion(&runtime);
    version_text(driver, has, sizeof has);
    version_text(runtime, needs, sizeof needs);
    snprintf(reason, reason_bytes,
             "the NVIDIA driver is one of CUDA %s and this build is for CUDA %s: update the driver, or build with CUDA %s", has, needs,
             has);
}

/* Number of GPUs that this process may use; if 0, reason says why. Every use of CUDA begins here.
 * By default a process has 8 queues to a GPU; a training run with a pipeline, offload and NCCL's
 * own streams has more streams, and two streams in one queue would wait for each other. CUDA reads
 * the variable when it starts. */
static int count_gpus(char *reason, size_t reason_bytes)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return count;
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        old_driver(reason, reason_bytes);
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        no_gpu(reason, reason_bytes);
    else
        snprintf(reason, reason_bytes, "the NVIDIA driver does not start: %s (%s); nvidia-smi may show more", cudaGetErrorString(error),
                 cudaGetErrorName(error));
    return 0;
}

static bool properties_of(int ordinal, struct cudaDeviceProp *out)
{
    bool known = cudaGetDeviceProperties(out, ordinal) == cudaSuccess;
    if (!known)
        cudaGetLastError();
    return known;
}

/* Can the kernels run on this GPU? If not, reason says why. */
static bool new_enough(int ordinal, char *reason, size_t reason_bytes)
{
    struct cudaDeviceProp properties;
    if (!properties_of(ordinal, &properties)) {
        snprintf(reason, reason_bytes, "the NVIDIA driver reports no properties of GPU %d; nvidia-smi may show more", ordinal);
        return false;
    }
    if (properties.major >= OLDEST_MAJOR)
        return true;
    snprintf(reason, reason_bytes, "GPU %d, %.100s, has compute capability %d.%d, and the kernels need %d.0 (A100) or later", ordinal,
             properties.name, properties.major, properties.minor, OLDEST_MAJOR);
    return false;
}

bool dt_cuda_available(char *reason, size_t reason_bytes)
{
    return count_gpus(reason, reason_bytes) > 0 && new_enough(0, reason, reason_bytes);
}

/* "580.95.05". If the system does not give it: the CUDA version that the driver supports, which is
 * all that the runtime knows. */
static void driver_text(const char *cuda_version, char *out, size_t out_bytes)
{
    char line[64] = "";
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = 0;
        fclose(file);
    }
    line[strcspn(line, "\n")] = 0;
    snprintf(out, out_bytes, line[0] ? "%.31s" : "for CUDA %.16s", line[0] ? line : cuda_version);
}

/* "GPU-" and the device's 16 bytes, in nvidia-smi's format. */
static void uuid_text(const cudaUUID_t *uuid, char *out, size_t out_bytes)
{
    size_t used = (size_t)snprintf(out, out_bytes, "GPU");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%02x", dash ? "-" : "", (unsigned char)uuid->bytes[i]);
    }
}

bool dt_cuda_look(int index, struct dt_device_info *out)
{
    char reason[256], runtime_version[16], driver_version[16];
    int runtime = 0, driver = 0;
    struct cudaDeviceProp properties;
    if (index >= count_gpus(reason, sizeof reason) || !properties_of(index, &properties))
        return false;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    version_text(runtime, runtime_version, sizeof runtime_version);
    version_text(driver, driver_version, sizeof driver_version);
    snprintf(out->name, sizeof out->name, "%.127s", properties.name);
    snprintf(out->versions, sizeof out->versions, "CUDA runtime %s, CUDA driver %s", runtime_version, driver_version);
    out->memory_bytes = properties.totalGlobalMem;
    out->threads = 1;
    for (int dtype = 0; dtype < DT_DTYPE_COUNT; dtype++)
        out->peak_flops[dtype] = dt_cuda_peak_flops(out->name, (enum dt_dtype)dtype);
    driver_text(driver_version, out->driver, sizeof out->driver);
    uuid_text(&properties.uuid, out->uuid, sizeof out->uuid);
    return true;
}

/* If a launcher gives every rank its own GPU and hides the others, each rank sees one GPU, whatever
 * its local rank. If several ranks see the same GPU, they find out when they connect
 * (dt_comm_options.share_devices). */
dt_status dt_cuda_choose(const struct dt_device_options *options, int *out)
{
    char reason[256];
    int count = count_gpus(reason, sizeof reason), rank = options->local_rank;
    if (count == 0)
        return dt_fail(DT_ERR_UNAVAILABLE, "cuda device: %s", reason);
    if (rank >= count && count > 1 && !options->share)
        return dt_fail(DT_ERR_INVALID,
                       "cuda device: local rank %d has no GPU of its own: its process sees %d%s%s; run at most one rank per GPU", rank,
                       count, getenv("CUDA_VISIBLE_DEVICES") ? ", CUDA_VISIBLE_DEVICES=" : "",
                       getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "");
    *out = rank % count;
    if (!new_enough(*out, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "cuda device: %s", reason);
    return DT_OK;
}

/* ---- binding this process to the processors of the NUMA node of its GPU ---- */

/* Read "0-15,64-79", Linux's format of processor lists. False: it is not such a list. */
static bool read_list(const char *text, cpu_set_t *out)
{
    long first, last;
    CPU_ZERO(out);
    for (const char *at = *text ? text : NULL; at;) {
        if (!dt_read_range(&at, &first, &last))
            return false;
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET((int)i, out);
    }
    return true;
}

static bool processors_of(const char *folder, const char *address, cpu_set_t *out)
{
    char path[256], line[4096] = "";
    int used = snprintf(path, sizeof path, "%s/%s/local_cpulist", folder, address);
    if (used < 0 || used >= (int)sizeof path)
        return false;
    for (char *c = path + strlen(folder); *c; c++)
        *c = (char)tolower((unsigned char)*c); /* CUDA writes addresses in upper case, the system in lower case */
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fgets(line, sizeof line, file);
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    return read && read_list(line, out);
}

bool dt_cuda_bind_near(const char *folder, const char *address)
{
    cpu_set_t near, allowed, both;
    if (!processors_of(folder, address, &near) || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    CPU_AND(&both, &near, &allowed);
    if (CPU_COUNT(&both) == 0 || CPU_EQUAL(&both, &allowed))
        return false;
    return sched_setaffinity(0, sizeof both, &both) == 0;
}
