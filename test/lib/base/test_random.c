#include "test/check.h"
#include "test/normal.h"

/* The known answers that the authors of Philox publish with it (Random123, philox4x32, 10
 * rounds). */
static void known_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t *c = known[i].counter;
        struct dt_philox got = dt_philox4x32((uint64_t)known[i].key[1] << 32 | known[i].key[0], c[0], c[1], c[2], c[3]);
        CHECK(memcmp(got.word, known[i].answer, sizeof got.word) == 0, "case %zu: %08x %08x %08x %08x", i, got.word[0], got.word[1],
              got.word[2], got.word[3]);
    }
}

/* Bounds are five standard errors wide. */
static void normal_moments(void)
{
    enum { COUNT = 400000 };
    double sum = 0, square = 0, fourth = 0, neighbour = 0, before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = dt_random_normal(11, 3, i);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
        neighbour += x * before;
        before = x;
    }
    double root = sqrt((double)COUNT);
    CHECK(fabs(sum / COUNT) < 5 / root, "mean %g", sum / COUNT);
    CHECK(fabs(square / COUNT - 1) < 5 * sqrt(2) / root, "variance %g", square / COUNT);
    CHECK(fabs(fourth / COUNT - 3) < 5 * sqrt(96) / root, "fourth moment %g", fourth / COUNT);
    CHECK(fabs(neighbour / COUNT) < 5 / root, "neighbours correlate: %g", neighbour / COUNT);
}

static void normal_follows_definition(void)
{
    uint64_t seed = 0x123456789abcdef0ull, element = (5ull << 32) * 4 + 2;
    struct dt_philox words = dt_philox4x32(seed, 0, 5, 77, 1u << 24);
    double radius = sqrt(-2 * log((words.word[2] + 1.0) / 4294967296.0)), angle = 2 * M_PI * words.word[3] / 4294967296.0;
    CHECK(fabs(dt_random_normal(seed, 77, element) - radius * cos(angle)) < 1e-6);
    CHECK(fabs(dt_random_normal(seed, 77, element + 1) - radius * sin(angle)) < 1e-6);
}

static void numbers_depend_on_their_purpose_only(void)
{
    float first = dt_random_normal(1, 2, 3);
    CHECK(first == dt_random_normal(1, 2, 3));
    CHECK(first != dt_random_normal(2, 2, 3) && first != dt_random_normal(1, 3, 3) && first != dt_random_normal(1, 2, 4));
    CHECK(first != dt_random_normal(1ull << 32 | 1, 2, 3), "the seed's high word counts");
    CHECK(first != dt_random_normal(1, 2, 3 + (4ull << 32)), "the element's high word counts");
}

static void tokens_are_uniform(void)
{
    enum { VOCAB = 50, COUNT = 100000 };
    int seen[VOCAB] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t token = dt_random_token(9, i / 100, i % 100, VOCAB);
        CHECK(token < VOCAB, "%u", token);
        if (token < VOCAB)
            seen[token]++;
    }
    double chi_square = 0, expected = (double)COUNT / VOCAB;
    for (int i = 0; i < VOCAB; i++)
        chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
    CHECK(chi_square < 49 + 5 * sqrt(2.0 * 49), "chi square %g of 49 degrees", chi_square);
    CHECK(dt_random_token(9, 1, 2, 1) == 0);
}

static void dropout_threshold_and_scale(void)
{
    CHECK(dt_dropout_threshold(0) == 0 && dt_dropout_scale(0) == 1);
    CHECK(dt_dropout_threshold(0.1f) == 6554);
    CHECK(fabs(dt_dropout_scale(0.1f) * (1 - 6554 / 65536.0) - 1) < 1e-6, "kept elements keep the mean");
}

static const struct test_case cases[] = {
    {"Philox gives its published answers", known_answers},
    {"normal deviates have the right moments", normal_moments},
    {"normal deviates follow their definition", normal_follows_definition},
    {"numbers depend on their purpose only", numbers_depend_on_their_purpose_only},
    {"tokens are uniform and below the vocabulary", tokens_are_uniform},
    {"dropout's threshold and scale", dropout_threshold_and_scale},
};
TEST_MAIN(cases)
