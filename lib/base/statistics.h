/* Statistics of repeated measurements. */
#pragma once

#include "lib/base/status.h"

struct dt_statistics {
    int count;
    double median, p95; /* percentiles by linear interpolation between the two nearest ranks, at (count - 1) * q */
    double mean, min, max;
    double cv; /* coefficient of variation: sample standard deviation (count - 1) over mean; NaN for one value or a mean of 0;
                  0 below 1e-12 */
};

/* values [count], in any order, unchanged. All NaN for count 0; a NaN among the values makes
 * everything NaN.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_statistics_compute(const double *values, int count, struct dt_statistics *out);

/* Of two doubles, for qsort: ascending. */
int dt_compare_numbers(const void *left, const void *right);

/* The quantile q in [0, 1], interpolated as above; NaN for count 0 or a NaN among the values.
 * Errors: as above. */
dt_status dt_statistics_quantile(const double *values, int count, double q, double *out);

/* Whether a new program is faster or slower than the old one, from the step times of both.
 *
 * Method  The ratio is that of throughput: the time of a base step over the time of a new one,
 *         estimated as the median over all pairs of a base and a new step (Hodges-Lehmann, of the
 *         logarithms). Its interval is the corresponding distribution-free one (Moses): the k-th
 *         smallest and the k-th largest of the pairs' ratios, with k from the exact distribution of
 *         the Mann-Whitney statistic, or from its normal approximation above 50 steps. Up to 29 %
 *         of the steps may be outliers of any size and move the estimate little, and no
 *         distribution of the noise is assumed; one slow step makes a t interval of 9 steps
 *         useless. Steps are assumed to be independent. If the ranks of successive steps are
 *         correlated beyond chance (1 % level), the interval is widened about the estimate by
 *         sqrt((1 + rho) / (1 - rho)), the equivalent number of independent steps, with rho's bias
 *         removed. A disturbance that lasts longer than a whole run, such as another job on the
 *         machine, cannot be seen in a single run.
 * Source  Hodges and Lehmann, Estimates of location based on rank tests, Ann. Math. Statist. 34
 *         (1963); Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed.,
 *         sections 4.2 and 4.3; Wald and Wolfowitz, An exact test for randomness in the
 *         non-parametric case based on serial correlation, Ann. Math. Statist. 14 (1943); Kendall,
 *         Note on bias in the estimation of autocorrelation, Biometrika 41 (1954); Zwiers and von
 *         Storch, Taking serial correlation into account in tests of the mean, J. Climate 8
 *         (1995). */

/* The interval's confidence. Each end is wrong with 5 %, so a verdict in one direction is a
 * one-sided test at 5 %. */
#define DT_RATIO_CONFIDENCE 0.90 /* the help of dtbench compare states it, too */

struct dt_ratio {
    double ratio;     /* throughput, new over base; NaN: unknown */
    double low, high; /* the interval; NaN: too few steps, since each needs three */
    double widened;   /* by this factor, for steps that depend on each other; 1: independent */
};

/* base_s [base_count], new_s [new_count]: seconds of the steps, in the order of time. Unless all
 * are positive and finite, the result is unknown. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_ratio_compare(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out);

enum dt_change { DT_SAME, DT_FASTER, DT_SLOWER, DT_UNCLEAR };

/* threshold: a fraction of the base's throughput, 0.05.
 *   slower   the estimate is below 1 - threshold, and the whole interval is below 1
 *   faster   the estimate is above 1 + threshold, and the whole interval is above 1
 *   same     the whole interval is between 1 - threshold and 1 + threshold
 *   unclear  the interval spans a threshold, and neither of the first two holds; or there is no
 *            interval "slower" needs the estimate beyond the threshold and the interval below 1,
 *            but not the whole interval beyond the threshold: so a loss of twice the threshold is
 *            found from few steps. With 9 steps and noise of 5 % the interval is about 4 % wide to
 *            each side; an interval wholly below 95 % would find a true loss of 10 % in about two
 *            of three runs. With this rule 98 % are found, and 2 % of equal programs are called
 *            slower (test/lib/base/test_ratio.c). */
enum dt_change dt_ratio_judge(const struct dt_ratio *ratio, double threshold);

/* The same on a machine with other work. That work only lengthens steps, often for longer than a
 * whole run, so medians measure it instead of the program. The shortest step of many runs measures
 * the program.
 *
 * Method  Each run counts by its shortest step. The shortest of all runs estimates the time without
 *         other work, and the ratio is that of both programs' estimates. How far that time may be
 *         below the shortest run follows from the density of the DT_RATIO_SHORTEST shortest runs:
 *         if their distribution ends at some time, with about constant density from there to the
 *         k-th run, then the end's distance to the first run, divided by its distance to the k-th,
 *         is the least of k - 1 uniform numbers. Each program's end has a one-sided limit of 95 %,
 *         and the ratio's interval is what both allow. Few quiet moments make it wide. Runs of both
 *         programs must alternate, or else other work may have disturbed only one of them.
 * Source  Chen and Revels, Robust benchmarking in noisy environments, arXiv 1608.04295 (2016);
 *         Robson and Whitlock, Estimation of a truncation point, Biometrika 51 (1964). */
enum { DT_RATIO_SHORTEST = 8 };

/* base_s [base_count], new_s [new_count]: seconds, the shortest step of each run; otherwise as
 * above. The interval is NaN with fewer than DT_RATIO_SHORTEST runs of either. */
dt_status dt_ratio_of_shortest(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out);

/* Verdicts from the interval only: slower or faster if all of it is beyond the threshold, same if
 * all of it is within, else unclear. These verdicts are seldom wrong even if runs are added until
 * the interval is clear: it would have to miss by the threshold. */
enum dt_change dt_ratio_judge_interval(const struct dt_ratio *ratio, double threshold);
