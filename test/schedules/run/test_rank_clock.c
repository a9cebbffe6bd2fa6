/* How far one rank's clock is ahead of another's, by exchanges of which the true times are
 * known. */
#include "schedules/run/ranks.h"
#include "test/check.h"

#include <stdlib.h>

/* Both begin round i at a moment of its own and end it after both have begun; `ahead`: what `other`
 * shows more. */
static void read_both(int64_t ahead_ns, struct rank_clock *first, struct rank_clock *other)
{
    uint64_t seed = 7;
    *first = (struct rank_clock){.host.text = "one"};
    *other = (struct rank_clock){.host.text = "two"};
    for (int i = 0; i < RANK_CLOCK_ROUNDS; i++) {
        int64_t delays_ns[4];
        for (int j = 0; j < 4; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            delays_ns[j] = 1000 + (int64_t)(seed >> 33) % 50000;
        }
        int64_t round_ns = 1000000000 + 1000000 * i, begun_ns = delays_ns[0] > delays_ns[1] ? delays_ns[0] : delays_ns[1];
        first->before_ns[i] = round_ns + delays_ns[0];
        other->before_ns[i] = round_ns + delays_ns[1] + ahead_ns;
        first->after_ns[i] = round_ns + begun_ns + delays_ns[2];
        other->after_ns[i] = round_ns + begun_ns + delays_ns[3] + ahead_ns;
    }
}

static void the_true_difference_is_within_the_error(void)
{
    static const int64_t aheads_ns[] = {0, 1, -1, 123456789, -123456789, 86400000000000, -86400000000000};
    struct rank_clock first, other;
    for (size_t i = 0; i < sizeof aheads_ns / sizeof *aheads_ns; i++) {
        int64_t error_ns, error_back_ns;
        read_both(aheads_ns[i], &first, &other);
        int64_t found_ns = rank_clock_ahead_ns(&first, &other, &error_ns);
        CHECK(llabs(found_ns - aheads_ns[i]) <= error_ns, "%lld is %lld to %lld", (long long)aheads_ns[i], (long long)found_ns,
              (long long)error_ns);
        CHECK(error_ns > 0 && error_ns <= 50000, "%lld", (long long)error_ns); /* rounds take at most 100 us */
        int64_t back_ns = rank_clock_ahead_ns(&other, &first, &error_back_ns);
        CHECK(llabs(back_ns + found_ns) <= 1 && error_back_ns == error_ns, "%lld", (long long)back_ns);
    }
}

static void ranks_of_a_host_have_one_clock(void)
{
    struct rank_clock first, other;
    int64_t error_ns = -1;
    read_both(0, &first, &other);
    snprintf(other.host.text, sizeof other.host.text, "%s", first.host.text);
    CHECK(rank_clock_ahead_ns(&first, &other, &error_ns) == 0 && error_ns == 0);
    read_both(123456789, &first, &other); /* two hosts that share a name */
    snprintf(other.host.text, sizeof other.host.text, "%s", first.host.text);
    CHECK(llabs(rank_clock_ahead_ns(&first, &other, &error_ns) - 123456789) <= error_ns && error_ns > 0);
}

static const struct test_case cases[] = {
    {"the true difference is within the error", the_true_difference_is_within_the_error},
    {"ranks of a host have one clock", ranks_of_a_host_have_one_clock},
};
TEST_MAIN(cases)
