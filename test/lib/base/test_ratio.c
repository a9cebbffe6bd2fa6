#include "lib/base/statistics.h"
#include "test/check.h"

#include <stdint.h>
#include <stdlib.h>

enum { DRAWS = 1000, STEPS = 9 };

/* A generator of its own, so that the draws do not change with the program's. SplitMix64, Steele et
 * al. 2014. */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(state));
}

/* The noise of a step, and how often each verdict occurs. */
enum noise { NOISE_NORMAL, NOISE_UNIFORM, NOISE_OUTLIERS, NOISE_SLOW_SPELLS };

static void draw(double *step_s, int count, double mean_s, double relative, enum noise noise, uint64_t *state)
{
    double last = normal(state);
    for (int i = 0; i < count; i++) {
        double value = normal(state);
        if (noise == NOISE_UNIFORM)
            value = (2 * uniform(state) - 1) * sqrt(3);
        if (noise == NOISE_SLOW_SPELLS)
            value = last = 0.5 * last + sqrt(0.75) * value;
        step_s[i] = mean_s * (1 + relative * value);
        if (noise == NOISE_OUTLIERS && uniform(state) < 0.1)
            step_s[i] *= 1.5;
    }
}

struct rates {
    int verdicts[4]; /* by enum dt_change */
    int covered;     /* the interval holds the true ratio */
};

static struct rates judge(double true_ratio, int steps, double relative, enum noise noise, uint64_t seed)
{
    struct rates rates = {0};
    double base[64], new[64];
    struct dt_ratio ratio;
    for (int d = 0; d < DRAWS; d++) {
        draw(base, steps, 0.4, relative, noise, &seed);
        draw(new, steps, 0.4 / true_ratio, relative, noise, &seed);
        CHECK_OK(dt_ratio_compare(base, steps, new, steps, &ratio));
        rates.verdicts[dt_ratio_judge(&ratio, 0.05)]++;
        rates.covered += ratio.low <= true_ratio && true_ratio <= ratio.high;
    }
    return rates;
}

/* The gate's requirement: noise of 5 %, 9 steps, a threshold of 5 %. */
static void no_false_alarm_and_no_loss_missed(void)
{
    static const enum noise kinds[] = {NOISE_NORMAL, NOISE_UNIFORM};
    for (int k = 0; k < 2; k++) {
        struct rates equal = judge(1, STEPS, 0.05, kinds[k], 11), lost = judge(0.9, STEPS, 0.05, kinds[k], 12),
                     gained = judge(1 / 0.9, STEPS, 0.05, kinds[k], 13);
        printf("# noise %d: of equal programs %d slower, %d faster, %d same, %d unclear; of 10 %% losses %d found; interval right %d\n", k,
               equal.verdicts[DT_SLOWER], equal.verdicts[DT_FASTER], equal.verdicts[DT_SAME], equal.verdicts[DT_UNCLEAR],
               lost.verdicts[DT_SLOWER], equal.covered);
        CHECK(equal.verdicts[DT_SLOWER] + equal.verdicts[DT_FASTER] <= DRAWS * 5 / 100);
        CHECK(lost.verdicts[DT_SLOWER] >= DRAWS * 95 / 100);
        CHECK(gained.verdicts[DT_FASTER] >= DRAWS * 95 / 100);
        CHECK(equal.covered >= DRAWS * 88 / 100 && lost.covered >= DRAWS * 88 / 100, "%d %d", equal.covered, lost.covered);
    }
}

/* Other kinds of noise must not raise alarms, and should not hide a loss. Without its widening the
 * interval would be right in 63 % of the slow spells, and 13 % of equal programs would be called
 * slower. */
