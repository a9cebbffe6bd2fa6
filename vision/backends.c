#include "vision/kernels.h"

#include "lib/base/cpu_isa.h"
#include "lib/device/span.h"

#include <stdio.h>

static const struct vision_kernel_table *table_for(const struct dt_device_kind *kind)
{
    static const struct vision_kernel_table *const tables[DT_DEVICE_KINDS] = {
        [DT_DEVICE_CPU] = &vision_kernels_cpu, [DT_DEVICE_CUDA] = &vision_kernels_cuda, [DT_DEVICE_SIM] = &vision_kernels_cost};
    return tables[kind->index];
}

bool vision_kernels_available(const struct dt_device_kind *kind, char *text, size_t text_bytes)
{
    const struct vision_kernel_table *table = table_for(kind);
    snprintf(text, text_bytes, "%s", table->missing ? table->missing : "");
    return !table->missing && (!table->available || table->available(text, text_bytes));
}

bool vision_cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    bool native = dtype == DT_FP32 || (dtype == DT_BF16 && dt_cpu_isa() == DT_ISA_AVX512BF16);
    const char *bf16 = "this processor has no bf16 arithmetic (AVX-512 BF16 or AMX); fp32 is faster here";
    snprintf(advice, advice_bytes, "%s", native ? "" : dtype == DT_BF16 ? bf16 : "convolutions on cpu are in fp32 and bf16");
    return native;
}

static dt_status begin(struct dt_kernels *kernels, const struct dt_model *model)
{
    struct vision_kernels *k = (struct vision_kernels *)kernels;
    k->table = k->plain = table_for(dt_device_kind_of(kernels->device));
    return k->table->create ? k->table->create(k) : DT_OK;
}

static void end(struct dt_kernels *kernels)
{
    struct vision_kernels *k = (struct vision_kernels *)kernels;
    if (k->plain->destroy)
        k->plain->destroy(k);
}

const struct dt_own_kernels vision_own_kernels = {sizeof(struct vision_kernels), begin, end};

/* ---- while a step is traced ---- */

#define TRACED(entry, arguments)                                                                                                           \
    static VISION_KERNEL_FUNCTION(traced_##entry, arguments)                                                                               \
    {                                                                                                                                      \
        DT_TRY(dt_span_begin(stream, #entry, DT_SPAN_COMPUTE, 0, NULL));                                                                   \
        DT_TRY(k->plain->entry(k, stream, a));                                                                                             \
        return dt_span_end(stream);                                                                                                        \
    }
VISION_KERNELS(TRACED)

dt_status vision_kernels_trace(struct dt_kernels *kernels, bool on)
{
#define ROW(entry, arguments) .entry = traced_##entry,
    static const struct vision_kernel_table traced = {.name = "traced", VISION_KERNELS(ROW)};
    struct vision_kernels *k = (struct vision_kernels *)kernels;
    k->table = on ? &traced : k->plain;
    return DT_OK;
}
