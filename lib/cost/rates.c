#include "lib/cost/rates.h"

#include <math.h>

/* The squared distance of a shape by logarithms; INFINITY: a side is more than twice or less than
 * half as long. */
static double distance_of(const struct dt_product_rate *r, double m, double n, double k)
{
    const double sides[] = {m - r->log_sides[0], n - r->log_sides[1], k - r->log_sides[2]}, most = log(2) + 1e-6;
    double square = 0;
    for (int i = 0; i < 3; i++)
        square += fabs(sides[i]) <= most ? sides[i] * sides[i] : INFINITY;
    return square;
}

double dt_product_rates_factor(const struct dt_product_rates *rates, double m, double n, double k)
{
    const double same = 1e-9; /* below this squared distance a shape is the measured one */
    double weights = 0, sum = 0;
    if (rates->count == 0)
        return 1;
    const double log_m = log(m), log_n = log(n), log_k = log(k);
    for (int i = 0; i < rates->count; i++) {
        const struct dt_product_rate *r = &rates->entries[i];
        double square = fmax(fmin(distance_of(r, log_m, log_n, log_k), distance_of(r, log_n, log_m, log_k)), same);
        weights += 1 / (square * square);
        sum += r->log_ratio / (square * square);
    }
    return weights > 0 ? exp(sum / weights) : 1;
}

/* Distance of widths by logarithms; INFINITY: too far. */
static double width_apart(const struct dt_attention_rate *r, enum dt_dtype dtype, bool backward, double width)
{
    double apart = fabs(log(r->width / width));
    return r->dtype == dtype && (backward ? r->backward : r->forward) && apart <= log(2) + 1e-6 ? apart : INFINITY;
}

double dt_attention_rate(const struct dt_attention_rates *rates, enum dt_dtype dtype, bool backward, double length, double width)
{
    const struct dt_attention_rate *below = NULL, *above = NULL;
    double nearest = INFINITY;
    for (int i = 0; i < rates->count; i++)
        nearest = fmin(nearest, width_apart(&rates->entries[i], dtype, backward, width));
    for (int i = 0; i < rates->count && nearest < INFINITY; i++) {
        const struct dt_attention_rate *r = &rates->entries[i];
        if (width_apart(r, dtype, backward, width) > nearest)
            continue;
        if (r->length <= length && (!below || r->length > below->length))
            below = r;
        if (r->length >= length && (!above || r->length < above->length))
            above = r;
    }
    if (!below)
        return above && 2 * length >= above->length ? above->flops_per_s : 0;
    if (!above || above->length == below->length)
        return below->flops_per_s;
    return below->flops_per_s *
           pow(above->flops_per_s / below->flops_per_s, log(length / below->length) / log(above->length / below->length));
}
