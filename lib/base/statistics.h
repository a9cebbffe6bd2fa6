/* What a record says about repeated measurements. */
#ifndef LIB_BASE_STATISTICS_H
#define LIB_BASE_STATISTICS_H

#include "lib/base/status.h"

struct dt_statistics {
    int count;
    double median, p95; /* percentiles by linear interpolation between the two nearest ranks, at (count - 1) * q */
    double mean, min, max;
    double cv; /* coefficient of variation: sample standard deviation (count - 1) over mean; NaN for one value or a mean of 0;
                  0 below 1e-12 */
};

/* values [count], in any order, unchanged. All NaN for count 0; a NaN among the values makes everything NaN.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_statistics_compute(const double *values, int count, struct dt_statistics *out);

/* The quantile q in [0, 1], interpolated as above; NaN for count 0 or a NaN among the values. Errors: as above. */
dt_status dt_statistics_quantile(const double *values, int count, double q, double *out);

/* Is the new program faster or slower than the old one? From the step times of both.
 *
 * Method  The ratio is that of throughput: the time of a base step over the time of a new one, estimated as the median over all pairs of a
 *         base and a new step (Hodges-Lehmann, of the logarithms). Its interval is the distribution-free one that belongs to it (Moses):
 *         the k-th smallest and the k-th largest of the pairs' ratios, k from the exact distribution of the Mann-Whitney statistic, and
 * from its normal approximation above 50 steps. Up to 29 % of the steps may be outliers of any size without moving the estimate far, and no
 * distribution of the noise is assumed; a t interval of 9 steps is made useless by one slow step. Steps are taken to be independent. Where
 * the ranks of neighbours in time are correlated beyond chance (1 % level), the interval is widened about the estimate by sqrt((1 + rho) /
 * (1 - rho)), the equivalent number of independent steps, rho without its bias. What lasts longer than a whole run, such as another job on
 * the machine, no single run can show. Source  Hodges and Lehmann, Estimates of location based on rank tests, Ann. Math. Statist. 34
 * (1963); Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., sections 4.2 and 4.3; Wald and Wolfowitz, An exact test
 * for randomness in the non-parametric case based on serial correlation, Ann. Math. Statist. 14 (1943); Kendall, Note on bias in the
 * estimation of autocorrelation, Biometrika 41 (1954); Zwiers and von Storch, Taking serial correlation into account in tests of the mean,
 * J. Climate 8 (1995). */

/* Of the interval. Both its ends are wrong with 5 % each, so a verdict in one direction is a one-sided test at 5 %. */
#define DT_RATIO_CONFIDENCE 0.90 /* the help of dtbench compare says so too */

struct dt_ratio {
    double ratio;     /* throughput, new over base; NaN where there is nothing to compare */
    double low, high; /* the interval; NaN where there are too few steps: three each are enough */
    double widened;   /* by how much, for steps that depend on each other; 1: not at all */
};

/* base_s [base_count], new_s [new_count]: seconds of the steps, in the order of time; all positive and finite, else nothing is known.
 * Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_ratio_compare(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out);

enum dt_change { DT_SAME, DT_FASTER, DT_SLOWER, DT_UNCLEAR };

/* threshold: a fraction of the base's throughput, 0.05.
 *   slower   the estimate is below 1 - threshold, and the whole interval is below 1
 *   faster   the estimate is above 1 + threshold, and the whole interval is above 1
 *   same     the whole interval is between 1 - threshold and 1 + threshold
 *   unclear  the interval spans a threshold, and neither of the first two holds; or there is none
 * That slower asks for the estimate beyond the threshold and the interval beyond no change, instead of the interval beyond the threshold,
 * is what finds a loss of twice the threshold from few steps: with 9 steps and noise of 5 % the interval is about 4 % wide to each side,
 * and an interval wholly below 95 % would find a true loss of 10 % in about two of three runs. As it is, 98 % are found, and of equal
 * programs 2 % are called slower (test/lib/base/test_ratio.c). */
enum dt_change dt_ratio_judge(const struct dt_ratio *ratio, double threshold);

/* The same where a machine has other work, too: that only ever adds to a step, often for longer than a whole run, so that medians tell of
 * it and not of the program. The shortest step of many runs tells of the program.
 *
 * Method  Each run counts by its shortest step. The shortest of all runs estimates the time without other work, and the ratio is that of
 *         both programs' estimates. How far below the shortest that time may still be is told by how dense the DT_RATIO_SHORTEST shortest
 *         runs are: if their distribution ends at some time, and has about one density from there to the k-th of them, then the end's
 *         distance to the first, over its distance to the k-th, is the least of k - 1 uniform numbers. Each program's end has a one-sided
 *         limit of 95 %, and the ratio's interval is what both allow. Few quiet moments make it wide. It needs runs of both programs in
 *         turn, or else other work may have met one of them alone.
 * Source  Chen and Revels, Robust benchmarking in noisy environments, arXiv 1608.04295 (2016); Robson and Whitlock, Estimation of a
 *         truncation point, Biometrika 51 (1964). */
enum { DT_RATIO_SHORTEST = 8 };

/* base_s [base_count], new_s [new_count]: seconds, the shortest step of each run; else as above. The interval is NaN below
 * DT_RATIO_SHORTEST runs each. */
dt_status dt_ratio_of_shortest(const double *base_s, int base_count, const double *new_s, int new_count, struct dt_ratio *out);

/* The verdicts of an interval alone: slower and faster where all of it is beyond the threshold, same where all of it is within, else
 * unclear. An interval that is looked at again and again until it is clear is seldom wrong so: it would have to miss by the threshold. */
enum dt_change dt_ratio_judge_interval(const struct dt_ratio *ratio, double threshold);

#endif
