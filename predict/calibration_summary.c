#include "predict/calibration.h"

#include "predict/profile.h"

/* Whether the rate is for the same kernel, dtype and ranks. */
static bool is_of(const struct calibration_rate *rate, const struct dt_measured *m)
{
    return rate->kernel == m->kernel && rate->dtype == m->dtype && rate->ranks == m->ranks;
}

/* Count operations for products only; a copy reads and writes each byte. */
static bool take(const struct calibration *c, const struct dt_measured *m, struct calibration_rate *out)
{
    const struct dt_priced *kernel = profile_kernels()->kernels[m->kernel];
    bool copy = m->kernel == DT_PRICED_COPY;
    if (!copy && kernel->shape != DT_SHAPE_PRODUCT)
        return false;
    double amount = copy ? 2 * m->shape[0] : dt_measured_work(kernel->shape, m->shape);
    *out = (struct calibration_rate){.kernel = m->kernel,
                                     .what = kernel->name,
                                     .dtype = m->dtype,
                                     .ranks = m->ranks,
                                     .threads = m->threads,
                                     .per_s = amount / m->alone_s,
                                     .together_per_s = amount / m->together_s,
                                     .ceiling_per_s = copy ? 0 : c->gpu.peak_flops[m->dtype],
                                     .in_bytes = copy};
    return true;
}

int calibration_rates(const struct calibration *c, struct calibration_rate *out, int most)
{
    int count = 0;
    for (int i = 0; i < c->kernels.count; i++) {
        const struct dt_measured *m = &c->kernels.entries[i];
        struct calibration_rate rate;
        int at = 0;
        if (!take(c, m, &rate))
            continue;
        while (at < count && !is_of(&out[at], m))
            at++;
        if (at == count && count < most)
            out[count++] = rate;
        else if (at < count && rate.per_s > out[at].per_s)
            out[at] = rate;
    }
    return count;
}
