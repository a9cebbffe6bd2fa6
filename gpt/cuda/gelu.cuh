/* The exact GELU and its derivative, for arrays (flat.cu) and for the end of a product
 * (gelu_hopper.cu). */
#pragma once

#include "gpt/cuda/kernels.cuh"

namespace gpt_cuda {

/* The standard normal distribution at x. The left tail is Phi(-|x|) = exp(-x^2/2) * erfcx(|x| /
 * sqrt(2)) / 2, which is exact where 1 + erf would lose digits. erfcx is t * polynomial(t) with t =
 * 1 / (1 + 0.4 |x| / sqrt(2)), fitted to 1.3e-7 over all of t in (0, 1]: some 20 instructions
 * without a branch; the memory of an H100 leaves time for about 30 for each element of fp16. */
struct normal {
    float density, cumulative;
};

__device__ inline normal normal_at(float x)
{
    float exponential = __expf(-0.5f * x * x), t = __fdividef(1.0f, fmaf(fabsf(x), 0.4f * 0.70710678f, 1.0f));
    float p = 0.050262132f;
    p = fmaf(p, t, -0.18290149f);
    p = fmaf(p, t, 0.16908546f);
    p = fmaf(p, t, -0.0056075597f);
    p = fmaf(p, t, 0.14143144f);
    p = fmaf(p, t, 0.16854198f);
    p = fmaf(p, t, 0.20784270f);
    p = fmaf(p, t, 0.22566960f);
    p = fmaf(p, t, 0.22567586f);
    float tail = 0.5f * exponential * (t * p);
    return {0.39894228f * exponential, x < 0 ? tail : 1 - tail};
}

/* The largest float, which replaces infinity where the distribution multiplies by zero. NaN becomes
 * a number here, but stays NaN in the distribution. */
constexpr float LARGEST = 3.40282347e38f;

/* Source  Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016: x * Phi(x), exact. */
struct gelu_op {
    static constexpr bool READS_TO = false;
    __device__ static float apply(float, float x)
    {
        return fmaxf(x, -LARGEST) * normal_at(x).cumulative;
    }
};

struct gelu_gradient_op {
    static constexpr bool READS_TO = true;
    __device__ static float apply(float dy, float x)
    {
        normal n = normal_at(x);
        return dy * (n.cumulative + fminf(fmaxf(x, -LARGEST), LARGEST) * n.density);
    }
};

} // namespace gpt_cuda
