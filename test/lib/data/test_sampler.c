#include "lib/data/sampler.h"
#include "test/check.h"

#include <stdlib.h>

/* Count how often each sample of an epoch occurs. */
static void count_epoch(const struct dt_sampler *s, uint64_t epoch, int *times)
{
    uint64_t length = dt_sampler_steps(s) * s->batch;
    memset(times, 0, s->count * sizeof *times);
    for (uint64_t i = 0; i < length; i++) {
        uint64_t sample = dt_sampler_at(s, epoch * length + i);
        CHECK(sample < s->count, "sample %zu of %zu", (size_t)sample, (size_t)s->count);
        times[sample < s->count ? sample : 0]++;
    }
}

/* Dropped: each at most once, and as many as steps have room for. Padded: each at least once, and
 * none twice more than another. */
static void check_epoch(const struct dt_sampler *s, uint64_t epoch, int *times)
{
    uint64_t missing = 0, length = dt_sampler_steps(s) * s->batch;
    int least = length / s->count ? (int)(length / s->count) : 0, most = least + (length % s->count > 0);
    count_epoch(s, epoch, times);
    for (uint64_t i = 0; i < s->count; i++) {
        missing += times[i] == 0;
        CHECK(times[i] >= least && times[i] <= most, "%zu samples, steps of %zu, epoch %zu: sample %zu comes %d times", (size_t)s->count,
              (size_t)s->batch, (size_t)epoch, (size_t)i, times[i]);
    }
    uint64_t expected = s->last == DT_LAST_PADDED ? 0 : s->count % s->batch;
    CHECK(missing == expected, "%zu samples, steps of %zu: %zu are missing", (size_t)s->count, (size_t)s->batch, (size_t)missing);
}

static void each_once_an_epoch(void)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, 100, 255, 256, 257, 1000, 4097};
    static const uint64_t batches[] = {1, 2, 3, 7, 8, 48, 96, 300};
    int *times = calloc(4097, sizeof *times);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (int last = DT_LAST_DROPPED; last <= DT_LAST_PADDED; last++)
                for (int shuffled = 0; shuffled < 2; shuffled++) {
                    struct dt_sampler s = {counts[c], batches[b], (enum dt_last_step)last, shuffled, 7};
                    for (uint64_t epoch = 0; epoch < 3 && dt_sampler_steps(&s) > 0; epoch++)
                        check_epoch(&s, epoch, times);
                }
    free(times);
}

static void as_they_are_without_shuffling(void)
{
    struct dt_sampler s = {10, 4, DT_LAST_PADDED, false, 1};
    static const uint64_t expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 0, 1, 2};
    CHECK(dt_sampler_steps(&s) == 3, "%zu steps", (size_t)dt_sampler_steps(&s));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(dt_sampler_at(&s, i) == expected[i], "position %zu: %zu", i, (size_t)dt_sampler_at(&s, i));
    s.last = DT_LAST_DROPPED;
    CHECK(dt_sampler_steps(&s) == 2 && dt_sampler_at(&s, 8) == 0, "the epoch has two steps");
}

/* How many positions have the same sample in both. By chance it is about one. */
static int alike(const struct dt_sampler *a, uint64_t from_a, const struct dt_sampler *b, uint64_t from_b)
{
    int same = 0;
    for (uint64_t i = 0; i < a->count; i++)
        same += dt_sampler_at(a, from_a + i) == dt_sampler_at(b, from_b + i);
    return same;
}

static void orders_differ(void)
{
    struct dt_sampler s = {1000, 10, DT_LAST_DROPPED, true, 1}, other = s, plain = s;
    other.seed = 2;
    plain.shuffled = false;
    CHECK(alike(&s, 0, &s, 1000) < 12, "epochs have the same order");
    CHECK(alike(&s, 0, &other, 0) < 12, "seeds have the same order");
    CHECK(alike(&s, 0, &plain, 0) < 12, "it is not shuffled");
    CHECK(alike(&s, 0, &s, 0) == 1000, "one order is another the second time");
}

/* Whether neighbours stay neighbours: of n samples about two pairs do by chance. And the mean of
 * the first half is that of all. */
static void order_is_random(void)
{
    struct dt_sampler s = {100000, 10, DT_LAST_DROPPED, true, 3};
    int neighbours = 0;
    double sum = 0;
    for (uint64_t i = 0; i + 1 < s.count; i++) {
        int64_t difference = (int64_t)dt_sampler_at(&s, i + 1) - (int64_t)dt_sampler_at(&s, i);
        neighbours += difference == 1 || difference == -1;
        sum += i < s.count / 2 ? (double)dt_sampler_at(&s, i) : 0;
    }
    CHECK(neighbours < 12, "%d neighbours stayed neighbours", neighbours);
    double half = (double)s.count / 2, error = (double)s.count / sqrt(12 * half) / sqrt(2);
    CHECK(fabs(sum / half - ((double)s.count - 1) / 2) < 5 * error, "the first half's mean is %g", sum / half);
}

static void large_data_sets(void)
{
    struct dt_sampler s = {1ull << 62, 1 << 20, DT_LAST_DROPPED, true, 5};
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(dt_sampler_at(&s, i << 30) < s.count && (i == 0 || dt_sampler_at(&s, i << 30) != dt_sampler_at(&s, 0)), "position %zu",
              (size_t)i);
}

static const struct test_case cases[] = {
    {"each sample comes once an epoch", each_once_an_epoch},
    {"without shuffling in the order of the data set", as_they_are_without_shuffling},
    {"epochs and seeds have orders of their own", orders_differ},
    {"the order is random", order_is_random},
    {"data sets of 2^62 samples", large_data_sets},
};
TEST_MAIN(cases)
