/* Kernels that the cuda device does not have yet: refused when they are queued. */
#include "gpt/cuda/kernels.h"

#define REFUSED(entry, arguments)                                                                                                          \
    GPT_KERNEL_FUNCTION(gpt_cuda_##entry, arguments)                                                                                       \
    {                                                                                                                                      \
        return dt_fail(DT_ERR_UNAVAILABLE, "cuda kernels: there is no %s yet; use the cpu device", #entry);                                \
    }
REFUSED(rms_norm, gpt_rms_norm)
REFUSED(rms_norm_gradient, gpt_rms_norm_gradient)
REFUSED(head_norm, gpt_head_norm)
REFUSED(head_norm_gradient, gpt_head_norm_gradient)
REFUSED(swiglu, gpt_swiglu)
REFUSED(swiglu_gradient, gpt_swiglu_gradient)
REFUSED(rope, gpt_rope)
