#include "lib/base/statistics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int dt_compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* sorted [count], q in [0, 1] */
static double quantile(const double *sorted, int count, double q)
{
    double place = (count - 1) * q;
    int below = (int)floor(place), above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/* The values in ascending order. *out is NULL if there are none, or if one is NaN. Owner: the
 * caller, free. */
static dt_status sorted_copy(const double *values, int count, double **out)
{
    double sum = 0;
    *out = NULL;
    for (int i = 0; i < count; i++)
        sum += values[i];
    if (count == 0 || isnan(sum))
        return DT_OK;
    *out = malloc((size_t)count * sizeof **out);
    DT_TRY(dt_allocated(*out, "out of memory while sorting %d values", count));
    memcpy(*out, values, (size_t)count * sizeof **out);
    qsort(*out, (size_t)count, sizeof **out, dt_compare_numbers);
    return DT_OK;
}

dt_status dt_statistics_compute(const double *values, int count, struct dt_statistics *out)
{
    double *sorted, sum = 0, squares = 0;
    *out = (struct dt_statistics){count, NAN, NAN, NAN, NAN, NAN, NAN};
    DT_TRY(sorted_copy(values, count, &sorted));
    if (!sorted)
        return DT_OK;
    out->median = quantile(sorted, count, 0.5);
    out->p95 = quantile(sorted, count, 0.95);
    out->min = sorted[0];
    out->max = sorted[count - 1];
    free(sorted);
    for (int i = 0; i < count; i++)
        sum += values[i];
    out->mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - out->mean) * (values[i] - out->mean);
    if (count > 1 && out->mean != 0)
        out->cv = sqrt(squares / (count - 1)) / out->mean;
    if (fabs(out->cv) < 1e-12) /* the values differ in the last bits of a double only */
        out->cv = 0;
    return DT_OK;
}

dt_status dt_statistics_quantile(const double *values, int count, double q, double *out)
{
    DT_FREED double *sorted = NULL;
    *out = NAN;
    DT_TRY(sorted_copy(values, count, &sorted));
    if (sorted)
        *out = quantile(sorted, count, q);
    return DT_OK;
}

enum {
    EXACT_STEPS = 50, /* steps of both programs together: counts of arrangements up to C(50, 25) are exact in a double */
    BISECTIONS = 200, /* more than enough to separate any two doubles */
};

/* The logarithms of one program's step times. */
struct sample {
    double *sorted; /* [count] */
    double *rank;   /* [count] in the order of time: the rank among the sorted values, minus the mean rank */
    int count;
};

/* Number of values of `sorted` below `value`. */
static int count_below(const double *sorted, int count, double value)
{
    int from = 0, to = count;
    while (from < to) {
        int middle = from + (to - from) / 2;
        if (sorted[middle] < value)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Equal values share the mean of their ranks. */
static double rank_of(const struct sample *s, double value)
{
    int below = count_below(s->sorted, s->count, value);
    int not_above = count_below(s->sorted, s->count, nextafter(value, INFINITY));
    return (below + not_above - s->count) / 2.0;
}

static dt_status sample_init(struct sample *s, const double *seconds, int count)
{
    *s = (struct sample){.sorted = malloc((size_t)count * sizeof(double)), .rank = malloc((size_t)count * sizeof(double)), .count = count};
    DT_TRY(dt_allocated(s->sorted && s->rank, "no memory for %d steps", count));
    for (int i = 0; i < count; i++)
        s->sorted[i] = log(seconds[i]);
    qsort(s->sorted, (size_t)count, sizeof(double), dt_compare_numbers);
    for (int i = 0; i < count; i++)
        s->rank[i] = rank_of(s, log(seconds[i]));
    return DT_OK;
}

static void sample_finish(struct sample *s)
{
    free(s->sorted);
    free(s->rank);
}

/* Number of pairs whose difference is at most `limit`, and the largest of those differences. */
static double pairs_up_to(const struct sample *base, const struct sample *new, double limit, double *largest)
{
    double pairs = 0;
    *largest = -INFINITY;
    for (int i = 0, j = 0; i < base->count; i++) {
        while (j < new->count && base->sorted[i] - new->sorted[j] > limit) /* this also holds for all later i */
            j++;
        pairs += new->count - j;
        if (j < new->count)
            *largest = fmax(*largest, base->sorted[i] - new->sorted[j]);
    }
    return pairs;
}

/* The k-th smallest (from 1) of the differences of all pairs, without a list of all pairs.
 */
static double kth_difference(const struct sample *base, const struct sample *new, double k)
{
    double low = base->sorted[0] - new->sorted[new->count - 1], high = base->sorted[base->count - 1] - new->sorted[0], found;
    if (pairs_up_to(base, new, low, &found) >= k)
        return low;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            break;
        if (pairs_up_to(base, new, middle, &found) >= k)
            high = middle;
        else
            low = middle;
    }
    pairs_up_to(base, new, high, &found);
    return found;
}

/* The number of arrangements of n and m steps with each value of the Mann-Whitney statistic: the
 * coefficients of the Gaussian binomial, ways [n * m + 1]. */
static void mann_whitney_counts(int n, int m, double *ways)
{
    int last = n * m;
    memset(ways, 0, ((size_t)last + 1) * sizeof *ways);
    ways[0] = 1;
    for (int i = 1; i <= m; i++) {
        for (int u = last; u >= n + i; u--)
            ways[u] -= ways[u - n - i];
        for (int u = i; u <= last; u++)
            ways[u] += ways[u - i];
    }
}

/* The interval is from the k-th smallest to the k-th largest difference; 0: there are too few steps
 * for one. */
static dt_status interval_rank(int n, int m, double *k)
{
    double tail = (1 - DT_RATIO_CONFIDENCE) / 2, product = (double)n * m;
    if (n + m > EXACT_STEPS) {
        const double quantile = 1.6448536269514722; /* of the normal distribution at 1 - tail */
        *k = fmax(0, floor(product / 2 - quantile * sqrt(product * (n + m + 1.0) / 12)));
        return DT_OK;
    }
    double all = 0, below = 0;
    DT_FREED double *ways = malloc(((size_t)(n * m) + 1) * sizeof *ways);
    DT_TRY(dt_allocated(ways, "no memory for an interval of %d and %d steps", n, m));
    mann_whitney_counts(n, m, ways);
    for (int u = 0; u <= n * m; u++)
        all += ways[u];
    *k = 0;
    for (int u = 0; u <= n * m && below + ways[u] <= tail * all * (1 + 1e-12); u++) {
        below += ways[u];
        *k = u + 1;
    }
    return DT_OK;
}

/* The factor of the interval if steps are correlated with their neighbours in time: see the
 * header. */
static double widening(const struct sample *base, const struct sample *new)
{
    const struct sample *samples[] = {base, new};
    const double quantile = 2.3263478740408408; /* of the normal distribution at 99 % */
    double products = 0, squares = 0, steps = 0;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < samples[s]->count; i++) {
            squares += samples[s]->rank[i] * samples[s]->rank[i];
            products += i > 0 ? samples[s]->rank[i] * samples[s]->rank[i - 1] : 0;
        }
        steps += samples[s]->count;
    }
    if (squares <= 0)
        return 1;
    double rho = products / squares, each = steps / 2;
    if (rho + 1 / each < quantile / sqrt(steps)) /* independent steps have -1 / count on average, since ranks are relative to their mean */
        return 1;
    rho = each > 4 ? (each * rho + 1) / (each - 4) : 1; /* unbiased to first order */
    rho = fmin(rho, 1 - 2 / (each + 1));                /* limit: at least one independent step, (1 - rho) / (1 + rho) >= 1 / count */
    return sqrt((1 + rho) / (1 - rho));
}

