/* What GPUs can do at best, for the part of it that a training uses. */
#include "lib/device/cuda/parts.h"

#include <string.h>

/* Dense products, 10^12 operations a second, as NVIDIA's data sheets give them; where a sheet has the number with sparsity, half of it.
 * fp16 and bf16 on tensor cores, which are equally fast; fp32 as such, not rounded to TF32. The first name that a GPU's begins with counts.
 * Sheets: A100 (June 2021), A30, A40, A800, L40S, H100 (2023: SXM, PCIe, NVL), H200 (2024: SXM, NVL), GH200 (2024). */
static const struct {
    const char *name;
    double half_tflops, fp32_tflops;
} peaks[] = {
    {"NVIDIA H200 NVL", 835.5, 60}, {"NVIDIA H200", 989.5, 67}, {"NVIDIA GH200", 989.5, 67},     {"NVIDIA H100 PCIe", 756.5, 51},
    {"NVIDIA H100 NVL", 835.5, 60}, {"NVIDIA H100", 989.5, 67}, {"NVIDIA H800 PCIe", 756.5, 51}, {"NVIDIA H800", 989.5, 67},
    {"NVIDIA A100", 312, 19.5},     {"NVIDIA A800", 312, 19.5}, {"NVIDIA A30", 165, 10.3},       {"NVIDIA A40", 149.7, 37.4},
    {"NVIDIA L40S", 362.05, 91.6},
};

/* A slice of a GPU (MIG) has less, and its name does not say how much. */
double dt_cuda_peak_flops(const char *name, enum dt_dtype dtype)
{
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0] && !strstr(name, "MIG"); i++) {
        size_t length = strlen(peaks[i].name);
        if (strncmp(name, peaks[i].name, length) == 0 && (name[length] == 0 || strchr(" -", name[length])))
            return (dtype == DT_FP32 ? peaks[i].fp32_tflops : peaks[i].half_tflops) * 1e12;
    }
    return 0;
}