static void other_noise(void)
{
    struct rates outliers = judge(1, STEPS, 0.05, NOISE_OUTLIERS, 21), lost = judge(0.85, STEPS, 0.05, NOISE_OUTLIERS, 22);
    CHECK(outliers.verdicts[DT_SLOWER] <= DRAWS * 5 / 100, "%d", outliers.verdicts[DT_SLOWER]);
    CHECK(lost.verdicts[DT_SLOWER] >= DRAWS * 90 / 100, "%d", lost.verdicts[DT_SLOWER]);
    struct rates loud = judge(1, STEPS, 0.15, NOISE_NORMAL, 23);
    CHECK(loud.verdicts[DT_SLOWER] <= DRAWS * 7 / 100 && loud.verdicts[DT_SAME] == 0, "%d", loud.verdicts[DT_SLOWER]);
    struct rates spells = judge(1, 40, 0.10, NOISE_SLOW_SPELLS, 24);
    CHECK(spells.verdicts[DT_SLOWER] <= DRAWS * 9 / 100, "%d", spells.verdicts[DT_SLOWER]);
    CHECK(spells.covered >= DRAWS * 85 / 100, "%d", spells.covered);
    struct rates quiet = judge(1, STEPS, 0.01, NOISE_NORMAL, 25);
    CHECK(quiet.verdicts[DT_SAME] >= DRAWS * 99 / 100, "%d", quiet.verdicts[DT_SAME]);
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Against all pairs written down; k from the usual tables of the Mann-Whitney statistic: one-sided
 * at 5 % its critical value is 21 for 9 and 9 steps, 4 for 5 and 5, 1 for 4 and 4, 0 for 3 and 3,
 * and the interval begins at one more. */
static void agrees_with_all_pairs(void)
{
    static const struct {
        int base, new, k;
    } cases[] = {{9, 9, 22}, {5, 5, 5}, {4, 4, 2}, {3, 3, 1}, {3, 5, 2}, {5, 3, 2}};
    uint64_t state = 3;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double base[16], new[16], pairs[256];
        int count = 0;
        struct dt_ratio ratio;
        draw(base, cases[c].base, 1, 0.2, NOISE_NORMAL, &state);
        draw(new, cases[c].new, 1, 0.2, NOISE_NORMAL, &state);
        for (int i = 0; i < cases[c].base; i++)
            for (int j = 0; j < cases[c].new; j++)
                pairs[count++] = log(base[i]) - log(new[j]);
        qsort(pairs, (size_t)count, sizeof pairs[0], ascending);
        CHECK_OK(dt_ratio_compare(base, cases[c].base, new, cases[c].new, &ratio));
        double median = count % 2 ? pairs[count / 2] : (pairs[count / 2 - 1] + pairs[count / 2]) / 2;
        CHECK(fabs(log(ratio.ratio) - median) < 1e-12, "%d and %d: %g, not %g", cases[c].base, cases[c].new, log(ratio.ratio), median);
        CHECK(ratio.widened == 1, "%g", ratio.widened);
        CHECK(fabs(log(ratio.low) - pairs[cases[c].k - 1]) < 1e-12, "%d and %d: from %g, not %g", cases[c].base, cases[c].new,
              log(ratio.low), pairs[cases[c].k - 1]);
        CHECK(fabs(log(ratio.high) - pairs[count - cases[c].k]) < 1e-12, "%d and %d: to %g", cases[c].base, cases[c].new, log(ratio.high));
    }
}

static void edges(void)
{
    struct dt_ratio r;
    const double one[] = {2}, two[] = {1, 1}, equal[] = {0.5, 0.5, 0.5, 0.5}, slow[] = {1, 1, 1}, hole[] = {1, NAN, 1}, zero[] = {1, 0, 1};
    CHECK_OK(dt_ratio_compare(equal, 4, equal, 4, &r));
    CHECK(r.ratio == 1 && r.low == 1 && r.high == 1 && dt_ratio_judge(&r, 0.05) == DT_SAME && dt_ratio_judge(&r, 0) == DT_SAME);
    CHECK_OK(dt_ratio_compare(equal, 4, slow, 3, &r));
    CHECK(r.ratio == 0.5 && r.low == 0.5 && r.high == 0.5 && dt_ratio_judge(&r, 0.05) == DT_SLOWER, "%g", r.ratio);
    CHECK_OK(dt_ratio_compare(slow, 3, equal, 4, &r));
    CHECK(r.ratio == 2 && dt_ratio_judge(&r, 0.05) == DT_FASTER);
    CHECK_OK(dt_ratio_compare(one, 1, two, 2, &r)); /* a ratio, without an interval */
    CHECK(r.ratio == 2 && isnan(r.low) && isnan(r.high) && dt_ratio_judge(&r, 0.05) == DT_UNCLEAR);
    const struct {
        const double *steps;
        int count;
    } unknown[] = {{hole, 3}, {zero, 3}, {NULL, 0}};
    for (int u = 0; u < 3; u++) {
        CHECK_OK(dt_ratio_compare(equal, 4, unknown[u].steps, unknown[u].count, &r));
        CHECK(isnan(r.ratio) && isnan(r.low) && dt_ratio_judge(&r, 0.05) == DT_UNCLEAR, "%d", u);
        CHECK_OK(dt_ratio_compare(unknown[u].steps, unknown[u].count, equal, 4, &r));
        CHECK(isnan(r.ratio));
    }
}

/* On, just above and just below each limit: the ratio's own (1 - threshold, 1 + threshold) belongs
 * to "the same", and the interval must leave 1 out. */
static void judges_at_its_limits(void)
{
    static const struct {
        double ratio, low, high;
        enum dt_change change;
    } rows[] = {
        {1.5, 1.25, 2, DT_FASTER},   {1.3, 1.1, 2.5, DT_FASTER}, {1.25, 1.1, 1.25, DT_SAME},   {1.125, 1.1, 1.2, DT_SAME},
        {1.5, 1, 2, DT_UNCLEAR},     {1.5, 0.9, 2, DT_UNCLEAR},  {1.25, 1.1, 1.5, DT_UNCLEAR}, {0.5, 0.4, 0.9, DT_SLOWER},
        {0.75, 0.75, 0.9, DT_SAME},  {0.875, 0.8, 0.9, DT_SAME}, {0.5, 0.4, 1, DT_UNCLEAR},    {0.5, 0.4, 1.1, DT_UNCLEAR},
        {0.875, 0.7, 1, DT_UNCLEAR}, {1, 0.75, 1.25, DT_SAME},   {1, 0.7, 1.2, DT_UNCLEAR},    {1, 0.8, 1.3, DT_UNCLEAR},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct dt_ratio ratio = {rows[i].ratio, rows[i].low, rows[i].high, 1};
        CHECK(dt_ratio_judge(&ratio, 0.25) == rows[i].change, "%g (%g to %g): %d", ratio.ratio, ratio.low, ratio.high,
              (int)dt_ratio_judge(&ratio, 0.25));
    }
}

