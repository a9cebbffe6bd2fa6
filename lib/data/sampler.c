#include "lib/data/sampler.h"

#include "lib/base/random.h"

enum { ROUNDS = 8 };

uint64_t dt_sampler_steps(const struct dt_sampler *s)
{
    return s->count / s->batch + (s->last == DT_LAST_PADDED && s->count % s->batch > 0);
}

/* Bits of one half, such that two equal halves can number all samples. */
static int half_bits(uint64_t count)
{
    int bits = 1;
    while (2 * bits < 64 && (count - 1) >> (2 * bits))
        bits++;
    return bits;
}

/* A permutation of [0, 4^bits). */
static uint64_t feistel(uint64_t seed, uint64_t epoch, int bits, uint64_t number)
{
    uint32_t mask = (uint32_t)((1ull << bits) - 1), left = (uint32_t)(number >> bits), right = (uint32_t)number & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t word =
            dt_philox4x32(seed, right, round, (uint32_t)epoch, (uint32_t)DT_RANDOM_SAMPLE << 24 | (uint32_t)(epoch >> 32)).word[0];
        uint32_t next = left ^ (word & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << bits | right;
}

/* Numbers outside the data set are permuted again ("cycle walking"): this ends, and no two
 * positions get the same sample. */
static uint64_t permuted(const struct dt_sampler *s, uint64_t epoch, uint64_t place)
{
    int bits = half_bits(s->count);
    do
        place = feistel(s->seed, epoch, bits, place);
    while (place >= s->count);
    return place;
}

uint64_t dt_sampler_at(const struct dt_sampler *s, uint64_t position)
{
    uint64_t length = dt_sampler_steps(s) * s->batch, place = position % length % s->count;
    return s->shuffled ? permuted(s, position / length, place) : place;
}
