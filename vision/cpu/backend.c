/* The cpu device's kernels: the object and the table. */
#include "vision/cpu/kernels.h"

#include <stdlib.h>

static void cpu_destroy(struct vision_kernels *k)
{
    struct vision_backend *b = k->backend;
    if (!b)
        return;
    vision_convolutions_destroy(b->convolutions);
    pthread_mutex_destroy(&b->mutex);
    free(b);
    k->backend = NULL;
}

static dt_status cpu_create(struct vision_kernels *k)
{
    if (k->base.dtype == DT_FP16)
        return dt_fail(DT_ERR_UNAVAILABLE, "model.dtype: on cpu convolutions compute in fp32 and bf16; fp16 is for GPUs");
    struct vision_backend *b = k->backend = calloc(1, sizeof *b);
    DT_TRY(dt_allocated(b, "cpu kernels: no host memory"));
    pthread_mutex_init(&b->mutex, NULL);
    b->loops = vision_loops_for(dt_cpu_isa(), k->base.dtype);
    return vision_convolutions_create(k->base.dtype, &b->convolutions);
}

#define ROW(entry, arguments) .entry = vision_cpu_##entry,
const struct vision_kernel_table vision_kernels_cpu = {.name = "cpu", .create = cpu_create, .destroy = cpu_destroy, VISION_KERNELS(ROW)};