/* A hundred thousand steps have ten thousand million pairs. */
static void many_steps(void)
{
    enum { MANY = 100000 };
    double *base = malloc(MANY * sizeof *base), *new = malloc(MANY * sizeof *new);
    uint64_t state = 9;
    struct dt_ratio r;
    if (base && new) {
        draw(base, MANY, 1, 0.05, NOISE_NORMAL, &state);
        draw(new, MANY, 1 / 0.97, 0.05, NOISE_NORMAL, &state);
        CHECK_OK(dt_ratio_compare(base, MANY, new, MANY, &r));
        CHECK(fabs(r.ratio - 0.97) < 0.001 && r.high - r.low < 0.002 && r.low < r.ratio && r.ratio < r.high, "%g", r.ratio);
        CHECK(dt_ratio_judge(&r, 0.05) == DT_SAME && dt_ratio_judge(&r, 0.02) == DT_SLOWER);
    }
    free(base);
    free(new);
}

/* Runs on a machine with other work: half of the time hardly any, else steps take some three times
 * as long. Judged from 12 runs on until the verdict is clear, and again with twice the runs before
 * it is called slower, as scripts/gate does. */
static enum dt_change judge_in_turn(double true_ratio, uint64_t *state)
{
    enum { MOST = 96 };
    double base[MOST], new[MOST];
    struct dt_ratio ratio;
    int confirm = 0;
    for (int runs = 0; runs < MOST;) {
        base[runs] = 1 - log(uniform(state)) * (uniform(state) < 0.5 ? 0.05 : 2);
        new[runs] = (1 - log(uniform(state)) * (uniform(state) < 0.5 ? 0.05 : 2)) / true_ratio;
        runs++;
        if (runs < 12 || runs < confirm)
            continue;
        CHECK_OK(dt_ratio_of_shortest(base, runs, new, runs, &ratio));
        if (ratio.low > 0.95)
            return DT_SAME;
        if (dt_ratio_judge_interval(&ratio, 0.05) != DT_SLOWER)
            continue;
        if (confirm > 0)
            return DT_SLOWER;
        confirm = 2 * runs;
    }
    return DT_UNCLEAR;
}

static void shortest_steps(void)
{
    int verdicts[2][4] = {{0}};
    uint64_t state = 11;
    for (int d = 0; d < DRAWS; d++)
        for (int slow = 0; slow < 2; slow++)
            verdicts[slow][judge_in_turn(slow ? 1 / 1.1 : 1, &state)]++;
    CHECK(verdicts[0][DT_SLOWER] <= 5, "%d of %d equal programs are called slower", verdicts[0][DT_SLOWER], DRAWS);
    CHECK(verdicts[1][DT_SLOWER] >= 950, "of %d programs that take 10 %% longer %d are found", DRAWS, verdicts[1][DT_SLOWER]);
    const double times[] = {3, 1, 1.25, 1.5, 2, 2, 9, 2, 2}, unknown[] = {1, NAN, 1, 1, 1, 1, 1, 1};
    struct dt_ratio r;
    CHECK_OK(dt_ratio_of_shortest(times, 9, times, 8, &r));
    CHECK(fabs(r.ratio - 1) < 1e-12 && r.low < 0.6 && r.high > 1.7 && r.widened == 1, "%g: %g to %g", r.ratio, r.low, r.high);
    CHECK_OK(dt_ratio_of_shortest(times, 9, times, 7, &r));
    CHECK(fabs(r.ratio - 1) < 1e-12 && isnan(r.high) && dt_ratio_judge_interval(&r, 0.05) == DT_UNCLEAR, "seven runs: %g", r.high);
    CHECK_OK(dt_ratio_of_shortest(times, 9, unknown, 8, &r));
    CHECK(isnan(r.ratio), "%g of unknown times", r.ratio);
}

static const struct test_case cases[] = {
    {"noise of 5 %, 9 steps: no false alarm in 95 %, a 10 % loss found in 95 %", no_false_alarm_and_no_loss_missed},
    {"outliers, more noise, less noise, slow spells", other_noise},
    {"estimate and interval against all pairs", agrees_with_all_pairs},
    {"one step, unknown steps, no noise", edges},
    {"at the limits of a verdict", judges_at_its_limits},
    {"very many steps", many_steps},
    {"shortest steps on a busy machine: 0.5 % false alarms at most, a 10 % loss found in 95 %", shortest_steps},
};
TEST_MAIN(cases)
