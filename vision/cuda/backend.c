/* The cuda device's kernels: the object and the table. */
#include "vision/cuda/kernels.h"

#include "vision/cuda/cudnn.h"

#include <stdlib.h>

static bool cuda_available(char *text, size_t text_bytes)
{
    struct vision_cudnn dnn;
    if (vision_cudnn_load(&dnn) < 0) {
        snprintf(text, text_bytes, "%s", dt_error_message());
        return false;
    }
    char name[VISION_CUDNN_NAME_BYTES];
    vision_cudnn_name(&dnn, name);
    snprintf(text, text_bytes, "%s", name);
    return true;
}

static void cuda_destroy(struct vision_kernels *k)
{
    struct vision_backend *b = k->backend;
    if (!b)
        return;
    vision_cuda_convolutions_destroy(b->convolutions);
    dt_cuda_scratch_free(k->base.device, &b->scratch);
    free(b);
    k->backend = NULL;
}

static dt_status cuda_create(struct vision_kernels *k)
{
    k->backend = calloc(1, sizeof *k->backend);
    DT_TRY(dt_allocated(k->backend, "cuda kernels: no host memory"));
    return vision_cuda_convolutions_create(k->base.dtype, &k->backend->convolutions);
}

#define ROW(entry, arguments) .entry = vision_cuda_##entry,
const struct vision_kernel_table vision_kernels_cuda = {
    .name = "cuda", .create = cuda_create, .destroy = cuda_destroy, .available = cuda_available, VISION_KERNELS(ROW)};
