#include "cli/records/loss_tolerance.h"

/* A loss is the mean over many tokens, so the roundings of single products cancel in it. fp32 is what the tests hold all paradigms to. For
 * the 16-bit types the bound is some five times the largest difference seen in 100 steps of two to four ranks, with learning rates up to 3
 * and with Adam: 2e-4 for bf16, 1.5e-5 for fp16 (GPTSmall's five steps in bf16: 3e-5). A wrong seed, or a gradient that is not averaged,
 * moves a loss by 1e-3 or more. */
double loss_tolerance(const struct experiment *experiment)
{
    switch (experiment->model.dtype) {
    case DT_FP32: return 1e-5;
    case DT_FP16: return 1e-4;
    case DT_BF16: return 1e-3;
    default: return 0;
    }
}