static bool are_known(const double *seconds, int count)
{
    for (int i = 0; i < count; i++)
        if (!isfinite(seconds[i]) || seconds[i] <= 0)
            return false;
    return count > 0;
}

static dt_status estimate(const struct sample *base, const struct sample *new, struct dt_ratio *out)
{
    double k = 0, pairs = (double)base->count * new->count;
    double centre = (kth_difference(base, new, floor((pairs + 1) / 2)) + kth_difference(base, new, floor(pairs / 2) + 1)) / 2;
    DT_TRY(interval_rank(base->count, new->count, &k));
    out->ratio = exp(centre);
    if (k < 1)
        return DT_OK;
    out->widened = widening(base, new);
    out->low = exp(centre - (centre - kth_difference(base, new, k)) * out->widened);
    out->high = exp(centre + (kth_difference(base, new, pairs + 1 - k) - centre) * out->widened);
    return DT_OK;
}

enum dt_change dt_ratio_judge(const struct dt_ratio *r, double threshold)
{
    if (isnan(r->ratio) || isnan(r->low))
        return DT_UNCLEAR;
    if (r->ratio < 1 - threshold && r->high < 1)
        return DT_SLOWER;
    if (r->ratio > 1 + threshold && r->low > 1)
        return DT_FASTER;
    return r->low >= 1 - threshold && r->high <= 1 + threshold ? DT_SAME : DT_UNCLEAR;
}

/* The logarithm of the shortest time of `sample`, and how far the end of its distribution may be
 * below that: NaN for too few values. */
static void lower_end(const struct sample *sample, double *first, double *below)
{
    const double r = 1 - pow((1 - DT_RATIO_CONFIDENCE) / 2, 1.0 / (DT_RATIO_SHORTEST - 1));
    *first = sample->sorted[0];
    *below = sample->count < DT_RATIO_SHORTEST ? NAN : r / (1 - r) * (sample->sorted[DT_RATIO_SHORTEST - 1] - *first);
}

static dt_status estimate_of_shortest(const struct sample *base, const struct sample *new, struct dt_ratio *out)
{
    double ratio, first, base_below, new_below;
    lower_end(base, &ratio, &base_below);
    lower_end(new, &first, &new_below);
    ratio -= first;
    *out = (struct dt_ratio){exp(ratio), exp(ratio - base_below), exp(ratio + new_below), 1};
    return DT_OK;
}

static dt_status compare(const double *base_s, int base_count, const double *new_s, int new_count,
                         dt_status (*by)(const struct sample *base, const struct sample *new, struct dt_ratio *out), struct dt_ratio *out)
{
    DT_ENDED(sample_finish) struct sample base = {0};
    DT_ENDED(sample_finish) struct sample new = {0};
    *out = (struct dt_ratio){NAN, NAN, NAN, 1};
    if (!are_known(base_s, base_count) || !are_known(new_s, new_count))
        return DT_OK;
    DT_TRY(sample_init(&base, base_s, base_count));
    DT_TRY(sample_init(&new, new_s, new_count));
    return by(&base, &new, out);
}

dt_status dt_ratio_compare(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out)
{
    return compare(base_s, base_count, new_s, new_count, estimate, out);
}

dt_status dt_ratio_of_shortest(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out)
{
    return compare(base_s, base_count, new_s, new_count, estimate_of_shortest, out);
}

enum dt_change dt_ratio_judge_interval(const struct dt_ratio *r, double threshold)
{
    if (r->high < 1 - threshold)
        return DT_SLOWER;
    if (r->low > 1 + threshold)
        return DT_FASTER;
    return r->low >= 1 - threshold && r->high <= 1 + threshold ? DT_SAME : DT_UNCLEAR;
}
