#include "lib/base/statistics.h"
#include "test/check.h"

/* Values computed by hand; percentiles as numpy.percentile's default gives them. */
static void known_values(void)
{
    struct dt_statistics s;
    const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, spread[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
    CHECK_OK(dt_statistics_compute(odd, 3, &s));
    CHECK(s.count == 3 && s.median == 2 && s.min == 1 && s.max == 3 && s.mean == 2 && fabs(s.p95 - 2.9) < 1e-12 && s.cv == 0.5, "%g %g %g",
          s.median, s.p95, s.cv);
    CHECK(odd[0] == 3 && odd[1] == 1, "the input changed");
    CHECK_OK(dt_statistics_compute(even, 4, &s));
    CHECK(s.median == 2.5 && fabs(s.p95 - 3.85) < 1e-12, "%g %g", s.median, s.p95);
    CHECK(fabs(s.cv - sqrt(5.0 / 3) / 2.5) < 1e-15, "%g", s.cv);
    CHECK_OK(dt_statistics_compute((double[]){0.3, 0.1 + 0.2}, 2, &s)); /* the last bit apart */
    CHECK(s.cv == 0, "%g", s.cv);
    CHECK_OK(dt_statistics_compute(spread, 11, &s));
    CHECK(s.median == 60 && fabs(s.p95 - 105) < 1e-12, "%g %g", s.median, s.p95);
}

static void quantiles(void)
{
    const double values[] = {40, 10, 30, 20, 50}, hole[] = {1, NAN};
    double q;
    CHECK_OK(dt_statistics_quantile(values, 5, 0.9, &q));
    CHECK(fabs(q - 46) < 1e-12, "%g", q);
    CHECK_OK(dt_statistics_quantile(values, 5, 0, &q));
    CHECK(q == 10 && values[0] == 40, "%g", q);
    CHECK_OK(dt_statistics_quantile((double[]){NAN, 1, 2}, 3, 0.5, &q));
    CHECK(isnan(q), "%g", q);
    CHECK_OK(dt_statistics_quantile(values, 0, 0.5, &q));
    CHECK(isnan(q));
    CHECK_OK(dt_statistics_quantile(hole, 2, 0.5, &q));
    CHECK(isnan(q));
}

static void edges(void)
{
    struct dt_statistics s;
    const double one[] = {7}, zeros[] = {0, 0}, hole[] = {1, NAN, 3};
    CHECK_OK(dt_statistics_compute(one, 1, &s));
    CHECK(s.median == 7 && s.p95 == 7 && s.mean == 7 && isnan(s.cv));
    CHECK_OK(dt_statistics_compute(zeros, 2, &s));
    CHECK(s.median == 0 && isnan(s.cv));
    CHECK_OK(dt_statistics_compute(hole, 3, &s));
    CHECK(isnan(s.median) && isnan(s.p95) && isnan(s.mean) && isnan(s.cv) && s.count == 3);
    CHECK_OK(dt_statistics_compute(NULL, 0, &s));
    CHECK(isnan(s.median) && isnan(s.min) && s.count == 0);
}

static const struct test_case cases[] = {
    {"median, 95th percentile and coefficient of variation", known_values},
    {"quantiles", quantiles},
    {"one value, zeros, NaN, nothing", edges},
};
TEST_MAIN(cases)
